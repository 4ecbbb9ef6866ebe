// SPDX-License-Identifier: MIT
// One request on its way: which tokens come next, what its text is so far, and when it ends. Knows no engine.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampler.h"
#include "kvase/generate.h"
#include "text/reasoning.h"
#include "text/stop_finder.h"
#include "text/utf8.h"

namespace kvase {

class Answer {
 public:
  // limit: most tokens to generate. Throws Error(invalid_argument): sampling or stop strings.
  Answer(const Model& model, const GenerateRequest& request, const GenerateHooks& hooks, int64_t limit);

  // What to feed next: a piece of the prompt of at most `most` tokens, or the token chosen last. Valid until
  // fed().
  std::span<const Token> next_tokens(uint32_t most) const;

  // The logits behind the n tokens of next_tokens(). Nothing is drawn before the prompt's end.
  void choose(size_t n_tokens, std::span<const float> logits);

  // next_tokens() were processed: shows and judges what was chosen.
  void fed(size_t n_tokens);

  bool finished() const { return finish_reason_.has_value(); }
  bool wants_to_stop() const { return hooks_.should_stop && hooks_.should_stop(); }
  void finish(FinishReason reason);

  // REQUIRES: finished().
  GenerateResult result(const CacheState& cache) const;

 private:
  using Clock = std::chrono::steady_clock;

  bool in_prompt() const { return n_fed_ < request_.prompt.size(); }
  void take(Token token);
  void end_thinking_if_over_budget();
  std::string piece(Token token) const;
  void show(std::string_view text);
  void show_part(const TextPart& part);
  void show_answer(const std::string& text);

  Model model_;
  GenerateRequest request_;
  GenerateHooks hooks_;
  int64_t limit_;
  Sampler sampler_;
  Utf8Assembler assembler_;
  std::optional<ReasoningSplitter> splitter_;
  StopFinder stop_finder_;
  std::vector<Token>
      marks_;  // tokens that are a reasoning mark of their own; control tokens in some vocabularies
  std::deque<Token> forced_;     // tokens to take instead of sampled ones
  int64_t n_thinking_ = 0;       // tokens taken inside thinking
  bool thinking_ended_ = false;  // by us
  size_t n_fed_ = 0;             // of the prompt
  Token chosen_ = 0;
  Token pending_ = 0;  // taken, not fed yet
  std::vector<Token> tokens_;
  std::string text_, thinking_;
  std::optional<FinishReason> finish_reason_;
  Clock::time_point start_ = Clock::now();
  std::optional<Clock::time_point> first_token_;
  Clock::time_point end_;
};

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Token to bytes to characters to thinking or answer to what may be shown; and the rules that end an answer.
#include "engine/answer.h"

#include <algorithm>

#include "base/check.h"

namespace kvase {
namespace {

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Answer::Answer(const Model& model, const GenerateRequest& request, const GenerateHooks& hooks, int64_t limit)
    : model_(model),
      request_(request),
      hooks_(hooks),
      limit_(limit),
      sampler_(request.sampling, model.info().n_vocab),
      stop_finder_(request.stop) {
  if (!request_.reasoning) return;
  splitter_.emplace(*request_.reasoning, request_.starts_in_thinking);
  for (const std::string& mark : {request_.reasoning->open, request_.reasoning->close}) {
    const std::vector<Token> tokens = model_.tokenize(mark, /*add_special=*/false, /*parse_special=*/true);
    if (tokens.size() == 1) marks_.push_back(tokens[0]);
  }
}

std::span<const Token> Answer::next_tokens(uint32_t most) const {
  if (!in_prompt()) return {&pending_, 1};
  const std::span<const Token> rest = std::span(request_.prompt).subspan(n_fed_);
  return rest.first(std::min<size_t>(rest.size(), most));
}

void Answer::choose(size_t n_tokens, std::span<const float> logits) {
  if (n_fed_ + n_tokens < request_.prompt.size()) return;
  chosen_ = sampler_.sample(logits, static_cast<uint32_t>(request_.prompt.size() + tokens_.size()));
}

void Answer::fed(size_t n_tokens) {
  if (in_prompt()) {
    n_fed_ += n_tokens;
    if (hooks_.on_prefill) hooks_.on_prefill(n_fed_, request_.prompt.size());
    if (in_prompt()) return;
    first_token_ = Clock::now();
    if (limit_ == 0) return finish(FinishReason::length);
  }
  end_thinking_if_over_budget();
  if (forced_.empty()) {
    take(chosen_);
  } else {
    const Token token = forced_.front();
    forced_.pop_front();
    take(token);
  }
}

void Answer::end_thinking_if_over_budget() {
  const bool over = splitter_ && splitter_->inside() && request_.thinking_budget >= 0 &&
                    n_thinking_ >= request_.thinking_budget;
  if (!over || thinking_ended_) return;
  thinking_ended_ = true;
  const std::vector<Token> message =
      model_.tokenize(request_.thinking_end + request_.reasoning->close + "\n\n", /*add_special=*/false,
                      /*parse_special=*/true);
  forced_.assign(message.begin(), message.end());
}

void Answer::take(Token token) {
  if (model_.is_end(token) && !request_.ignore_end) return finish(FinishReason::stop);
  if (splitter_ && splitter_->inside()) ++n_thinking_;
  tokens_.push_back(token);
  pending_ = token;
  show(assembler_.push(piece(token)));
  if (stop_finder_.stopped()) return finish(FinishReason::stop);
  if (static_cast<int64_t>(tokens_.size()) == limit_) finish(FinishReason::length);
}

std::string Answer::piece(Token token) const {
  const bool is_mark = std::ranges::find(marks_, token) != marks_.end();
  return model_.piece(token, /*special=*/is_mark);
}

void Answer::show(std::string_view text) {
  if (text.empty()) return;
  if (!splitter_) return show_answer(stop_finder_.push(text));
  for (const TextPart& part : splitter_->push(text)) show_part(part);
}

void Answer::show_part(const TextPart& part) {
  if (!part.thinking) return show_answer(stop_finder_.push(part.text));
  thinking_ += part.text;
  if (hooks_.on_thinking && !part.text.empty()) hooks_.on_thinking(part.text);
}

void Answer::show_answer(const std::string& text) {
  text_ += text;
  if (hooks_.on_text && !text.empty()) hooks_.on_text(text);
}

// What was held back can no longer become a character, a mark or a stop string.
void Answer::finish(FinishReason reason) {
  KVASE_CHECK(!finished(), "an answer ends once");
  show(assembler_.flush());
  if (splitter_) {
    for (const TextPart& part : splitter_->flush()) show_part(part);
  }
  show_answer(stop_finder_.flush());
  finish_reason_ = reason;
  end_ = Clock::now();
}

GenerateResult Answer::result(const CacheState& cache) const {
  KVASE_CHECK(finished(), "no result of an answer that runs");
  GenerateResult result;
  result.text = text_;
  result.thinking = thinking_;
  result.tokens = tokens_;
  result.finish_reason = *finish_reason_;
  result.n_prompt = request_.prompt.size();
  result.seed = request_.sampling.seed;
  result.prefill_seconds = seconds(first_token_.value_or(end_) - start_);
  result.decode_seconds = seconds(end_ - first_token_.value_or(end_));
  result.cache = cache;
  return result;
}

}  // namespace kvase

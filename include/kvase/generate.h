// SPDX-License-Identifier: MIT
// Text in, text out: answers to prompts on an engine, one or many at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvase/engine.h"
#include "kvase/text.h"

namespace kvase {

struct GenerateRequest {
  std::vector<Token> prompt;  // not empty
  SamplingOptions sampling = {};
  int64_t n_predict =
      -1;  // most tokens to generate; -1: until the model ends or its trained context is reached

  bool ignore_end =
      false;  // go on past the model's ending tokens, which show no text: to fill a cache, to measure

  // The answer ends before the first of these, wherever tokens cut it; thinking is not searched. None may be
  // empty.
  std::vector<std::string> stop = {};

  // Tells thinking apart from the answer, by these marks. Without: everything is answer.
  std::optional<ReasoningMarks> reasoning = {};
  bool starts_in_thinking = false;  // the prompt ends inside an opening mark, as R1's template does
  // Most tokens of thinking, -1: no limit. Then thinking_end and the closing mark are put into the text as if
  // the model had written them, and the answer follows. Read with `reasoning` only.
  int64_t thinking_budget = -1;
  std::string thinking_end = "\nI have thought long enough; here is my answer.\n";
};

enum class FinishReason : uint8_t { stop, length, cancelled };
const char* finish_reason_name(FinishReason reason) noexcept;

struct GenerateResult {
  std::string text;           // the answer, valid UTF-8
  std::string thinking;       // what `reasoning` set apart
  std::vector<Token> tokens;  // generated, the ending token not included
  FinishReason finish_reason = FinishReason::stop;
  size_t n_prompt = 0;
  uint64_t seed = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;  // of the tokens after the first
  CacheState cache;
};

struct GenerateHooks {
  std::function<void(std::string_view)> on_text =
      {};  // whole UTF-8 characters only; never part of a stop string
  std::function<void(std::string_view)> on_thinking = {};  // likewise
  std::function<bool()> should_stop = {};                  // asked between tokens and between prompt steps
  std::function<void(size_t done, size_t total)> on_prefill = {};
};

// Opens a sequence, answers, closes it. Throws Error as Engine::advance(), and invalid_argument for an empty
// prompt, a sampling option out of range, or a prompt that does not fit (`full`, Prefill::whole).
GenerateResult generate(Engine& engine, const GenerateRequest& request, const GenerateHooks& hooks = {});

// Many answers at once: each step advances every running one by a token or by a piece of its prompt. Requests
// beyond the engine's places wait. An answer does not depend on what runs beside it, as far as
// docs/decisions/0003 promises.
//
// One thread at a time may use a Batch; its engine must do nothing else meanwhile.
class Batch {
 public:
  using RequestId = uint64_t;
  using OnDone = std::function<void(const GenerateResult&)>;

  explicit Batch(Engine& engine);
  ~Batch();  // cancels what runs, without calling back
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // At any time, also between two steps of others. Throws as generate(); then nothing was queued.
  RequestId submit(const GenerateRequest& request, const GenerateHooks& hooks, const OnDone& on_done);

  // Ends a request at once: its rows are free, its on_done is called with what there is. Unknown or finished
  // ids: nothing.
  void cancel(RequestId request);

  // One step of everything. False: nothing is left to do. Throws Error(device); then every request was
  // cancelled.
  bool step();

  size_t n_running() const;
  size_t n_waiting() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Throws Error(invalid_argument) naming the field, the value and the range.
void check_sampling(const SamplingOptions& sampling);

}  // namespace kvase

// SPDX-License-Identifier: MIT
// One answer: prefill, then sample, show, advance until something ends it.
#include "kvase/generate.h"

#include <algorithm>
#include <chrono>

#include "base/errors.h"
#include "engine/sampler.h"
#include "text/utf8.h"

namespace kvase {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Closes the sequence however the answer ends.
class OpenSequence {
 public:
  OpenSequence(Engine& engine, const SequenceOptions& options)
      : engine_(&engine), id_(engine.open(options)) {}
  ~OpenSequence() { engine_->close(id_); }
  OpenSequence(const OpenSequence&) = delete;
  OpenSequence& operator=(const OpenSequence&) = delete;
  SequenceId id() const { return id_; }

 private:
  Engine* engine_;
  SequenceId id_;
};

void check_prompt(const Engine& engine, size_t n_prompt) {
  const MemoryPlan& plan = engine.plan();
  if (n_prompt == 0) invalid("prompt: found 0 tokens, allowed: 1 or more");
  const bool holds_all = !plan.evicts || plan.prefill == Prefill::whole;
  const uint32_t longest = plan.evicts ? plan.capacity - plan.shape.interval : plan.capacity;
  if (holds_all && n_prompt > longest) {
    invalid(
        "prompt: found {} tokens, allowed: {} with {} (a larger -c, or a policy that evicts with --prefill "
        "bounded)",
        n_prompt, longest, plan.evicts ? "--prefill whole" : "full");
  }
}

// Most tokens to generate: what was asked for, else what is left of the trained context.
int64_t token_limit(const Engine& engine, const GenerateRequest& request) {
  if (request.n_predict < -1) invalid("-n {}, allowed: -1 or more", request.n_predict);
  if (request.n_predict >= 0) return request.n_predict;
  return std::max<int64_t>(
      0, int64_t{engine.model().info().n_ctx_train} - static_cast<int64_t>(request.prompt.size()));
}

}  // namespace

const char* finish_reason_name(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "unknown";
}

GenerateResult generate(Engine& engine, const GenerateRequest& request, const GenerateHooks& hooks) {
  check_prompt(engine, request.prompt.size());
  const int64_t limit = token_limit(engine, request);
  const Model& model = engine.model();
  Sampler sampler(request.sampling, model.info().n_vocab);
  const OpenSequence sequence(engine, {.seed = request.sampling.seed,
                                       .sample = request.sampling.sample,
                                       .n_prompt = static_cast<uint32_t>(request.prompt.size())});
  GenerateResult result;
  result.n_prompt = request.prompt.size();
  result.seed = request.sampling.seed;

  Utf8Assembler assembler;
  const auto show = [&](const std::string& text) {
    if (text.empty()) return;
    result.text += text;
    if (hooks.on_text) hooks.on_text(text);
  };
  Token next = 0;
  const auto feed = [&](std::span<const Token> tokens,
                        const std::function<void(size_t, size_t)>& on_progress) {
    const Feed one{.sequence = sequence.id(), .tokens = tokens, .logits = WantLogits::last};
    const auto sample = [&](size_t, size_t, std::span<const float> logits) {
      next = sampler.sample(logits, static_cast<uint32_t>(result.n_prompt + result.tokens.size()));
    };
    return engine.advance(
        {&one, 1}, {.on_logits = sample, .should_stop = hooks.should_stop, .on_progress = on_progress});
  };

  const auto prefill_start = std::chrono::steady_clock::now();
  Advance status = feed(request.prompt, hooks.on_prefill);
  result.prefill_seconds = seconds_since(prefill_start);
  const auto decode_start = std::chrono::steady_clock::now();
  result.finish_reason = FinishReason::length;
  while (status == Advance::done && static_cast<int64_t>(result.tokens.size()) < limit) {
    if (model.is_end(next)) {
      result.finish_reason = FinishReason::stop;
      break;
    }
    const Token token = next;
    result.tokens.push_back(token);
    show(assembler.push(model.piece(token)));
    if (static_cast<int64_t>(result.tokens.size()) == limit) break;  // the last token is never fed
    status = feed({&token, 1}, {});
  }
  if (status == Advance::cancelled) result.finish_reason = FinishReason::cancelled;
  show(assembler.flush());
  result.decode_seconds = seconds_since(decode_start);
  result.cache = engine.state(sequence.id());
  return result;
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Answers on an engine: a queue, a place for each running one, and one step for all of them.
#include "kvase/generate.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "base/errors.h"
#include "engine/answer.h"

namespace kvase {
namespace {

// Tokens that the engine can hold of one sequence: positions, and slots where nothing is evicted.
int64_t longest_text(const MemoryPlan& plan) {
  return plan.evicts ? std::numeric_limits<int32_t>::max() : int64_t{plan.capacity};
}

void check_prompt(const Engine& engine, size_t n_prompt) {
  const MemoryPlan& plan = engine.plan();
  if (n_prompt == 0) invalid("prompt: found 0 tokens, allowed: 1 or more");
  const bool holds_prompt = plan.evicts && plan.prefill == Prefill::whole;
  const int64_t longest = holds_prompt ? int64_t{plan.capacity} - plan.shape.interval : longest_text(plan);
  if (static_cast<int64_t>(n_prompt) > longest) {
    invalid(
        "prompt: found {} tokens, allowed: {} with {} (a larger -c, or a policy that evicts with --prefill "
        "bounded)",
        n_prompt, longest, holds_prompt ? "--prefill whole" : plan.policy);
  }
}

// Most tokens to generate: what was asked for, else what is left of the trained context; never beyond what
// can be held.
int64_t token_limit(const Engine& engine, const GenerateRequest& request) {
  if (request.n_predict < -1) invalid("-n {}, allowed: -1 or more", request.n_predict);
  const auto n_prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t trained = std::max<int64_t>(0, int64_t{engine.model().info().n_ctx_train} - n_prompt);
  const int64_t wanted = request.n_predict >= 0 ? request.n_predict : trained;
  return std::min(wanted, longest_text(engine.plan()) - n_prompt);
}

void check_request(const Engine& engine, const GenerateRequest& request) {
  check_prompt(engine, request.prompt.size());
  const Token n_vocab = static_cast<Token>(engine.model().info().n_vocab);
  for (const Token token : request.prompt) {
    if (token < 0 || token >= n_vocab) invalid("prompt: found token {}, allowed: 0..{}", token, n_vocab - 1);
  }
  if (request.thinking_budget < -1)
    invalid("--think-budget {}, allowed: -1 or more", request.thinking_budget);
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

struct Batch::Impl {
  struct Entry {
    RequestId id = 0;
    SequenceOptions sequence_options;
    std::unique_ptr<Answer> answer;
    OnDone on_done;
    std::optional<SequenceId> sequence;  // while running
  };

  void admit();
  void cancel_those_who_ask();
  void retire(const Entry& entry);
  void retire_finished();
  void abandon();

  Engine* engine = nullptr;
  RequestId next_id = 1;
  std::deque<Entry> running;
  std::deque<Entry> waiting;
};

Batch::Batch(Engine& engine) : impl_(std::make_unique<Impl>()) { impl_->engine = &engine; }
Batch::~Batch() { impl_->abandon(); }

size_t Batch::n_running() const { return impl_->running.size(); }
size_t Batch::n_waiting() const { return impl_->waiting.size(); }

Batch::RequestId Batch::submit(const GenerateRequest& request, const GenerateHooks& hooks,
                               const OnDone& on_done) {
  check_request(*impl_->engine, request);
  auto answer =
      std::make_unique<Answer>(impl_->engine->model(), request, hooks, token_limit(*impl_->engine, request));
  const RequestId id = impl_->next_id++;
  impl_->waiting.push_back({.id = id,
                            .sequence_options = {.seed = request.sampling.seed,
                                                 .sample = request.sampling.sample,
                                                 .n_prompt = static_cast<uint32_t>(request.prompt.size())},
                            .answer = std::move(answer),
                            .on_done = on_done,
                            .sequence = std::nullopt});
  return id;
}

void Batch::cancel(RequestId request) {
  for (std::deque<Impl::Entry>* queue : {&impl_->running, &impl_->waiting}) {
    const auto entry = std::ranges::find(*queue, request, &Impl::Entry::id);
    if (entry == queue->end()) continue;
    entry->answer->finish(FinishReason::cancelled);
    const Impl::Entry ended = std::move(*entry);
    queue->erase(entry);
    impl_->retire(ended);
    return;
  }
}

bool Batch::step() {
  impl_->cancel_those_who_ask();
  impl_->admit();
  if (impl_->running.empty()) return false;
  std::vector<Feed> feeds;
  for (const Impl::Entry& entry : impl_->running) {
    feeds.push_back({.sequence = *entry.sequence,
                     .tokens = entry.answer->next_tokens(impl_->engine->step_limit(*entry.sequence)),
                     .logits = WantLogits::last});
  }
  const auto choose = [&](size_t feed, size_t, std::span<const float> logits) {
    impl_->running[feed].answer->choose(feeds[feed].tokens.size(), logits);
  };
  try {
    impl_->engine->advance(feeds, {.on_logits = choose, .should_stop = {}, .on_progress = {}});
  } catch (...) {
    impl_->abandon();
    throw;
  }
  for (size_t index = 0; index < feeds.size(); ++index)
    impl_->running[index].answer->fed(feeds[index].tokens.size());
  impl_->retire_finished();
  return !impl_->running.empty() || !impl_->waiting.empty();
}

void Batch::Impl::admit() {
  while (!waiting.empty() && running.size() < engine->options().n_sequences) {
    running.push_back(std::move(waiting.front()));
    waiting.pop_front();
    running.back().sequence = engine->open(running.back().sequence_options);
  }
}

void Batch::Impl::cancel_those_who_ask() {
  for (const std::deque<Entry>* queue : {&running, &waiting}) {
    for (const Entry& entry : *queue) {
      if (entry.answer->wants_to_stop()) entry.answer->finish(FinishReason::cancelled);
    }
  }
  retire_finished();
}

// Frees the place first, so that on_done may submit again.
void Batch::Impl::retire(const Entry& entry) {
  CacheState cache;
  if (entry.sequence) {
    cache = engine->state(*entry.sequence);
    engine->close(*entry.sequence);
  }
  if (entry.on_done) entry.on_done(entry.answer->result(cache));
}

void Batch::Impl::retire_finished() {
  std::vector<Entry> ended;
  for (std::deque<Entry>* queue : {&running, &waiting}) {
    const auto first = std::stable_partition(queue->begin(), queue->end(),
                                             [](const Entry& entry) { return !entry.answer->finished(); });
    std::move(first, queue->end(), std::back_inserter(ended));
    queue->erase(first, queue->end());
  }
  for (const Entry& entry : ended) retire(entry);
}

void Batch::Impl::abandon() {
  for (const Entry& entry : running) engine->close(*entry.sequence);
  running.clear();
  waiting.clear();
}

GenerateResult generate(Engine& engine, const GenerateRequest& request, const GenerateHooks& hooks) {
  Batch batch(engine);
  GenerateResult result;
  batch.submit(request, hooks, [&](const GenerateResult& done) { result = done; });
  while (batch.step()) {
  }
  return result;
}

}  // namespace kvase

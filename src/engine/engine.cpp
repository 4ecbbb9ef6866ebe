// SPDX-License-Identifier: MIT
// advance(): cut feeds into steps at event borders, run them, evict.
#include "kvase/engine.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "attention/cached_attention.h"
#include "base/check.h"
#include "base/cores.h"
#include "base/errors.h"
#include "engine/cache_plan.h"
#include "engine/event.h"
#include "engine/graph_runner.h"
#include "engine/model.h"
#include "model/decoder.h"

namespace kvase {
namespace {

// Most rows of logits that one step computes; bounds scratch memory (n_vocab floats each).
constexpr uint32_t kMaxOutputs = 32;

struct Sequence {
  bool open = false;
  SequenceOptions options;
  int64_t n_seen = 0;
  double evict_ms = 0;
  std::vector<uint32_t> n_events = {};  // per layer
  std::vector<uint32_t> trigger = {};   // per layer: length at which the next event comes
};

// The tokens of one feed that a step takes.
struct Chunk {
  size_t feed = 0;
  size_t first = 0;  // in the feed's tokens
  uint32_t n = 0;
};

EngineOptions complete(EngineOptions options) {
  if (options.n_threads == 0) options.n_threads = usable_cores();
  if (options.n_threads > 512) invalid("-t {}, allowed: 1..512", options.n_threads);
  if (options.n_ubatch < 1 || options.n_ubatch > 4096) invalid("-ub {}, allowed: 1..4096", options.n_ubatch);
  return options;
}

}  // namespace

struct Engine::Impl {
  Impl(const Model& handle, const EngineOptions& given);

  Sequence& opened(SequenceId id);
  bool fits(const Sequence& sequence, size_t n_tokens) const;
  void check_feeds(std::span<const Feed> feeds);
  uint32_t chunk_limit(const Feed& feed) const;
  std::vector<Chunk> next_step(std::span<const Feed> feeds, std::span<const size_t> done) const;
  void run_step(std::span<const Feed> feeds, std::span<const Chunk> chunks, const AdvanceHooks& hooks);
  void commit(SequenceId id, uint32_t n);
  void evict(SequenceId id, std::span<const uint32_t> layers);
  void watch_mass(SequenceId id, uint32_t layer);

  Model model;
  EngineOptions options;
  CachePlan plan;
  Compute compute;
  CacheMemory memory;
  CachedAttention attention;
  Decoder decoder;
  GraphRunner graphs;
  EventRunner events;
  std::vector<Sequence> sequences;
};

Engine::Impl::Impl(const Model& handle, const EngineOptions& given)
    : model(handle),
      options(complete(given)),
      plan(make_cache_plan(model.info(), options.cache, options.n_sequences)),
      compute(options.n_threads),
      memory(plan, compute.backend()),
      attention(memory.cache, memory.columns, model.info().n_heads, model.impl().params.attention_scale,
                options.n_threads),
      decoder(model.impl().params, *model.impl().family, model.impl().weights),
      graphs(compute, decoder, attention, options.n_ubatch + options.n_sequences - 1,
             std::min(options.n_ubatch, kMaxOutputs) + options.n_sequences - 1),
      events(compute, memory, plan),
      sequences(options.n_sequences) {}

Engine::Engine(const Model& model, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(model, options)) {}
Engine::~Engine() = default;

const MemoryPlan& Engine::plan() const { return impl_->plan.memory; }
const EngineOptions& Engine::options() const { return impl_->options; }
const Model& Engine::model() const { return impl_->model; }

SequenceId Engine::open(const SequenceOptions& options) {
  const auto place = std::ranges::find(impl_->sequences, false, &Sequence::open);
  if (place == impl_->sequences.end()) {
    invalid("engine: found {} open sequences, allowed: {}", impl_->sequences.size(), impl_->sequences.size());
  }
  const auto id = static_cast<SequenceId>(place - impl_->sequences.begin());
  *place = Sequence{
      .open = true, .options = options, .n_events = std::vector<uint32_t>(impl_->plan.dims.n_layers, 0)};
  for (uint32_t layer = 0; layer < impl_->plan.dims.n_layers; ++layer) {
    place->trigger.push_back(first_trigger(impl_->plan, layer, options.n_prompt));
    impl_->watch_mass(id, layer);
  }
  return id;
}

void Engine::close(SequenceId sequence) {
  impl_->opened(sequence).open = false;
  impl_->memory.cache.clear(sequence);
  for (uint32_t layer = 0; layer < impl_->plan.dims.n_layers; ++layer)
    impl_->memory.columns.clear_mass(layer, sequence);
}

CacheState Engine::state(SequenceId id) const {
  const Sequence& sequence = impl_->opened(id);
  CacheState state{.n_seen = sequence.n_seen,
                   .n_kept = 0,
                   .n_evictions = *std::ranges::max_element(sequence.n_events),
                   .evict_ms = sequence.evict_ms};
  for (uint32_t layer = 0; layer < impl_->plan.dims.n_layers; ++layer) {
    state.n_kept = std::max(state.n_kept, impl_->memory.cache.length(layer, id));
  }
  return state;
}

void Engine::observe_events(EventObserver observer) { impl_->events.observe(std::move(observer)); }

uint32_t Engine::step_limit(SequenceId sequence) const {
  impl_->opened(sequence);
  return impl_->chunk_limit({.sequence = sequence, .tokens = {}, .logits = WantLogits::last});
}

std::vector<int32_t> Engine::kept_positions(SequenceId sequence, uint32_t layer, uint32_t kv_head) const {
  impl_->opened(sequence);
  const CacheDims& dims = impl_->plan.dims;
  if (layer >= dims.n_layers || kv_head >= dims.n_kv_heads) {
    invalid("engine: found layer {}, KV head {}, allowed: 0..{}, 0..{}", layer, kv_head, dims.n_layers - 1,
            dims.n_kv_heads - 1);
  }
  const auto all = impl_->memory.cache.pos(layer, sequence, kv_head);
  std::vector<int32_t> positions(all.begin(), all.begin() + impl_->memory.cache.length(layer, sequence));
  std::ranges::sort(positions);
  return positions;
}

Sequence& Engine::Impl::opened(SequenceId id) {
  if (id >= sequences.size() || !sequences[id].open)
    invalid("engine: found sequence {}, allowed: an open one", id);
  return sequences[id];
}

// Whether positions, and for `full` slots, suffice. A policy that evicts makes room as it goes.
bool Engine::Impl::fits(const Sequence& sequence, size_t n_tokens) const {
  const auto end = static_cast<uint64_t>(sequence.n_seen) + n_tokens;
  if (end > std::numeric_limits<int32_t>::max()) return false;
  if (!plan.memory.evicts) return end <= plan.memory.capacity;
  return plan.memory.prefill == Prefill::bounded || sequence.options.n_prompt <= plan.n_ctx;
}

void Engine::Impl::check_feeds(std::span<const Feed> feeds) {
  std::vector<bool> fed(sequences.size(), false);
  const auto n_vocab = static_cast<Token>(model.info().n_vocab);
  for (const Feed& feed : feeds) {
    opened(feed.sequence);
    if (fed[feed.sequence]) invalid("engine: found sequence {} in two feeds, allowed: one", feed.sequence);
    fed[feed.sequence] = true;
    if (feed.tokens.empty())
      invalid("engine: found no tokens for sequence {}, allowed: 1 or more", feed.sequence);
    for (const Token token : feed.tokens) {
      if (token < 0 || token >= n_vocab)
        invalid("engine: found token {}, allowed: 0..{}", token, n_vocab - 1);
    }
  }
}

// A chunk never crosses an event; its size follows from its own sequence and request, never from the others.
uint32_t Engine::Impl::chunk_limit(const Feed& feed) const {
  uint32_t free = std::numeric_limits<uint32_t>::max();
  for (uint32_t layer = 0; layer < plan.dims.n_layers; ++layer) {
    free =
        std::min(free, sequences[feed.sequence].trigger[layer] - memory.cache.length(layer, feed.sequence));
  }
  const uint32_t step =
      feed.logits == WantLogits::all ? std::min(options.n_ubatch, kMaxOutputs) : options.n_ubatch;
  return std::min(free, step);
}

// Whole chunks, in order of feeds, as long as a step has room; the first always fits.
std::vector<Chunk> Engine::Impl::next_step(std::span<const Feed> feeds, std::span<const size_t> done) const {
  std::vector<Chunk> chunks;
  uint32_t n_tokens = 0;
  uint32_t n_outputs = 0;
  for (size_t feed = 0; feed < feeds.size(); ++feed) {
    const size_t remaining = feeds[feed].tokens.size() - done[feed];
    const auto n = static_cast<uint32_t>(std::min<size_t>(remaining, chunk_limit(feeds[feed])));
    const uint32_t outputs = feeds[feed].logits == WantLogits::all ? n : 1;
    const bool has_room =
        n_tokens + n <= options.n_ubatch + options.n_sequences - 1 &&
        n_outputs + outputs <= std::min(options.n_ubatch, kMaxOutputs) + options.n_sequences - 1;
    if (n == 0 || !has_room) continue;
    chunks.push_back({feed, done[feed], n});
    n_tokens += n;
    n_outputs += outputs;
  }
  return chunks;
}

Advance Engine::advance(std::span<const Feed> feeds, const AdvanceHooks& hooks) {
  impl_->check_feeds(feeds);
  size_t total = 0;
  for (const Feed& feed : feeds) {
    if (!impl_->fits(impl_->sequences[feed.sequence], feed.tokens.size())) return Advance::context_full;
    total += feed.tokens.size();
  }
  std::vector<size_t> done(feeds.size(), 0);
  size_t n_done = 0;
  while (n_done < total) {
    if (hooks.should_stop && hooks.should_stop()) return Advance::cancelled;
    const std::vector<Chunk> chunks = impl_->next_step(feeds, done);
    KVASE_CHECK(!chunks.empty(), "no progress after {} of {} tokens", n_done, total);
    impl_->run_step(feeds, chunks, hooks);
    for (const Chunk& chunk : chunks) {
      done[chunk.feed] += chunk.n;
      n_done += chunk.n;
    }
    if (hooks.on_progress) hooks.on_progress(n_done, total);
  }
  return Advance::done;
}

void Engine::Impl::run_step(std::span<const Feed> feeds, std::span<const Chunk> chunks,
                            const AdvanceHooks& hooks) {
  std::vector<Token> tokens;
  std::vector<int32_t> pos;
  std::vector<int32_t> outputs;
  std::vector<StepToken> step;
  for (const Chunk& chunk : chunks) {
    const Feed& feed = feeds[chunk.feed];
    for (uint32_t offset = 0; offset < chunk.n; ++offset) {
      if (feed.logits == WantLogits::all || offset + 1 == chunk.n)
        outputs.push_back(static_cast<int32_t>(tokens.size()));
      tokens.push_back(feed.tokens[chunk.first + offset]);
      pos.push_back(static_cast<int32_t>(sequences[feed.sequence].n_seen + offset));
      step.push_back({feed.sequence, offset, pos.back()});
    }
  }
  attention.set_step(std::move(step));
  const std::span<const float> logits = graphs.run(tokens, pos, outputs);

  const size_t n_vocab = model.info().n_vocab;
  size_t row = 0;
  for (const Chunk& chunk : chunks) {
    const Feed& feed = feeds[chunk.feed];
    for (uint32_t offset = 0; offset < chunk.n; ++offset) {
      const bool has_row = feed.logits == WantLogits::all || offset + 1 == chunk.n;
      if (!has_row) continue;
      const std::span<const float> values = logits.subspan(row++ * n_vocab, n_vocab);
      const size_t token_index = chunk.first + offset;
      const bool wanted = feed.logits == WantLogits::all || token_index + 1 == feed.tokens.size();
      if (wanted && hooks.on_logits) hooks.on_logits(chunk.feed, token_index, values);
    }
    commit(feed.sequence, chunk.n);
  }
}

void Engine::Impl::commit(SequenceId id, uint32_t n) {
  Sequence& sequence = sequences[id];
  sequence.n_seen += n;
  std::vector<uint32_t> due;
  for (uint32_t layer = 0; layer < plan.dims.n_layers; ++layer) {
    memory.cache.commit(layer, id, n);
    if (plan.memory.evicts && memory.cache.length(layer, id) == sequence.trigger[layer]) due.push_back(layer);
  }
  if (!due.empty()) evict(id, due);
}

void Engine::Impl::evict(SequenceId id, std::span<const uint32_t> layers) {
  const auto start = std::chrono::steady_clock::now();
  Sequence& sequence = sequences[id];
  std::vector<EventContext> layer_events;
  for (const uint32_t layer : layers) {
    layer_events.push_back({.seed = sequence.options.seed,
                            .sequence = sequence.options.sample,
                            .layer = layer,
                            .event = sequence.n_events[layer],
                            .n_seen = sequence.n_seen,
                            .window = plan.memory.shape.window,
                            .n_sink = plan.memory.shape.n_sink});
  }
  events.run(id, layer_events);
  for (const uint32_t layer : layers) {
    ++sequence.n_events[layer];
    sequence.trigger[layer] = plan.budgets[layer] + plan.memory.shape.interval;
    watch_mass(id, layer);
  }
  sequence.evict_ms +=
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Which queries add to mass before the next event.
void Engine::Impl::watch_mass(SequenceId id, uint32_t layer) {
  const uint32_t event_length = plan.memory.evicts ? sequences[id].trigger[layer] : kNoMass;
  attention.watch_mass(layer, id, event_length, plan.memory.shape.window);
}

}  // namespace kvase

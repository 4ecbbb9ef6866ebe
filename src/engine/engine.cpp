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

// What a call of advance() and its steps write down. Allocated once, so that steps allocate nothing.
struct Notes {
  Notes(uint32_t max_tokens, uint32_t n_sequences, uint32_t n_layers) {
    done.reserve(n_sequences);
    is_fed.reserve(n_sequences);
    chunks.reserve(n_sequences);
    tokens.reserve(max_tokens);
    pos.reserve(max_tokens);
    outputs.reserve(max_tokens);
    step.reserve(max_tokens);
    due.reserve(n_layers);
  }

  std::vector<size_t> done;      // tokens of each feed that were processed
  std::vector<char> is_fed;      // of each sequence: in this call
  std::vector<Chunk> chunks;     // of the step
  std::vector<Token> tokens;     // of the step
  std::vector<int32_t> pos;      // of the step's tokens
  std::vector<int32_t> outputs;  // the step's tokens whose logits are computed
  std::vector<StepToken> step;
  std::vector<EventContext> due;  // the events that come after the step, a layer each
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
  void plan_step(std::span<const Feed> feeds);
  void run_step(std::span<const Feed> feeds, const AdvanceHooks& hooks);
  uint64_t bytes_read(SequenceId id) const;
  void commit(SequenceId id, uint32_t n);
  void evict(SequenceId id);
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
  Notes notes;
  double events_ms = 0;
  uint64_t attention_bytes = 0;
};

Engine::Impl::Impl(const Model& handle, const EngineOptions& given)
    : model(handle),
      options(complete(given)),
      plan(make_cache_plan(model.info(), options.cache, options.n_sequences)),
      compute(options.n_threads),
      memory(plan, compute.backend()),
      attention(memory.cache, memory.columns, model.info().n_heads, model.impl().params.attention_scale,
                options.n_threads, plan.maps.get()),
      decoder(model.impl().params, *model.impl().family, model.impl().weights),
      graphs(compute, decoder, attention, options.n_ubatch + options.n_sequences - 1,
             std::min(options.n_ubatch, kMaxOutputs) + options.n_sequences - 1),
      events(compute, memory, plan),
      sequences(options.n_sequences),
      notes(options.n_ubatch + options.n_sequences - 1, options.n_sequences, plan.dims.n_layers) {}

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

EngineTimes Engine::times() const {
  return {.attention_ms = impl_->attention.attention_ms(),
          .mass_ms = impl_->attention.mass_ms(),
          .statistics_ms = impl_->events.statistics_ms(),
          .events_ms = impl_->events_ms,
          .attention_bytes = impl_->attention_bytes};
}

void Engine::pretend_seen(SequenceId id, int64_t n_seen) {
  Sequence& sequence = impl_->opened(id);
  const auto n = n_seen - sequence.n_seen;
  if (sequence.n_seen == 0 || n < 0 || !impl_->fits(sequence, static_cast<size_t>(n))) {
    invalid("engine: found {} tokens to pretend after {}, allowed: no fewer, and what the cache holds",
            n_seen, sequence.n_seen);
  }
  const CachePlan& plan = impl_->plan;
  for (uint32_t layer = 0; !plan.memory.evicts && layer < plan.dims.n_layers; ++layer)
    impl_->memory.cache.repeat_rows(layer, id, static_cast<uint32_t>(n));
  sequence.n_seen = n_seen;
}

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
  notes.is_fed.assign(sequences.size(), 0);
  const auto n_vocab = static_cast<Token>(model.info().n_vocab);
  for (const Feed& feed : feeds) {
    opened(feed.sequence);
    if (notes.is_fed[feed.sequence] != 0)
      invalid("engine: found sequence {} in two feeds, allowed: one", feed.sequence);
    notes.is_fed[feed.sequence] = 1;
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
void Engine::Impl::plan_step(std::span<const Feed> feeds) {
  notes.chunks.clear();
  uint32_t n_tokens = 0;
  uint32_t n_outputs = 0;
  for (size_t feed = 0; feed < feeds.size(); ++feed) {
    const size_t remaining = feeds[feed].tokens.size() - notes.done[feed];
    const auto n = static_cast<uint32_t>(std::min<size_t>(remaining, chunk_limit(feeds[feed])));
    const uint32_t outputs = feeds[feed].logits == WantLogits::all ? n : 1;
    const bool has_room =
        n_tokens + n <= options.n_ubatch + options.n_sequences - 1 &&
        n_outputs + outputs <= std::min(options.n_ubatch, kMaxOutputs) + options.n_sequences - 1;
    if (n == 0 || !has_room) continue;
    notes.chunks.push_back({feed, notes.done[feed], n});
    n_tokens += n;
    n_outputs += outputs;
  }
}

Advance Engine::advance(std::span<const Feed> feeds, const AdvanceHooks& hooks) {
  impl_->check_feeds(feeds);
  size_t total = 0;
  for (const Feed& feed : feeds) {
    if (!impl_->fits(impl_->sequences[feed.sequence], feed.tokens.size())) return Advance::context_full;
    total += feed.tokens.size();
  }
  std::vector<size_t>& done = impl_->notes.done;
  done.assign(feeds.size(), 0);
  size_t n_done = 0;
  while (n_done < total) {
    if (hooks.should_stop && hooks.should_stop()) return Advance::cancelled;
    impl_->plan_step(feeds);
    KVASE_CHECK(!impl_->notes.chunks.empty(), "no progress after {} of {} tokens", n_done, total);
    impl_->run_step(feeds, hooks);
    for (const Chunk& chunk : impl_->notes.chunks) {
      done[chunk.feed] += chunk.n;
      n_done += chunk.n;
    }
    if (hooks.on_progress) hooks.on_progress(n_done, total);
  }
  return Advance::done;
}

void Engine::Impl::run_step(std::span<const Feed> feeds, const AdvanceHooks& hooks) {
  notes.tokens.clear();
  notes.pos.clear();
  notes.outputs.clear();
  notes.step.clear();
  for (const Chunk& chunk : notes.chunks) {
    const Feed& feed = feeds[chunk.feed];
    for (uint32_t offset = 0; offset < chunk.n; ++offset) {
      if (feed.logits == WantLogits::all || offset + 1 == chunk.n)
        notes.outputs.push_back(static_cast<int32_t>(notes.tokens.size()));
      notes.tokens.push_back(feed.tokens[chunk.first + offset]);
      notes.pos.push_back(static_cast<int32_t>(sequences[feed.sequence].n_seen + offset));
      notes.step.push_back({feed.sequence, offset, notes.pos.back()});
    }
    if (chunk.n == 1) attention_bytes += bytes_read(feed.sequence);
  }
  attention.set_step(notes.step);
  const std::span<const float> logits = graphs.run(notes.tokens, notes.pos, notes.outputs);

  const size_t n_vocab = model.info().n_vocab;
  size_t row = 0;
  for (const Chunk& chunk : notes.chunks) {
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

// Rows that a step of one token of this sequence reads, its own included.
uint64_t Engine::Impl::bytes_read(SequenceId id) const {
  uint64_t n_keys = 0, n_values = 0;
  for (uint32_t layer = 0; layer < plan.dims.n_layers; ++layer) {
    const uint32_t n_slots = memory.cache.length(layer, id) + 1;
    n_keys += n_slots;
    n_values += n_slots - memory.cache.n_approximate(layer, id);
  }
  return plan.dims.n_kv_heads * (n_keys * ggml_row_size(plan.dims.type_k, plan.dims.head_dim) +
                                 n_values * ggml_row_size(plan.dims.type_v, plan.dims.head_dim));
}

void Engine::Impl::commit(SequenceId id, uint32_t n) {
  Sequence& sequence = sequences[id];
  sequence.n_seen += n;
  notes.due.clear();
  for (uint32_t layer = 0; layer < plan.dims.n_layers; ++layer) {
    memory.cache.commit(layer, id, n);
    if (!plan.memory.evicts || memory.cache.length(layer, id) != sequence.trigger[layer]) continue;
    notes.due.push_back({.seed = sequence.options.seed,
                         .sequence = sequence.options.sample,
                         .layer = layer,
                         .event = sequence.n_events[layer],
                         .n_seen = sequence.n_seen,
                         .window = plan.memory.shape.window,
                         .n_sink = plan.memory.shape.n_sink});
  }
  if (!notes.due.empty()) evict(id);
}

// The events that are due.
void Engine::Impl::evict(SequenceId id) {
  const auto start = std::chrono::steady_clock::now();
  Sequence& sequence = sequences[id];
  events.run(id, notes.due);
  for (const EventContext& event : notes.due) {
    ++sequence.n_events[event.layer];
    sequence.trigger[event.layer] = memory.cache.length(event.layer, id) + plan.memory.shape.interval;
    watch_mass(id, event.layer);
  }
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  sequence.evict_ms += taken.count();
  events_ms += taken.count();
}

// Which queries add to mass before the next event.
void Engine::Impl::watch_mass(SequenceId id, uint32_t layer) {
  const uint32_t event_length = plan.memory.evicts ? sequences[id].trigger[layer] : kNoMass;
  attention.watch_mass(layer, id, event_length, plan.memory.shape.window);
}

}  // namespace kvase

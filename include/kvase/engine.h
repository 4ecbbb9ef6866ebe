// SPDX-License-Identifier: MIT
// The loop: append tokens, run the model, evict when full. One step, advance(), serves prefill, decode,
// batches and teacher-forced evaluation.
//
// One thread at a time may use an Engine. Memory is allocated by the constructor and never grows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kvase/model.h"
#include "kvase/options.h"
#include "kvase/plan.h"

namespace kvase {

// A sequence's place in the engine, 0..n_sequences - 1. Reused after close().
using SequenceId = uint32_t;

struct SequenceOptions {
  uint64_t seed = 0;    // of the policy's random choices
  uint32_t sample = 0;  // number of this sample among several of one prompt
  uint32_t n_prompt =
      0;  // tokens of the prompt; read by Prefill::whole only, which evicts none of them before the answer
};

enum class WantLogits : uint8_t { last, all };

struct Feed {
  SequenceId sequence = 0;
  std::span<const Token> tokens;  // not empty; every id in 0..n_vocab - 1
  WantLogits logits = WantLogits::last;
};

// What one sequence's cache holds and has done.
struct CacheState {
  int64_t n_seen = 0;        // tokens ever processed
  uint32_t n_kept = 0;       // slots in use, the largest over layers
  uint32_t n_evictions = 0;  // events
  double evict_ms = 0;       // time in events
};

// Where the time of all steps since the engine was made has gone, of all sequences together.
struct EngineTimes {
  double attention_ms = 0;       // attention over the cache, mass included
  double mass_ms = 0;            // of it, adding up attention mass; not the writing down of what is added
  double statistics_ms = 0;      // in events: statistics that exist for an event only
  double events_ms = 0;          // in events: all of them, statistics included
  uint64_t attention_bytes = 0;  // K and V rows that steps of one token a sequence had to read
};

enum class Advance : uint8_t {
  done,
  cancelled,     // should_stop said so between two steps; every sequence holds exactly the tokens of finished
                 // steps
  context_full,  // `full`: no slot left, or Prefill::whole: prompt longer than n_ctx; nothing of this call
                 // was processed
};

struct AdvanceHooks {
  // One row of n_vocab logits for token `token_index` of feeds[feed_index]; valid during the call.
  std::function<void(size_t feed_index, size_t token_index, std::span<const float> logits)> on_logits = {};
  std::function<bool()> should_stop = {};                           // asked between steps
  std::function<void(size_t done, size_t total)> on_progress = {};  // tokens of this call
};

// One layer's event as an observer sees it: decided, not yet carried out. Valid during the call only.
struct LayerEvent {
  SequenceId sequence = 0;
  const EventContext& event;
  const LayerView& layer;  // what the policy saw: every slot in use, sinks and window included
  const Scores& scores;    // Policy::score() of the same
  const Verdict& verdict;  // what goes
};
using EventObserver = std::function<void(const LayerEvent&)>;

class Engine {
 public:
  // Throws Error: invalid_argument (an option out of range), unsupported, out_of_memory.
  Engine(const Model& model, const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const MemoryPlan& plan() const;
  const EngineOptions& options() const;  // with every default filled in
  const Model& model() const;

  // Throws Error(invalid_argument) if no place is free.
  SequenceId open(const SequenceOptions& options);
  void close(SequenceId sequence);  // its rows are free at once

  // Appends the tokens of every feed to its sequence. Steps split at event borders, which depend on the
  // sequence alone. REQUIRES: every sequence open and in at most one feed. Throws Error: invalid_argument (a
  // token out of range), device (a backend failed; the sequences of the failed step must be closed).
  Advance advance(std::span<const Feed> feeds, const AdvanceHooks& hooks);

  // Most tokens that the next step takes of this sequence: up to its next event, at most n_ubatch. Feeding a
  // prompt in pieces of this size gives the same steps as feeding it whole.
  uint32_t step_limit(SequenceId sequence) const;

  CacheState state(SequenceId sequence) const;

  // Shows the observer every event from now on: the layers one after another, ascending, on the thread that
  // called advance(). It changes nothing that the engine does. Costs a second Policy::score() per layer and
  // event; nothing where none is set. An empty one ends it. If it throws, advance() throws the same, and the
  // sequence must be closed. CacheOptions::observed_statistics are shown beside those of the policy.
  void observe_events(EventObserver observer);

  EngineTimes times() const;

  // For measurements of speed: makes the sequence as long as after n_seen tokens without reading them. `full`
  // fills its cache with copies of the rows that it holds; a policy that evicts takes the later position.
  // From here on a step costs what it would cost that far into a text, and means nothing. Throws
  // Error(invalid_argument) unless the sequence holds a token and n_seen is no less than it has seen and no
  // more than it may hold.
  void pretend_seen(SequenceId sequence, int64_t n_seen);

  // The positions that one KV head of one layer still holds, ascending.
  std::vector<int32_t> kept_positions(SequenceId sequence, uint32_t layer, uint32_t kv_head) const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvase

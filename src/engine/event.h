// SPDX-License-Identifier: MIT
// An event: show a policy the statistics of a layer's slots, take its verdict, hand the verdict to the cache.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/cache_plan.h"
#include "kvase/engine.h"
#include "stats/lag.h"
#include "stats/leverage.h"
#include "stats/mean_cosine.h"
#include "stats/redundancy.h"
#include "stats/residual.h"
#include "stats/sketch.h"
#include "tensor/compute.h"

namespace kvase {

// A layer as a policy sees it, with the statistics that exist for the length of an event only. One per
// thread. All memory but that of a sort is allocated when it is made; what no statistic of the policy needs
// stays empty.
class EventStatistics {
 public:
  explicit EventStatistics(const CacheMemory& memory);

  // For a cut to `budget` slots and `n_recruits` more. Valid until the next call and until the cache changes.
  LayerView collect(uint32_t layer, uint32_t sequence, uint32_t budget, uint32_t n_recruits,
                    const EventContext& event);

  double collect_ms() const { return collect_ms_; }  // in collect() so far

 private:
  void add_dense_mass(uint32_t layer, uint32_t sequence, uint32_t kv_head);
  void add_event_column(Statistic statistic, uint32_t layer, uint32_t sequence, uint32_t kv_head,
                        const EventContext& event);
  StoredRows values(uint32_t layer, uint32_t sequence, uint32_t kv_head);
  std::span<const uint32_t> candidates(const HeadView& head, const EventContext& event);
  std::span<const uint32_t> in_order(const HeadView& head, uint32_t n_sink);
  std::span<const uint32_t> exact_candidates(const HeadView& head, const EventContext& event);

  const CacheMemory* memory_;
  std::vector<HeadView> heads_;
  std::vector<std::vector<float>> mass_;  // per KV head
  // Columns that live for one event, per KV head; empty for the statistics that are not asked for.
  std::array<std::vector<std::vector<float>>, kStatisticCount> event_columns_;
  std::vector<uint32_t> slots_;
  std::vector<uint32_t> order_;  // of one head; empty until a statistic asks for it
  SketchMatrix matrix_;
  std::optional<MeanCosine> mean_cosine_;
  std::optional<Leverage> leverage_;
  std::optional<Redundancy> redundancy_;
  std::optional<LagDeviation> lag_;
  std::optional<MeanResidual> residual_;
  std::vector<float> key_;      // one key before RoPE
  std::vector<float> rebuilt_;  // values of the approximate slots, [head_dim, 2 n_recruits]
  double collect_ms_ = 0;
};

// Throws Error(invalid_argument) unless every head drops exactly length - budget - n_recruits slots,
// ascending, distinct and in use, leaves exactly 2 n_recruits approximate ones, and orders the kept ones if
// it was asked to.
void check_verdict(const Verdict& verdict, const LayerView& layer, const Needs& needs);

class EventRunner {
 public:
  // Allocates scratch for every thread of `compute` once.
  EventRunner(Compute& compute, CacheMemory& memory, const CachePlan& plan);

  // Cuts the layers that `layer_events` name to their budgets. REQUIRES: each layer once, length > budget.
  void run(uint32_t sequence, std::span<const EventContext> layer_events);

  void observe(EventObserver observer) { observer_ = std::move(observer); }

  // Time in statistics so far, if all threads had an even share.
  double statistics_ms() const;

 private:
  void run_layer(uint32_t sequence, const EventContext& event, EventStatistics& statistics);

  Compute* compute_;
  CacheMemory* memory_;
  const CachePlan* plan_;
  std::vector<EventStatistics> per_thread_;
  EventObserver observer_;
};

}  // namespace kvase

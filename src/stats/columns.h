// SPDX-License-Identifier: MIT
// What we know of each slot: the registry of per-slot columns that a policy asked for. Rows that move take
// all of them along.
//
// A column is `[max_slots, n_rows, n_kv_heads, n_sequences]` per layer; n_rows is 1, but for mass per query
// head. Lives in the cache's arena. append() may run on several threads for different rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/cache.h"
#include "kvase/policy.h"

namespace kvase {

class Columns {
 public:
  // Declares the columns of `needs` in `arena`. n_heads: query heads of the model.
  Columns(Arena& arena, const Cache& cache, uint32_t n_heads, const Needs& needs);

  static size_t max_tensors_per_layer() { return kStatisticCount + 2; }

  size_t bytes() const { return bytes_; }
  const Needs& needs() const { return needs_; }
  bool needs_statistic(Statistic statistic) const;
  bool needs_sketch() const {
    return needs_statistic(Statistic::k_sketch) || needs_statistic(Statistic::v_sketch);
  }

  // Rows of the mass column per KV head: query heads if per_head, else 1. 0 if mass is not kept.
  uint32_t n_mass_rows() const { return n_mass_rows_; }
  // f32 [max_slots] of one mass row.
  std::span<float> mass(uint32_t layer, uint32_t sequence, uint32_t kv_head, uint32_t row) const;
  void clear_mass(uint32_t layer, uint32_t sequence) const;
  // Mass outlives events and moves with its slot, like any statistic of a token.
  bool carries_mass() const { return needs_.mass.queries == MassSpec::Queries::all; }

  // i32 [capacity]: what Redundancy keeps of each slot between events. REQUIRES: k_redundancy is asked for.
  std::span<int32_t> newest_similar(uint32_t layer, uint32_t sequence, uint32_t kv_head) const;

  // f32 [max_slots]; attention fills it, since it has the maps. REQUIRES: the policy needs it.
  std::span<float> residual(uint32_t layer, uint32_t sequence, uint32_t kv_head) const;

  // Takes the statistics of one exact row, but for mass and residual, which start at 0. REQUIRES: as
  // Cache::append_row().
  void append(uint32_t layer, uint32_t sequence, uint32_t kv_head, uint32_t slot, std::span<const float> key,
              std::span<const float> value) const;

  // Follows Cache::compact().
  void apply(uint32_t layer, uint32_t sequence, std::span<const Move> moves) const;

  // Stores the layout order that a verdict gave, as slots before compaction. Call before apply().
  void set_order(uint32_t layer, uint32_t sequence, uint32_t kv_head, std::span<const uint32_t> order) const;

  // The kept columns of the slots in use. Empty spans: event statistics, which are not kept, and mass of
  // several rows, whose rows lie `max_slots` apart while a policy wants them dense; EventStatistics supplies
  // both.
  HeadView view(uint32_t layer, uint32_t sequence, uint32_t kv_head) const;

 private:
  struct Column {
    Statistic statistic = Statistic::mass;  // read for statistics_ only
    uint32_t n_rows = 1;
    std::vector<ggml_tensor*> layers;
  };

  template <typename T>
  std::span<T> row(const Column& column, uint32_t layer, uint32_t sequence, uint32_t kv_head,
                   uint32_t row_index) const;
  void add_column(Arena& arena, std::vector<Column>& columns, Statistic statistic, ggml_type type,
                  uint32_t n_rows, const char* name) const;

  const Cache* cache_;
  Needs needs_;
  uint32_t n_mass_rows_ = 0;
  std::vector<Column> statistics_;  // f32
  std::vector<Column> rank_;        // i32, one or none
  std::vector<Column> similar_;     // i32, one or none
  size_t bytes_ = 0;
};

}  // namespace kvase

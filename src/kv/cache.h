// SPDX-License-Identifier: MIT
// The cache: rows of keys and values per layer, sequence and KV head, and the position of each. Never decides
// what to keep.
//
// Layout, per layer: K and V `[head_dim, capacity, n_kv_heads, n_sequences]`, pos i32 `[max_slots,
// n_kv_heads, n_sequences]`. Rows 0 .. length - 1 are in use; length is one number per (layer, sequence), the
// same for all its KV heads. Keys are stored after RoPE. Slots lie in no order; see docs/kv-layout.md and
// docs/decisions/0001.
//
// With an approximate tier, slots 0 .. n_approximate - 1 hold a key and no value. K and V share one arena of
// `2 * capacity` rows per head: the key of slot s is row s, the value of an exact slot s is row `capacity -
// n_approximate / 2 + s`. So every two approximate slots make room for one slot more, and no byte is added:
// docs/decisions/0006.
//
// append_row() may run on several threads for different rows; everything else belongs to the engine's thread,
// or to one thread per (layer, sequence).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvase/policy.h"
#include "tensor/arena.h"

namespace kvase {

struct CacheDims {
  uint32_t n_layers = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t n_sequences = 0;
  std::vector<uint32_t> capacity;  // slots of key and value, per layer
  ggml_type type_k = GGML_TYPE_F16;
  ggml_type type_v = GGML_TYPE_F16;
  // Approximate tier: most slots that a layer has beyond `capacity`, each paid for by two slots without a
  // value. Empty: no such tier. Then type_k and type_v may differ.
  std::vector<uint32_t> n_recruits = {};

  bool has_tier() const { return !n_recruits.empty(); }
  uint32_t max_slots(uint32_t layer) const { return capacity[layer] + (has_tier() ? n_recruits[layer] : 0); }
};

// A row that went from one slot to another; every per-slot column follows it.
struct Move {
  uint32_t kv_head = 0;
  uint32_t from = 0;
  uint32_t to = 0;
  bool is_swap = false;  // the row of `to` went to `from`
};

class Cache {
 public:
  // Declares the tensors in `arena`; they have memory once the arena is allocated.
  Cache(Arena& arena, const CacheDims& dims);

  static constexpr size_t kTensorsPerLayer = 4;

  const CacheDims& dims() const { return dims_; }
  size_t kv_bytes() const { return kv_bytes_; }
  size_t side_bytes() const { return side_bytes_; }  // positions, and the means of dropped values

  // REQUIRES: no approximate tier.
  ggml_tensor* keys(uint32_t layer) const { return layers_[layer].k; }
  ggml_tensor* values(uint32_t layer) const { return layers_[layer].v; }

  uint32_t length(uint32_t layer, uint32_t sequence) const { return state(layer, sequence).length; }
  // Slots below it hold no value. Even; the same for all KV heads.
  uint32_t n_approximate(uint32_t layer, uint32_t sequence) const {
    return state(layer, sequence).n_approximate;
  }
  // Slots that there is room for now.
  uint32_t n_slots(uint32_t layer, uint32_t sequence) const {
    return dims_.capacity[layer] + n_approximate(layer, sequence) / 2;
  }

  // All `max_slots` positions of one KV head; the first `length` are meaningful.
  std::span<int32_t> pos(uint32_t layer, uint32_t sequence, uint32_t kv_head) const;

  // A head's rows: row `slot` of each, head_dim elements, contiguous. Values: of exact slots only.
  const std::byte* key_rows(uint32_t layer, uint32_t sequence, uint32_t kv_head) const;
  const std::byte* value_rows(uint32_t layer, uint32_t sequence, uint32_t kv_head) const;

  // f32 [head_dim], the mean of all values that a head's slots lost when they became approximate; empty
  // before the first one.
  std::span<const float> mean_dropped_value(uint32_t layer, uint32_t sequence, uint32_t kv_head) const;

  // Stores one row, rounded to the cache's types, at a slot that is not in use yet (length <= slot <
  // n_slots).
  //   key, value f32 [head_dim]
  void append_row(uint32_t layer, uint32_t sequence, uint32_t kv_head, uint32_t slot, int32_t position,
                  const float* key, const float* value) const;

  // Makes the next n slots count as in use. REQUIRES: length + n <= n_slots.
  void commit(uint32_t layer, uint32_t sequence, uint32_t n);

  // Makes n more slots count as in use, filled with copies of those that are, for measurements of speed: they
  // repeat from the first slot on, positions go on. REQUIRES: length > 0, length + n <= n_slots, no
  // approximate slots.
  void repeat_rows(uint32_t layer, uint32_t sequence, uint32_t n);

  // Frees the slots of `drop` of every KV head and fills the holes with rows from the end; takes the value
  // from those of `demote`, which become approximate. Returns the moves that it made, in order.
  //   verdicts  per KV head; `order` is not read.
  // REQUIRES: drop and demote ascending, distinct and disjoint, the same counts in each head; demoted slots
  // exact; in the end an even number of approximate slots, at most twice n_recruits, and no more slots than
  // there is room for.
  std::vector<Move> compact(uint32_t layer, uint32_t sequence, std::span<const HeadVerdict> verdicts);

  // Frees all slots of a sequence.
  void clear(uint32_t sequence);

 private:
  struct Layer {
    ggml_tensor* k = nullptr;  // with an approximate tier: the arena, K and V
    ggml_tensor* v = nullptr;  // null then
    ggml_tensor* pos = nullptr;
    ggml_tensor* means = nullptr;  // of dropped values, f32 [head_dim, n_kv_heads, n_sequences]; null without
    ggml_tensor* n_means = nullptr;  // how many values each is of, i32 [n_kv_heads, n_sequences]
  };
  struct State {
    uint32_t length = 0;
    uint32_t n_approximate = 0;
  };

  const State& state(uint32_t layer, uint32_t sequence) const {
    return states_[layer * dims_.n_sequences + sequence];
  }
  State& state(uint32_t layer, uint32_t sequence) { return states_[layer * dims_.n_sequences + sequence]; }
  State checked_end(uint32_t layer, uint32_t sequence, std::span<const HeadVerdict> verdicts) const;
  std::byte* key_row(uint32_t layer, uint32_t sequence, uint32_t kv_head, uint32_t slot) const;
  std::byte* value_row(uint32_t layer, uint32_t sequence, uint32_t kv_head, uint32_t slot) const;
  int32_t& n_dropped_values(uint32_t layer, uint32_t sequence, uint32_t kv_head) const;
  void add_dropped_value(uint32_t layer, uint32_t sequence, uint32_t kv_head, uint32_t slot) const;
  void move_row(uint32_t layer, uint32_t sequence, const Move& move, bool moves_value) const;
  void shift_values(uint32_t layer, uint32_t sequence, const State& end) const;

  CacheDims dims_;
  std::vector<Layer> layers_;
  std::vector<State> states_;  // [n_sequences, n_layers]
  size_t kv_bytes_ = 0;
  size_t side_bytes_ = 0;
};

}  // namespace kvase

// SPDX-License-Identifier: MIT
// The cache: rows of keys and values per layer, sequence and KV head, and the position of each. Never decides
// what to keep.
//
// Layout, per layer: K and V `[head_dim, capacity, n_kv_heads, n_sequences]`, pos i32 `[capacity, n_kv_heads,
// n_sequences]`. Rows 0 .. length - 1 are in use; length is one number per (layer, sequence), the same for
// all its KV heads. Keys are stored after RoPE. Slots lie in no order; see docs/kv-layout.md and
// docs/decisions/0001.
//
// append_row() may run on several threads for different rows; everything else belongs to the engine's thread,
// or to one thread per (layer, sequence).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/arena.h"

namespace kvase {

struct CacheDims {
  uint32_t n_layers = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t n_sequences = 0;
  std::vector<uint32_t> capacity;  // slots, per layer
  ggml_type type_k = GGML_TYPE_F16;
  ggml_type type_v = GGML_TYPE_F16;
};

// A row that went from one slot to another; every per-slot column follows it.
struct Move {
  uint32_t kv_head = 0;
  uint32_t from = 0;
  uint32_t to = 0;
};

class Cache {
 public:
  // Declares the tensors in `arena`; they have memory once the arena is allocated.
  Cache(Arena& arena, const CacheDims& dims);

  static constexpr size_t kTensorsPerLayer = 3;

  const CacheDims& dims() const { return dims_; }
  size_t kv_bytes() const { return kv_bytes_; }
  size_t pos_bytes() const { return pos_bytes_; }

  ggml_tensor* keys(uint32_t layer) const { return layers_[layer].k; }
  ggml_tensor* values(uint32_t layer) const { return layers_[layer].v; }

  uint32_t capacity(uint32_t layer) const { return dims_.capacity[layer]; }
  uint32_t length(uint32_t layer, uint32_t sequence) const {
    return lengths_[layer * dims_.n_sequences + sequence];
  }

  // All `capacity` positions of one KV head; the first `length` are meaningful.
  std::span<int32_t> pos(uint32_t layer, uint32_t sequence, uint32_t kv_head) const;

  // First byte of a head's rows; rows are contiguous, head_dim elements each.
  const std::byte* key_rows(uint32_t layer, uint32_t sequence, uint32_t kv_head) const;
  const std::byte* value_rows(uint32_t layer, uint32_t sequence, uint32_t kv_head) const;

  // Stores one row, rounded to the cache's types, at a slot that is not in use yet (length <= slot <
  // capacity).
  //   key, value f32 [head_dim]
  void append_row(uint32_t layer, uint32_t sequence, uint32_t kv_head, uint32_t slot, int32_t position,
                  const float* key, const float* value) const;

  // Makes the next n slots count as in use. REQUIRES: length + n <= capacity.
  void commit(uint32_t layer, uint32_t sequence, uint32_t n);

  // Makes n more slots count as in use, filled with copies of those that are, for measurements of speed: they
  // repeat from the first slot on, positions go on. REQUIRES: length > 0, length + n <= capacity.
  void repeat_rows(uint32_t layer, uint32_t sequence, uint32_t n);

  // Frees the given slots of every KV head and fills the holes with rows from the end. Returns the moves that
  // it made.
  //   drops  per KV head: slots ascending and distinct, equally many in each
  std::vector<Move> compact(uint32_t layer, uint32_t sequence, std::span<const std::vector<uint32_t>> drops);

  // Frees all slots of a sequence.
  void clear(uint32_t sequence);

 private:
  struct Layer {
    ggml_tensor* k = nullptr;
    ggml_tensor* v = nullptr;
    ggml_tensor* pos = nullptr;
  };

  CacheDims dims_;
  std::vector<Layer> layers_;
  std::vector<uint32_t> lengths_;  // [n_sequences, n_layers]
  size_t kv_bytes_ = 0;
  size_t pos_bytes_ = 0;
};

}  // namespace kvase

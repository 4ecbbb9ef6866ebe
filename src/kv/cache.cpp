// SPDX-License-Identifier: MIT
// Append, and compaction that fills holes.
#include "kv/cache.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace kvase {
namespace {

std::byte* head_rows(const ggml_tensor* tensor, uint32_t sequence, uint32_t kv_head) {
  return static_cast<std::byte*>(tensor->data) + sequence * tensor->nb[3] + kv_head * tensor->nb[2];
}

void store_row(const ggml_tensor* tensor, std::byte* row, const float* values, uint32_t head_dim) {
  if (tensor->type == GGML_TYPE_F32) {
    std::memcpy(row, values, head_dim * sizeof(float));
  } else {
    ggml_get_type_traits_cpu(tensor->type)->from_float(values, row, head_dim);
  }
}

// Fills every hole below `new_length` with a survivor from above it: lowest hole first, highest survivor
// first.
void plan_moves(uint32_t kv_head, std::span<const uint32_t> drop, uint32_t length, std::vector<Move>& moves) {
  const auto new_length = length - static_cast<uint32_t>(drop.size());
  uint32_t survivor = length;
  size_t dropped_above = drop.size();  // drop[dropped_above - 1] is the highest dropped slot not passed yet
  for (const uint32_t hole : drop) {
    if (hole >= new_length) break;
    --survivor;
    while (dropped_above > 0 && drop[dropped_above - 1] == survivor) {
      --dropped_above;
      --survivor;
    }
    moves.push_back({kv_head, survivor, hole});
  }
}

}  // namespace

Cache::Cache(Arena& arena, const CacheDims& dims)
    : dims_(dims), layers_(dims.n_layers), lengths_(size_t{dims.n_layers} * dims.n_sequences, 0) {
  KVASE_CHECK(dims.capacity.size() == dims.n_layers, "{} capacities for {} layers", dims.capacity.size(),
              dims.n_layers);
  const size_t before = arena.bytes();
  for (uint32_t layer = 0; layer < dims.n_layers; ++layer) {
    layers_[layer].k =
        arena.add(dims.type_k, {dims.head_dim, dims.capacity[layer], dims.n_kv_heads, dims.n_sequences},
                  fmt::format("kv.k.{}", layer));
    layers_[layer].v =
        arena.add(dims.type_v, {dims.head_dim, dims.capacity[layer], dims.n_kv_heads, dims.n_sequences},
                  fmt::format("kv.v.{}", layer));
  }
  kv_bytes_ = arena.bytes() - before;
  for (uint32_t layer = 0; layer < dims.n_layers; ++layer) {
    layers_[layer].pos = arena.add(GGML_TYPE_I32, {dims.capacity[layer], dims.n_kv_heads, dims.n_sequences},
                                   fmt::format("kv.pos.{}", layer));
  }
  pos_bytes_ = arena.bytes() - before - kv_bytes_;
}

std::span<int32_t> Cache::pos(uint32_t layer, uint32_t sequence, uint32_t kv_head) const {
  const ggml_tensor* tensor = layers_[layer].pos;
  auto* first =
      static_cast<int32_t*>(tensor->data) + (size_t{sequence} * dims_.n_kv_heads + kv_head) * capacity(layer);
  return {first, capacity(layer)};
}

const std::byte* Cache::key_rows(uint32_t layer, uint32_t sequence, uint32_t kv_head) const {
  return head_rows(layers_[layer].k, sequence, kv_head);
}

const std::byte* Cache::value_rows(uint32_t layer, uint32_t sequence, uint32_t kv_head) const {
  return head_rows(layers_[layer].v, sequence, kv_head);
}

void Cache::append_row(uint32_t layer, uint32_t sequence, uint32_t kv_head, uint32_t slot, int32_t position,
                       const float* key, const float* value) const {
  KVASE_CHECK(slot >= length(layer, sequence) && slot < capacity(layer), "slot {}, length {}, capacity {}",
              slot, length(layer, sequence), capacity(layer));
  const Layer& tensors = layers_[layer];
  store_row(tensors.k, head_rows(tensors.k, sequence, kv_head) + slot * tensors.k->nb[1], key,
            dims_.head_dim);
  store_row(tensors.v, head_rows(tensors.v, sequence, kv_head) + slot * tensors.v->nb[1], value,
            dims_.head_dim);
  pos(layer, sequence, kv_head)[slot] = position;
}

void Cache::commit(uint32_t layer, uint32_t sequence, uint32_t n) {
  uint32_t& in_use = lengths_[layer * dims_.n_sequences + sequence];
  KVASE_CHECK(n <= capacity(layer) - in_use, "length {} + {} > capacity {}", in_use, n, capacity(layer));
  in_use += n;
}

void Cache::repeat_rows(uint32_t layer, uint32_t sequence, uint32_t n) {
  const uint32_t in_use = length(layer, sequence);
  KVASE_CHECK(in_use > 0, "no rows to repeat in layer {}", layer);
  const Layer& tensors = layers_[layer];
  for (uint32_t kv_head = 0; kv_head < dims_.n_kv_heads; ++kv_head) {
    const std::span<int32_t> positions = pos(layer, sequence, kv_head).first(in_use + n);
    for (uint32_t slot = in_use; slot < in_use + n; ++slot) {
      for (const ggml_tensor* tensor : {tensors.k, tensors.v}) {
        std::byte* rows = head_rows(tensor, sequence, kv_head);
        std::memcpy(rows + slot * tensor->nb[1], rows + (slot - in_use) * tensor->nb[1], tensor->nb[1]);
      }
      positions[slot] = positions[slot - 1] + 1;
    }
  }
  commit(layer, sequence, n);
}

std::vector<Move> Cache::compact(uint32_t layer, uint32_t sequence,
                                 std::span<const std::vector<uint32_t>> drops) {
  uint32_t& in_use = lengths_[layer * dims_.n_sequences + sequence];
  KVASE_CHECK(drops.size() == dims_.n_kv_heads, "{} verdicts for {} KV heads", drops.size(),
              dims_.n_kv_heads);
  std::vector<Move> moves;
  for (uint32_t kv_head = 0; kv_head < dims_.n_kv_heads; ++kv_head) {
    const std::vector<uint32_t>& drop = drops[kv_head];
    KVASE_CHECK(drop.size() == drops[0].size() && drop.size() <= in_use,
                "head {} drops {} of {} slots, head 0 drops {}", kv_head, drop.size(), in_use,
                drops[0].size());
    KVASE_CHECK(std::ranges::adjacent_find(drop, std::greater_equal{}) == drop.end() &&
                    (drop.empty() || drop.back() < in_use),
                "dropped slots of head {} must be ascending and in use", kv_head);
    plan_moves(kv_head, drop, in_use, moves);
  }
  const Layer& tensors = layers_[layer];
  for (const Move& move : moves) {
    for (const ggml_tensor* tensor : {tensors.k, tensors.v}) {
      std::byte* rows = head_rows(tensor, sequence, move.kv_head);
      std::memcpy(rows + move.to * tensor->nb[1], rows + move.from * tensor->nb[1], tensor->nb[1]);
    }
    const std::span<int32_t> positions = pos(layer, sequence, move.kv_head);
    positions[move.to] = positions[move.from];
  }
  in_use -= static_cast<uint32_t>(drops[0].size());
  return moves;
}

void Cache::clear(uint32_t sequence) {
  for (uint32_t layer = 0; layer < dims_.n_layers; ++layer)
    lengths_[layer * dims_.n_sequences + sequence] = 0;
}

}  // namespace kvase

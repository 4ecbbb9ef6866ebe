// SPDX-License-Identifier: MIT
// Decode: at most kFewRows query rows. Each block's keys are read once for all rows, then its values once,
// with the rows' sums in registers.
#include "attention/tile.h"

// Vectors of a size known at run time only cannot lie in arrays.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/narrow.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "attention/unrotated-inl.h"
#include "attention/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {

// Lines are fetched while the other product runs, one row per row: values during the logits, the next block's
// keys during the weighted sum. Into L2, not L1: with L1 the core stalls once its few miss buffers are taken.
// Reading past the rows' end is harmless.
template <typename T>
HWY_INLINE void fetch(const T* p) {
  __builtin_prefetch(p, 0, 2);
}
template <typename T>
inline constexpr size_t kLine = 64 / sizeof(T);
// The next block's part of the tape: stores to lines that are far away hold up all later ones.
HWY_INLINE void fetch_to_write(const float* p, size_t n) {
  for (size_t index = 0; index < n; index += kLine<float>) __builtin_prefetch(p + index, 1, 3);
}
// A single row's loops are fast enough that the hardware's own prefetcher does better.
template <size_t kRows>
inline constexpr bool kFetches = kRows > 1;

// logits[row * kBlock + slot] = q_row . k_slot for slots 0 .. n - 1. kSums dot products are reduced together:
// those of kSlots keys with all rows.
//   q      as pack_queries() leaves it
//   ahead  rows to fetch meanwhile
template <typename T, size_t kRows>
void dot_block(const std::byte* rows, size_t n, size_t head_dim, const float* HWY_RESTRICT q,
               float* HWY_RESTRICT logits, const std::byte* ahead) {
  constexpr size_t kSlots = kSums / std::bit_ceil(kRows);
  constexpr size_t kKeys = std::min<size_t>(kSlots, 2);  // at once: nearly in the order of memory
  const T* HWY_RESTRICT keys = reinterpret_cast<const T*>(rows);
  for (size_t slot = 0; slot < n; slot += kSlots) {
    FloatVec sums[kSums];
    for (auto& sum : sums) sum = hn::Zero(Floats());
#pragma GCC unroll 8
    for (size_t first = 0; first < kSlots; first += kKeys) {
      const T* key[kKeys];
      for (size_t index = 0; index < kKeys; ++index)
        key[index] = keys + std::min(slot + first + index, n - 1) * head_dim;
      const T* next = reinterpret_cast<const T*>(ahead) + (slot + first) * head_dim;
      for (size_t channel = 0; channel < head_dim; channel += kLanes) {
#pragma GCC unroll 8
        for (size_t index = 0; index < kKeys; ++index) {
          const FloatVec k = load(key[index] + channel);
          if (kFetches<kRows> && channel % kLine<T> == 0) fetch(next + index * head_dim + channel);
#pragma GCC unroll 8
          for (size_t row = 0; row < kRows; ++row) {
            FloatVec& sum = sums[row * kSlots + first + index];
            sum = hn::MulAdd(k, load(q + channel * kRows + row * kLanes), sum);
          }
        }
      }
    }
    HWY_ALIGN float totals[kSums];
    sum_lanes(sums, totals);
    for (size_t row = 0; row < kRows; ++row)
      std::memcpy(logits + row * kBlock + slot, totals + row * kSlots, kSlots * sizeof(float));
  }
}

// acc_row = shrink_row acc_row + sum over slots of weights[row * kBlock + slot] v_slot, for kVectors vectors
// of channels.
template <typename T, size_t kRows, size_t kVectors>
HWY_INLINE void add_channels(const T* HWY_RESTRICT values, size_t n, size_t head_dim,
                             const float* HWY_RESTRICT weights, const float* HWY_RESTRICT shrink,
                             float* HWY_RESTRICT acc, const T* ahead) {
  const Floats d;
  FloatVec sums[kRows][kVectors];
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t vec = 0; vec < kVectors; ++vec)
      sums[row][vec] = hn::Mul(hn::Set(d, shrink[row]), load(acc + row * head_dim + vec * kLanes));
  }
  for (size_t slot = 0; slot < n; ++slot) {
    const T* value = values + slot * head_dim;
    for (size_t channel = 0; kFetches<kRows> && channel < kVectors * kLanes; channel += kLine<T>)
      fetch(ahead + slot * head_dim + channel);
    FloatVec v[kVectors];
#pragma GCC unroll 8
    for (size_t vec = 0; vec < kVectors; ++vec) v[vec] = load(value + vec * kLanes);
#pragma GCC unroll 8
    for (size_t row = 0; row < kRows; ++row) {
      const FloatVec weight = hn::Set(d, weights[row * kBlock + slot]);
#pragma GCC unroll 8
      for (size_t vec = 0; vec < kVectors; ++vec) sums[row][vec] = hn::MulAdd(weight, v[vec], sums[row][vec]);
    }
  }
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t vec = 0; vec < kVectors; ++vec)
      hn::StoreU(sums[row][vec], d, acc + row * head_dim + vec * kLanes);
  }
}

template <typename T, size_t kRows>
void add_block(const std::byte* rows, size_t n, size_t head_dim, const float* weights, const float* shrink,
               float* acc, const std::byte* ahead) {
  const T* values = reinterpret_cast<const T*>(rows);
  const T* next = reinterpret_cast<const T*>(ahead);
  constexpr size_t kVectors = std::min<size_t>(8, kSums / std::bit_ceil(kRows));
  size_t channel = 0;
  for (; channel + kVectors * kLanes <= head_dim; channel += kVectors * kLanes)
    add_channels<T, kRows, kVectors>(values + channel, n, head_dim, weights, shrink, acc + channel,
                                     next + channel);
  for (; channel < head_dim; channel += kLanes)
    add_channels<T, kRows, 1>(values + channel, n, head_dim, weights, shrink, acc + channel, next + channel);
}

// Turns a row's logits into weights relative to exp(the new maximum); returns what earlier sums shrink by.
HWY_INLINE float softmax_step(float* HWY_RESTRICT logits, float& max, float& sum) {
  const Floats d;
  FloatVec largest = load(logits);
  for (size_t slot = kLanes; slot < kBlock; slot += kLanes) largest = hn::Max(largest, load(logits + slot));
  const float new_max = HWY_MAX(max, hn::GetLane(hn::MaxOfLanes(d, largest)));
  const FloatVec shift = hn::Set(d, new_max);
  FloatVec total = hn::Zero(d);
  for (size_t slot = 0; slot < kBlock; slot += kLanes) {
    const FloatVec weight = exp_nonpositive(hn::Sub(load(logits + slot), shift));
    hn::StoreU(weight, d, logits + slot);
    total = hn::Add(total, weight);
  }
  const float shrink = exp_nonpositive(max - new_max);
  max = new_max;
  sum = sum * shrink + hn::GetLane(hn::SumOfLanes(d, total));
  return shrink;
}

// The largest logit of each token's group, through a softmax of its own.
void tape_joined(const float* logits, const Tile& tile, const MassTape& tape, size_t block) {
  for (size_t token = 0; token < tile.n_tokens; ++token) {
    float* joined = tape.weights + (block * tape.n_rows + token) * kBlock;
    std::memcpy(joined, logits + token * tile.group * kBlock, kBlock * sizeof(float));
    for (size_t row = token * tile.group + 1; row < (token + 1) * tile.group; ++row) {
      for (size_t slot = 0; slot < kBlock; slot += kLanes)
        hn::StoreU(hn::Max(load(joined + slot), load(logits + row * kBlock + slot)), Floats(), joined + slot);
    }
    softmax_step(joined, tape.joined_max[token], tape.joined_sum[token]);
    tape.maxima[block * tape.n_rows + token] = tape.joined_max[token];
  }
}

using DotBlock = void (*)(const std::byte* keys, size_t n, size_t head_dim, const float* q, float* logits,
                          const std::byte* ahead);
using AddBlock = void (*)(const std::byte* values, size_t n, size_t head_dim, const float* weights,
                          const float* shrink, float* acc, const std::byte* ahead);

using AddUnrotated = void (*)(const std::byte* keys, const int32_t* pos, size_t n, size_t head_dim,
                              const RopeTurns& turns, const float* weights, const float* shrink, float* acc);

// The loops of one row type and number of rows.
struct Loops {
  DotBlock dot;
  AddBlock add;
  AddUnrotated add_unrotated;
};

template <typename T, size_t kRows>
inline constexpr Loops kLoops = {dot_block<T, kRows>, add_block<T, kRows>, add_unrotated_block<T, kRows>};

template <typename T>
Loops loops_of(size_t n_rows) {
  constexpr Loops kByRows[kFewRows] = {kLoops<T, 1>, kLoops<T, 2>, kLoops<T, 3>, kLoops<T, 4>,
                                       kLoops<T, 5>, kLoops<T, 6>, kLoops<T, 7>, kLoops<T, 8>};
  return kByRows[n_rows - 1];
}

Loops choose_loops(ggml_type type, size_t n_rows) {
  if (type == GGML_TYPE_F32) return loops_of<float>(n_rows);
  return type == GGML_TYPE_F16 ? loops_of<hwy::float16_t>(n_rows) : loops_of<hwy::bfloat16_t>(n_rows);
}

// out = scale * q, one vector of channels of every row after the other: [kLanes, n_rows, head_dim / kLanes].
void pack_queries(const Tile& tile, size_t head_dim, float* out) {
  const size_t n_rows = tile.n_rows();
  for (size_t row = 0; row < n_rows; ++row) {
    const float* q = tile.q + row / tile.group * tile.token_stride + row % tile.group * head_dim;
    for (size_t channel = 0; channel < head_dim; channel += kLanes) {
      hn::StoreU(hn::Mul(load(q + channel), hn::Set(Floats(), tile.scale)), Floats(),
                 out + channel * n_rows + row * kLanes);
    }
  }
}

// Hides slots younger than their query, and the places past the last slot.
void mask_block(const int32_t* pos, size_t n, const Tile& tile, float* logits) {
  const int32_t newest_pos = newest(pos, n);
  for (size_t row = 0; row < tile.n_rows(); ++row, logits += kBlock) {
    std::fill(logits + n, logits + kBlock, kMaskedLogit);
    const int32_t query_pos = tile.tokens[row / tile.group].pos;
    if (newest_pos <= query_pos) continue;
    for (size_t slot = 0; slot < n; ++slot) {
      if (pos[slot] > query_pos) logits[slot] = kMaskedLogit;
    }
  }
}

void attend_narrow(const KvHead& head, const Tile& tile, size_t first, size_t last, const SoftmaxState& state,
                   const MassTape* tape, const TileScratch& scratch) {
  const size_t n_rows = tile.n_rows();
  const size_t key_bytes = ggml_row_size(head.type_k, static_cast<int64_t>(head.head_dim));
  const size_t value_bytes = ggml_row_size(head.type_v, static_cast<int64_t>(head.head_dim));
  const Loops of_keys = choose_loops(head.type_k, n_rows);
  const Loops of_values = choose_loops(head.type_v, n_rows);
  const bool tape_rows = tape && !tape->joined();
  pack_queries(tile, head.head_dim, scratch.q);
  for (size_t start = first, block = 0; start < last; start += kBlock, ++block) {
    const size_t n = std::min<size_t>(kBlock, last - start);
    float* weights = tape_rows ? tape->weights + block * n_rows * kBlock : scratch.weights;
    if (tape_rows) fetch_to_write(weights + n_rows * kBlock, n_rows * kBlock);
    const std::byte* keys = head.keys + start * key_bytes;
    const bool is_last = start + kBlock >= head.n_slots;  // then there is nothing more to fetch
    const std::byte* next_keys = is_last ? keys : keys + kBlock * key_bytes;
    const std::byte* values = head.values ? head.values + start * value_bytes : next_keys;
    of_keys.dot(keys, n, head.head_dim, scratch.q, weights, values);
    mask_block(head.pos + start, n, tile, weights);
    if (tape && tape->joined()) tape_joined(weights, tile, *tape, block);
    for (size_t row = 0; row < n_rows; ++row)
      scratch.shrink[row] = softmax_step(weights + row * kBlock, state.max[row], state.sum[row]);
    if (tape_rows) std::copy_n(state.max, n_rows, tape->maxima + block * n_rows);
    if (head.unrotates) {
      of_keys.add_unrotated(keys, head.pos + start, n, head.head_dim, head.unrotates->turns(), weights,
                            scratch.shrink, state.acc);
    }
    if (!head.values) continue;
    of_values.add(values, n, head.head_dim, weights, scratch.shrink, state.acc, is_last ? values : next_keys);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvase {

HWY_EXPORT(attend_narrow);

void attend_narrow(const KvHead& head, const Tile& tile, size_t first, size_t last, const SoftmaxState& state,
                   const MassTape* tape, const TileScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(attend_narrow)(head, tile, first, last, state, tape, scratch);
}

}  // namespace kvase
#endif

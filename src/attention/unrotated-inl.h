// SPDX-License-Identifier: MIT
// Weighted sums of keys before RoPE, from keys after it, for few query rows: decode over slots that have lost
// their value. Keys are turned back in registers, a vector of pairs at a time.
#if defined(KVASE_ATTENTION_UNROTATED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASE_ATTENTION_UNROTATED_INL_H_
#undef KVASE_ATTENTION_UNROTATED_INL_H_
#else
#define KVASE_ATTENTION_UNROTATED_INL_H_
#endif

#include "attention/vector-inl.h"
#include "value_map/turn-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {

// At most kBlock keys and their weights.
template <typename T>
struct WeightedKeys {
  const T* keys;       // [head_dim, n]
  const int32_t* pos;  // [n]
  size_t n, head_dim;
  const float* weights;  // [kBlock, rows]
};

// Pairs `pair`, `pair + 1`, ... of a key.
template <RopePairs kPairs, typename D, typename T>
HWY_INLINE Pairs<D> load_key_pairs(D d, const T* key, size_t n_pairs, size_t pair) {
  if constexpr (kPairs == RopePairs::half_split) {
    return {load_as(d, key + pair), load_as(d, key + n_pairs + pair)};
  } else {
    key += 2 * pair;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (hn::MaxLanes(D()) > 1) {
      const auto low = load_as(d, key), high = load_as(d, key + hn::Lanes(d));
      return {hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low)};
    }
#endif
    return {load_as(d, key), load_as(d, key + 1)};
  }
}

// One vector of pairs of every row.
//   acc  [head_dim, kRows]
template <RopePairs kPairs, size_t kRows, typename D, typename T>
HWY_INLINE void add_pairs(D d, const WeightedKeys<T>& slots, const RopeTurns& turns, size_t pair,
                          const float* HWY_RESTRICT shrink, float* HWY_RESTRICT acc) {
  Pairs<D> sums[kRows];
  for (size_t row = 0; row < kRows; ++row) {
    const Pairs<D> before = load_pairs<kPairs>(d, acc + row * slots.head_dim, turns.n_pairs, pair);
    const auto factor = hn::Set(d, shrink[row]);
    sums[row] = {hn::Mul(factor, before.x), hn::Mul(factor, before.y)};
  }
  for (size_t slot = 0; slot < slots.n; ++slot) {
    const Turn<D> turn = turn_of(d, turns, static_cast<uint32_t>(slots.pos[slot]), pair);
    const Pairs<D> key =
        turn_back(turn, load_key_pairs<kPairs>(d, slots.keys + slot * slots.head_dim, turns.n_pairs, pair));
#pragma GCC unroll 8
    for (size_t row = 0; row < kRows; ++row) {
      const auto weight = hn::Set(d, slots.weights[row * kBlock + slot]);
      sums[row] = {hn::MulAdd(weight, key.x, sums[row].x), hn::MulAdd(weight, key.y, sums[row].y)};
    }
  }
  for (size_t row = 0; row < kRows; ++row)
    store_pairs<kPairs>(d, sums[row], acc + row * slots.head_dim, turns.n_pairs, pair);
}

// The channels that do not rotate.
template <size_t kRows, typename T>
void add_unturned(const WeightedKeys<T>& slots, size_t n_rot, const float* HWY_RESTRICT shrink,
                  float* HWY_RESTRICT acc) {
  for (size_t row = 0; row < kRows; ++row, acc += slots.head_dim) {
    for (size_t channel = n_rot; channel < slots.head_dim; ++channel) {
      float sum = acc[channel] * shrink[row];
      for (size_t slot = 0; slot < slots.n; ++slot)
        sum += slots.weights[row * kBlock + slot] * one(slots.keys + slot * slots.head_dim + channel);
      acc[channel] = sum;
    }
  }
}

template <RopePairs kPairs, size_t kRows, typename T>
void add_keys(const WeightedKeys<T>& slots, const RopeTurns& turns, const float* shrink, float* acc) {
  size_t pair = 0;
  for (; pair + kLanes <= turns.n_pairs; pair += kLanes)
    add_pairs<kPairs, kRows>(Floats(), slots, turns, pair, shrink, acc);
  for (; pair < turns.n_pairs; ++pair) add_pairs<kPairs, kRows>(OneFloat(), slots, turns, pair, shrink, acc);
  add_unturned<kRows>(slots, 2 * turns.n_pairs, shrink, acc);
}

// acc_row = shrink_row acc_row + sum over slots of weights[row * kBlock + slot] (k_slot before RoPE).
template <typename T, size_t kRows>
void add_unrotated_block(const std::byte* keys, const int32_t* pos, size_t n, size_t head_dim,
                         const RopeTurns& turns, const float* weights, const float* shrink, float* acc) {
  const WeightedKeys<T> slots = {reinterpret_cast<const T*>(keys), pos, n, head_dim, weights};
  if (turns.pairs == RopePairs::half_split)
    return add_keys<RopePairs::half_split, kRows>(slots, turns, shrink, acc);
  add_keys<RopePairs::adjacent, kRows>(slots, turns, shrink, acc);
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#endif  // include guard per target

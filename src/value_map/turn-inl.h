// SPDX-License-Identifier: MIT
// Turns of vectors of RoPE pairs, from a RopeTable's digits, for the instruction set being compiled.
#if defined(KVASE_VALUE_MAP_TURN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASE_VALUE_MAP_TURN_INL_H_
#undef KVASE_VALUE_MAP_TURN_INL_H_
#else
#define KVASE_VALUE_MAP_TURN_INL_H_
#endif

#include <hwy/highway.h>

#include "value_map/rope_table.h"

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Pairs (x, y), or the cosines and sines of as many angles.
template <typename D>
struct Turn {
  hn::Vec<D> cosine, sine;
};
template <typename D>
struct Pairs {
  hn::Vec<D> x, y;
};

// Of pairs `pair`, `pair + 1`, ... by one digit of a position.
template <typename D>
HWY_INLINE Turn<D> turn_by_digit(D d, const RopeTurns& turns, size_t digit, uint32_t pos, size_t pair) {
  const float* row = turns.table + (digit * 256 + (pos >> (8 * digit) & 255)) * 2 * turns.n_pairs + pair;
  return {hn::LoadU(d, row), hn::LoadU(d, row + turns.n_pairs)};
}

template <typename D>
HWY_INLINE Turn<D> add(const Turn<D>& a, const Turn<D>& b) {
  return {hn::NegMulAdd(a.sine, b.sine, hn::Mul(a.cosine, b.cosine)),
          hn::MulAdd(a.sine, b.cosine, hn::Mul(a.cosine, b.sine))};
}

// By a position. Its two higher digits are 0 below 65,536.
template <typename D>
HWY_INLINE Turn<D> turn_of(D d, const RopeTurns& turns, uint32_t pos, size_t pair) {
  const auto digit = [&](size_t index) HWY_ATTR { return turn_by_digit(d, turns, index, pos, pair); };
  const Turn<D> turn = add(digit(0), digit(1));
  return pos < 65536 ? turn : add(turn, add(digit(2), digit(3)));
}

template <typename D>
HWY_INLINE Pairs<D> turn_back(const Turn<D>& turn, const Pairs<D>& pairs) {
  return {hn::MulAdd(pairs.y, turn.sine, hn::Mul(pairs.x, turn.cosine)),
          hn::NegMulAdd(pairs.x, turn.sine, hn::Mul(pairs.y, turn.cosine))};
}

// Pairs `pair`, `pair + 1`, ... of a row of f32.
template <RopePairs kPairs, typename D>
HWY_INLINE Pairs<D> load_pairs(D d, const float* row, size_t n_pairs, size_t pair) {
  Pairs<D> pairs;
  if constexpr (kPairs == RopePairs::half_split) {
    pairs = {hn::LoadU(d, row + pair), hn::LoadU(d, row + n_pairs + pair)};
  } else {
    hn::LoadInterleaved2(d, row + 2 * pair, pairs.x, pairs.y);
  }
  return pairs;
}
template <RopePairs kPairs, typename D>
HWY_INLINE void store_pairs(D d, const Pairs<D>& pairs, float* row, size_t n_pairs, size_t pair) {
  if constexpr (kPairs == RopePairs::half_split) {
    hn::StoreU(pairs.x, d, row + pair);
    hn::StoreU(pairs.y, d, row + n_pairs + pair);
  } else {
    hn::StoreInterleaved2(pairs.x, pairs.y, d, row + 2 * pair);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#endif  // include guard per target

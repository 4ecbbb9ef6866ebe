// SPDX-License-Identifier: MIT
// Vector pieces that the attention kernels share, for the instruction set being compiled.
#if defined(KVASE_ATTENTION_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASE_ATTENTION_VECTOR_INL_H_
#undef KVASE_ATTENTION_VECTOR_INL_H_
#else
#define KVASE_ATTENTION_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using Ints = hn::Rebind<int32_t, Floats>;
using FloatVec = hn::Vec<Floats>;
inline constexpr size_t kLanes = hn::MaxLanes(Floats());
// Independent sums that fit into registers and hide the latency of a multiply-add; 16 of 32, or 8 of 16.
inline constexpr size_t kSums = kLanes == 16 ? 16 : 8;

// Row elements as f32: as many as D has lanes, one vector, one element.
template <typename D, typename T>
HWY_INLINE hn::Vec<D> load_as(D d, const T* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), p));
}
template <typename D>
HWY_INLINE hn::Vec<D> load_as(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <typename T>
HWY_INLINE FloatVec load(const T* p) {
  return load_as(Floats(), p);
}
using OneFloat = hn::CappedTag<float, 1>;
template <typename T>
HWY_INLINE float one(const T* p) {
  return hn::GetLane(load_as(OneFloat(), p));
}

// exp(x) for x <= 0, relative error below 3e-7; 0 below -87, where floats near their smallest normal.
// exp(x) = 2^n exp(r) with |r| <= ln(2)/2 and the Taylor series of exp(r), whose next term is r^7/7!
// < 1.3e-7.
HWY_INLINE FloatVec exp_nonpositive(FloatVec x) {
  const Floats d;
  const auto clamped = hn::Max(x, hn::Set(d, -87.0F));
  const auto n = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504F)));
  // ln 2 in two parts, so that n ln 2 is exact to f32.
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), clamped);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  auto series = hn::MulAdd(r, hn::Set(d, 1.0F / 720), hn::Set(d, 1.0F / 120));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0F / 24));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0F / 6));
  series = hn::MulAdd(series, r, hn::Set(d, 0.5F));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0F));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0F));
  const auto exponent = hn::Add(hn::ConvertTo(Ints(), n), hn::Set(Ints(), 127));
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(exponent));
  return hn::IfThenElseZero(hn::Ge(x, hn::Set(d, -87.0F)), hn::Mul(series, power));
}

HWY_INLINE float exp_nonpositive(float x) {
  return x == 0 ? 1.0F : hn::GetLane(exp_nonpositive(hn::Set(Floats(), x)));
}

// The largest of n positions.
HWY_INLINE int32_t newest(const int32_t* pos, size_t n) {
  int32_t largest = pos[0];
  for (size_t slot = 1; slot < n; ++slot) largest = HWY_MAX(largest, pos[slot]);
  return largest;
}

#if HWY_TARGET == HWY_SCALAR
// As below.
HWY_INLINE void sum_lanes(const FloatVec* v, float* out) {
  for (size_t index = 0; index < kSums; ++index) out[index] = hn::GetLane(v[index]);
}
#else
// Within each 128-bit block: lane r of the result is the sum of the four lanes of v[r].
HWY_INLINE FloatVec sum_in_blocks(const FloatVec* v) {
  const Floats d;
  const hn::RepartitionToWide<Floats> wide;
  const auto pair = [&](FloatVec a, FloatVec b) HWY_ATTR {
    return hn::BitCast(wide, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  };
  const auto low = pair(v[0], v[1]);
  const auto high = pair(v[2], v[3]);
  return hn::Add(hn::BitCast(d, hn::InterleaveLower(wide, low, high)),
                 hn::BitCast(d, hn::InterleaveUpper(wide, low, high)));
}

// [a's lower + upper half, b's lower + upper half].
HWY_INLINE FloatVec sum_halves(FloatVec a, FloatVec b) {
  const Floats d;
  return hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
}

// out[r] = the sum of the lanes of v[r], for kSums vectors: a transpose and vertical sums instead of kSums
// horizontal ones.
HWY_INLINE void sum_lanes(const FloatVec* v, float* out) {
  const Floats d;
  if constexpr (kLanes == 4) {
    hn::StoreU(sum_in_blocks(v), d, out);
    hn::StoreU(sum_in_blocks(v + 4), d, out + 4);
  } else if constexpr (kLanes == 8) {
    hn::StoreU(sum_halves(sum_in_blocks(v), sum_in_blocks(v + 4)), d, out);
  } else {
    const FloatVec even = sum_halves(sum_in_blocks(v), sum_in_blocks(v + 8));
    const FloatVec odd = sum_halves(sum_in_blocks(v + 4), sum_in_blocks(v + 12));
    hn::StoreU(hn::Add(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd), even),
                       hn::OddEvenBlocks(odd, hn::SwapAdjacentBlocks(even))),
               d, out);
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#endif  // include guard per target

// SPDX-License-Identifier: MIT
// Two passes over blocks of rows: sum the unit rows, then project each on the sum. Channels in vector lanes.
#include "stats/mean_cosine.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/mean_cosine.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h.
#include <hwy/highway.h>

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that kStoredRowPad is a multiple of every target's vector.
using D64 = hn::CappedTag<double, kStoredRowPad>;
using D32 = hn::Rebind<float, D64>;

HWY_INLINE hn::Vec<D64> load(const float* HWY_RESTRICT x) {
  return hn::PromoteTo(D64(), hn::LoadU(D32(), x));
}

// sum += x / |x| for each row of x [dim, n_rows]; inverse_lengths[row] = 1 / |x|, or 0.
void add_units(const float* HWY_RESTRICT x, size_t n_rows, size_t dim, double* HWY_RESTRICT sum,
               double* HWY_RESTRICT inverse_lengths) {
  const D64 d;
  for (size_t row = 0; row < n_rows; ++row, x += dim) {
    auto square = hn::Zero(d);
    for (size_t channel = 0; channel < dim; channel += hn::Lanes(d)) {
      const auto value = load(x + channel);
      square = hn::MulAdd(value, value, square);
    }
    const double length = std::sqrt(hn::GetLane(hn::SumOfLanes(d, square)));
    inverse_lengths[row] = length == 0 ? 0 : 1 / length;
    const auto scale = hn::Set(d, inverse_lengths[row]);
    for (size_t channel = 0; channel < dim; channel += hn::Lanes(d)) {
      hn::StoreU(hn::MulAdd(load(x + channel), scale, hn::LoadU(d, sum + channel)), d, sum + channel);
    }
  }
}

// out[row] = x . sum.
void project(const float* HWY_RESTRICT x, size_t n_rows, size_t dim, const double* HWY_RESTRICT sum,
             double* HWY_RESTRICT out) {
  const D64 d;
  for (size_t row = 0; row < n_rows; ++row, x += dim) {
    auto product = hn::Zero(d);
    for (size_t channel = 0; channel < dim; channel += hn::Lanes(d))
      product = hn::MulAdd(load(x + channel), hn::LoadU(d, sum + channel), product);
    out[row] = hn::GetLane(hn::SumOfLanes(d, product));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace kvase {
namespace {

// Rows converted at once; bounds the scratch, not the result.
constexpr size_t kBlock = 32;

HWY_EXPORT(add_units);
HWY_EXPORT(project);

}  // namespace

MeanCosine::MeanCosine(uint32_t head_dim, uint32_t max_rows)
    : block_(kBlock * padded_dim(head_dim)), sum_(padded_dim(head_dim)), inverse_lengths_(max_rows) {}

void MeanCosine::compute(const StoredRows& rows, std::span<const uint32_t> slots, std::span<float> out) {
  std::ranges::fill(sum_, 0.0);
  for (size_t first = 0; first < slots.size(); first += kBlock) {
    const size_t n_rows = std::min(kBlock, slots.size() - first);
    gather_rows(rows, slots.subspan(first, n_rows), block_.data());
    HWY_DYNAMIC_DISPATCH(add_units)
    (block_.data(), n_rows, sum_.size(), sum_.data(), inverse_lengths_.data() + first);
  }
  double products[kBlock];
  const auto n = static_cast<double>(slots.size());
  for (size_t first = 0; first < slots.size(); first += kBlock) {
    const size_t n_rows = std::min(kBlock, slots.size() - first);
    gather_rows(rows, slots.subspan(first, n_rows), block_.data());
    HWY_DYNAMIC_DISPATCH(project)(block_.data(), n_rows, sum_.size(), sum_.data(), products);
    for (size_t row = 0; row < n_rows; ++row)
      out[slots[first + row]] = static_cast<float>(products[row] * inverse_lengths_[first + row] / n);
  }
}

}  // namespace kvase
#endif

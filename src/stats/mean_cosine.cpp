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

// sum += x / |x| for each row of x [dim, n_rows].
void add_units(const float* HWY_RESTRICT x, size_t n_rows, size_t dim, double* HWY_RESTRICT sum) {
  const D64 d;
  for (size_t row = 0; row < n_rows; ++row, x += dim) {
    auto square = hn::Zero(d);
    for (size_t channel = 0; channel < dim; channel += hn::Lanes(d)) {
      const auto value = load(x + channel);
      square = hn::MulAdd(value, value, square);
    }
    const double length = std::sqrt(hn::GetLane(hn::SumOfLanes(d, square)));
    if (length == 0) continue;
    const auto scale = hn::Set(d, 1 / length);
    for (size_t channel = 0; channel < dim; channel += hn::Lanes(d)) {
      hn::StoreU(hn::MulAdd(load(x + channel), scale, hn::LoadU(d, sum + channel)), d, sum + channel);
    }
  }
}

// out[row] = scale * (x . sum) / |x|.
void project(const float* HWY_RESTRICT x, size_t n_rows, size_t dim, const double* HWY_RESTRICT sum,
             double scale, double* HWY_RESTRICT out) {
  const D64 d;
  for (size_t row = 0; row < n_rows; ++row, x += dim) {
    auto square = hn::Zero(d), product = hn::Zero(d);
    for (size_t channel = 0; channel < dim; channel += hn::Lanes(d)) {
      const auto value = load(x + channel);
      square = hn::MulAdd(value, value, square);
      product = hn::MulAdd(value, hn::LoadU(d, sum + channel), product);
    }
    const double length = std::sqrt(hn::GetLane(hn::SumOfLanes(d, square)));
    out[row] = length == 0 ? 0 : scale * hn::GetLane(hn::SumOfLanes(d, product)) / length;
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

MeanCosine::MeanCosine(uint32_t head_dim)
    : block_(kBlock * padded_dim(head_dim)), sum_(padded_dim(head_dim)) {}

void MeanCosine::compute(const StoredRows& rows, std::span<const uint32_t> slots, std::span<float> out) {
  std::ranges::fill(sum_, 0.0);
  for (size_t first = 0; first < slots.size(); first += kBlock) {
    const size_t n_rows = std::min(kBlock, slots.size() - first);
    gather_rows(rows, slots.subspan(first, n_rows), block_.data());
    HWY_DYNAMIC_DISPATCH(add_units)(block_.data(), n_rows, sum_.size(), sum_.data());
  }
  double means[kBlock];
  const double scale = 1 / static_cast<double>(slots.size());
  for (size_t first = 0; first < slots.size(); first += kBlock) {
    const size_t n_rows = std::min(kBlock, slots.size() - first);
    gather_rows(rows, slots.subspan(first, n_rows), block_.data());
    HWY_DYNAMIC_DISPATCH(project)(block_.data(), n_rows, sum_.size(), sum_.data(), scale, means);
    for (size_t row = 0; row < n_rows; ++row) out[slots[first + row]] = static_cast<float>(means[row]);
  }
}

}  // namespace kvase
#endif

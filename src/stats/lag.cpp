// SPDX-License-Identifier: MIT
// Ranges of one partition, deviations of the one before it. Channels in vector lanes.
#include "stats/lag.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/lag.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h.
#include <hwy/highway.h>

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that kStoredRowPad is a multiple of every target's vector.
using D32 = hn::CappedTag<float, kStoredRowPad>;
using D64 = hn::CappedTag<double, kStoredRowPad>;

// Minimum and maximum of each channel of x [dim, n_rows] and of what low and high hold.
void widen_ranges(const float* HWY_RESTRICT x, size_t n_rows, size_t dim, float* HWY_RESTRICT low,
                  float* HWY_RESTRICT high) {
  const D32 d;
  for (size_t channel = 0; channel < dim; channel += hn::Lanes(d)) {
    auto least = hn::LoadU(d, low + channel), most = hn::LoadU(d, high + channel);
    for (size_t row = 0; row < n_rows; ++row) {
      const auto value = hn::LoadU(d, x + row * dim + channel);
      least = hn::Min(least, value);
      most = hn::Max(most, value);
    }
    hn::StoreU(least, d, low + channel);
    hn::StoreU(most, d, high + channel);
  }
}

// out[row] = unbiased standard deviation over n_channels of (x - low) * inverse_range, in f64. Where there is
// no range, as in padded channels, its inverse is 0 and adds nothing to the sums.
void deviations(const float* HWY_RESTRICT x, size_t n_rows, size_t dim, size_t n_channels,
                const float* HWY_RESTRICT low, const double* HWY_RESTRICT inverse_range,
                double* HWY_RESTRICT out) {
  const D64 d;
  const hn::Rebind<float, D64> d32;
  for (size_t row = 0; row < n_rows; ++row, x += dim) {
    auto sum = hn::Zero(d), squares = hn::Zero(d);
    for (size_t channel = 0; channel < dim; channel += hn::Lanes(d)) {
      const auto least = hn::PromoteTo(d, hn::LoadU(d32, low + channel));
      const auto value = hn::Sub(hn::PromoteTo(d, hn::LoadU(d32, x + channel)), least);
      const auto y = hn::Mul(value, hn::LoadU(d, inverse_range + channel));
      sum = hn::Add(sum, y);
      squares = hn::MulAdd(y, y, squares);
    }
    const double n = static_cast<double>(n_channels), total = hn::GetLane(hn::SumOfLanes(d, sum));
    const double spread = hn::GetLane(hn::SumOfLanes(d, squares)) - total * total / n;
    out[row] = std::sqrt(spread > 0 ? spread / (n - 1) : 0);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <limits>

namespace kvase {
namespace {

// Rows converted at once; bounds the scratch, not the result.
constexpr size_t kBlock = 32;

HWY_EXPORT(widen_ranges);
HWY_EXPORT(deviations);

}  // namespace

LagDeviation::LagDeviation(uint32_t head_dim, uint32_t lag)
    : head_dim_(head_dim),
      lag_(lag),
      block_(kBlock * padded_dim(head_dim)),
      low_(padded_dim(head_dim)),
      high_(padded_dim(head_dim)),
      inverse_range_(padded_dim(head_dim)) {}

void LagDeviation::compute(const StoredRows& rows, std::span<const uint32_t> by_position,
                           std::span<float> out) {
  for (const uint32_t slot : by_position) out[slot] = 0;
  for (size_t first = 0; first + 2 * size_t{lag_} <= by_position.size(); first += lag_) {
    read_ranges(rows, by_position.subspan(first + lag_, lag_));
    compare(rows, by_position.subspan(first, lag_), out);
  }
}

void LagDeviation::read_ranges(const StoredRows& rows, std::span<const uint32_t> slots) {
  std::ranges::fill(low_, std::numeric_limits<float>::infinity());
  std::ranges::fill(high_, -std::numeric_limits<float>::infinity());
  for (size_t first = 0; first < slots.size(); first += kBlock) {
    const size_t n_rows = std::min(kBlock, slots.size() - first);
    gather_rows(rows, slots.subspan(first, n_rows), block_.data());
    HWY_DYNAMIC_DISPATCH(widen_ranges)(block_.data(), n_rows, low_.size(), low_.data(), high_.data());
  }
  for (size_t channel = 0; channel < low_.size(); ++channel) {
    const double range = double{high_[channel]} - double{low_[channel]};
    inverse_range_[channel] = range > 0 ? 1 / range : 0;
  }
}

void LagDeviation::compare(const StoredRows& rows, std::span<const uint32_t> slots, std::span<float> out) {
  double values[kBlock];
  for (size_t first = 0; first < slots.size(); first += kBlock) {
    const size_t n_rows = std::min(kBlock, slots.size() - first);
    gather_rows(rows, slots.subspan(first, n_rows), block_.data());
    HWY_DYNAMIC_DISPATCH(deviations)
    (block_.data(), n_rows, low_.size(), head_dim_, low_.data(), inverse_range_.data(), values);
    for (size_t row = 0; row < n_rows; ++row) out[slots[first + row]] = static_cast<float>(values[row]);
  }
}

}  // namespace kvase
#endif

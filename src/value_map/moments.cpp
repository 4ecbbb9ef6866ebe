// SPDX-License-Identifier: MIT
// Products of a block in tiles that stay in registers, and the merge of two sets of moments.
#include "value_map/moments.h"

// Vectors of a size known at run time only cannot lie in arrays.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "value_map/moments.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// products[a_channel][b_channel] = sum over rows of a[a_channel] b[b_channel].
//   a [stride_a, n_rows], b [stride_b, n_rows]; strides are padded to multiples of 16
//   products [n_b, n_a]
void multiply_columns(const double* HWY_RESTRICT a, size_t stride_a, size_t n_a, const double* HWY_RESTRICT b,
                      size_t stride_b, size_t n_b, size_t n_rows, double* HWY_RESTRICT products) {
  const hn::CappedTag<double, 8> d;
  constexpr size_t kTileRows = 4;
  constexpr size_t kVectors = 2;
  const size_t tile_columns = kVectors * hn::Lanes(d);
  for (size_t column = 0; column < n_b; column += tile_columns) {
    for (size_t row = 0; row < n_a; row += kTileRows) {
      hn::Vec<decltype(d)> sums[kTileRows][kVectors];
      for (auto& row_sums : sums) {
        for (auto& sum : row_sums) sum = hn::Zero(d);
      }
      for (size_t index = 0; index < n_rows; ++index) {
        const double* b_row = b + index * stride_b + column;
        const double* a_row = a + index * stride_a + row;
        const auto b0 = hn::LoadU(d, b_row), b1 = hn::LoadU(d, b_row + hn::Lanes(d));
#pragma GCC unroll 4
        for (size_t tile_row = 0; tile_row < kTileRows; ++tile_row) {
          const auto factor = hn::Set(d, a_row[tile_row]);
          sums[tile_row][0] = hn::MulAdd(factor, b0, sums[tile_row][0]);
          sums[tile_row][1] = hn::MulAdd(factor, b1, sums[tile_row][1]);
        }
      }
      for (size_t tile_row = 0; tile_row < std::min(kTileRows, n_a - row); ++tile_row) {
        double tile[16];
        hn::StoreU(sums[tile_row][0], d, tile);
        hn::StoreU(sums[tile_row][1], d, tile + hn::Lanes(d));
        std::copy_n(tile, std::min(tile_columns, n_b - column), products + (row + tile_row) * n_b + column);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvase {
namespace {

HWY_EXPORT(multiply_columns);

constexpr uint32_t kTile = 16;  // channels
uint32_t padded(uint32_t n) { return (n + kTile - 1) / kTile * kTile; }

// Takes each column's mean off its rows, and returns the means.
void centre(std::vector<double>& rows, uint32_t stride, uint32_t n_rows, std::vector<double>& means) {
  std::ranges::fill(means, 0.0);
  for (uint32_t row = 0; row < n_rows; ++row) {
    for (size_t channel = 0; channel < means.size(); ++channel)
      means[channel] += rows[size_t{row} * stride + channel];
  }
  for (double& mean : means) mean /= n_rows;
  for (uint32_t row = 0; row < n_rows; ++row) {
    for (size_t channel = 0; channel < means.size(); ++channel)
      rows[size_t{row} * stride + channel] -= means[channel];
  }
}

}  // namespace

Moments::Moments(uint32_t n_x_channels, uint32_t n_y_channels)
    : n_x(n_x_channels),
      n_y(n_y_channels),
      mean_x(n_x, 0.0),
      mean_y(n_y, 0.0),
      xx(size_t{n_x} * n_x, 0.0),
      xy(size_t{n_x} * n_y, 0.0),
      yy(n_y, 0.0) {}

// With d the difference of the means, M = M_a + M_b + (n_a n_b / n) d d^T.
void Moments::merge(const Moments& other) {
  KVASE_CHECK(n_x == other.n_x && n_y == other.n_y, "{} x {} and {} x {} channels", n_x, n_y, other.n_x,
              other.n_y);
  if (other.n == 0) return;
  const auto total = static_cast<double>(n + other.n);
  const double share = static_cast<double>(other.n) / total;
  const double factor = static_cast<double>(n) * share;
  for (size_t row = 0; row < n_x; ++row) {
    const double scaled = factor * (other.mean_x[row] - mean_x[row]);
    for (size_t column = 0; column < n_x; ++column)
      xx[row * n_x + column] +=
          other.xx[row * n_x + column] + scaled * (other.mean_x[column] - mean_x[column]);
    for (size_t column = 0; column < n_y; ++column)
      xy[row * n_y + column] +=
          other.xy[row * n_y + column] + scaled * (other.mean_y[column] - mean_y[column]);
  }
  for (size_t channel = 0; channel < n_y; ++channel) {
    const double difference = other.mean_y[channel] - mean_y[channel];
    yy[channel] += other.yy[channel] + factor * difference * difference;
    mean_y[channel] += share * difference;
  }
  for (size_t channel = 0; channel < n_x; ++channel)
    mean_x[channel] += share * (other.mean_x[channel] - mean_x[channel]);
  n += other.n;
}

Moments Moments::part(uint32_t first, uint32_t n_channels) const {
  Moments result(n_channels, n_channels);
  result.n = n;
  for (size_t row = 0; row < n_channels; ++row) {
    result.mean_x[row] = mean_x[first + row];
    result.mean_y[row] = mean_y[first + row];
    result.yy[row] = yy[first + row];
    for (size_t column = 0; column < n_channels; ++column) {
      result.xx[row * n_channels + column] = xx[(first + row) * n_x + first + column];
      result.xy[row * n_channels + column] = xy[(first + row) * n_y + first + column];
    }
  }
  return result;
}

bool Moments::is_finite() const {
  const auto all_finite = [](const std::vector<double>& values) {
    return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
  };
  return all_finite(mean_x) && all_finite(mean_y) && all_finite(xx) && all_finite(xy) && all_finite(yy);
}

MomentBlock::MomentBlock(uint32_t n_x, uint32_t n_y)
    : stride_x_(padded(n_x)),
      stride_y_(padded(n_y)),
      x_(size_t{stride_x_} * kRows, 0.0),
      y_(size_t{stride_y_} * kRows, 0.0),
      own_(n_x, n_y) {}

void MomentBlock::add(const float* x, const float* y, Moments& moments) {
  std::copy_n(x, own_.n_x, x_.begin() + static_cast<ptrdiff_t>(size_t{n_rows_} * stride_x_));
  std::copy_n(y, own_.n_y, y_.begin() + static_cast<ptrdiff_t>(size_t{n_rows_} * stride_y_));
  if (++n_rows_ == kRows) flush(moments);
}

void MomentBlock::flush(Moments& moments) {
  if (n_rows_ == 0) return;
  own_.n = n_rows_;
  centre(x_, stride_x_, n_rows_, own_.mean_x);
  centre(y_, stride_y_, n_rows_, own_.mean_y);
  HWY_DYNAMIC_DISPATCH(multiply_columns)
  (x_.data(), stride_x_, own_.n_x, x_.data(), stride_x_, own_.n_x, n_rows_, own_.xx.data());
  HWY_DYNAMIC_DISPATCH(multiply_columns)
  (x_.data(), stride_x_, own_.n_x, y_.data(), stride_y_, own_.n_y, n_rows_, own_.xy.data());
  for (size_t channel = 0; channel < own_.n_y; ++channel) {
    own_.yy[channel] = 0;
    for (size_t row = 0; row < n_rows_; ++row) {
      const double y = y_[row * stride_y_ + channel];
      own_.yy[channel] += y * y;
    }
  }
  moments.merge(own_);
  n_rows_ = 0;
}

}  // namespace kvase
#endif  // HWY_ONCE

// SPDX-License-Identifier: MIT
// Means and centred second moments of pairs of rows (x, y), gathered in one pass and mergeable, in f64.
//
// Each block of rows is centred on its own means before it is merged: raw sums lose the variance where a mean
// is large, and keys have strong constant components. One thread per object; objects of several threads
// merge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvase {

struct Moments {
  Moments() = default;
  Moments(uint32_t n_x_channels, uint32_t n_y_channels);

  void merge(const Moments& other);
  // Those of channels first .. first + n - 1 of both x and y: one KV head of a layer.
  Moments part(uint32_t first, uint32_t n) const;
  bool is_finite() const;

  uint32_t n_x = 0, n_y = 0;        // channels
  uint64_t n = 0;                   // rows
  std::vector<double> mean_x = {};  // [n_x]
  std::vector<double> mean_y = {};  // [n_y]
  std::vector<double> xx = {};      // [n_x, n_x]  sum of (x - mean_x)(x - mean_x)^T
  std::vector<double> xy = {};      // [n_y, n_x]  sum of (x - mean_x)(y - mean_y)^T
  std::vector<double> yy = {};      // [n_y]       sum of (y - mean_y)^2
};

// Rows on their way into moments. Allocates when made, not afterwards.
class MomentBlock {
 public:
  static constexpr uint32_t kRows = 128;

  MomentBlock(uint32_t n_x, uint32_t n_y);

  // Copies one row; hands the block to `moments` when it is full.
  //   x f32 [n_x], y f32 [n_y]
  void add(const float* x, const float* y, Moments& moments);
  // Hands over what is there.
  void flush(Moments& moments);

 private:
  uint32_t stride_x_, stride_y_;  // channels, padded to whole tiles
  uint32_t n_rows_ = 0;
  std::vector<double> x_, y_;  // [stride, kRows]
  Moments own_;                // of the block
};

}  // namespace kvase

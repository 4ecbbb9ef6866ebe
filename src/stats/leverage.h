// SPDX-License-Identifier: MIT
// Exact statistical leverage of rows: the statistic of cur-exact and leverage.
//
// l_j = x_j^T (X^T X + eps I)^-1 x_j, X the rows of a set, eps = kLeverageRidge of the mean diagonal of X^T
// X. It lies in 0..1, sums to almost the rank of X, and rotating all rows changes nothing. In f64: the ridge
// lets the matrix be a million times longer in one direction than in another. Cost: head_dim^2 multiply-adds
// per row, and head_dim^3 / 6 once.
#pragma once

#include <span>
#include <vector>

#include "stats/rows.h"

namespace kvase {

inline constexpr double kLeverageRidge = 1e-6;
inline constexpr size_t kLeverageBlock = 32;  // rows taken at once
inline constexpr size_t kLeveragePanel = 8;   // columns of the matrix that lie together

// Scratch of one thread, allocated once.
class Leverage {
 public:
  explicit Leverage(uint32_t head_dim);

  // out[slot] for every slot of `slots`; other elements are left as they are. Rows of zeros have leverage 0;
  // a row that is not finite makes all NaN.
  void compute(const StoredRows& rows, std::span<const uint32_t> slots, std::span<float> out);

 private:
  // Fills block_ from the first slots, zeros behind them. Returns how many rows it read.
  size_t read_block(const StoredRows& rows, std::span<const uint32_t> slots);
  // lower_ := Cholesky factor of the products, the diagonal inverted. If all rows are 0, so is the diagonal.
  void factorise();

  uint32_t head_dim_;
  std::vector<float> stored_;     // a block of rows, [padded_dim, block]
  std::vector<double> block_;     // the same in f64
  std::vector<double> columns_;   // the same with rows fastest
  std::vector<double> products_;  // X^T X on and above its diagonal, in panels
  std::vector<double> lower_;     // [padded_dim, padded_dim]
};

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Mean cosine of each row to all rows of a set: the statistic of KeyDiff and of R-KV in its linear form.
//
// mean_i cos(x_i, x_j) = u_j . (sum_i u_i) / n with u = x / |x|, so no n x n matrix is made. Everything is
// summed in f64. Cost: the rows are read twice, 3 head_dim multiply-adds in all.
#pragma once

#include <span>
#include <vector>

#include "stats/rows.h"

namespace kvase {

// Scratch of one thread, allocated once.
class MeanCosine {
 public:
  MeanCosine(uint32_t head_dim, uint32_t max_rows);

  // out[slot] for every slot of `slots`; other elements are left as they are. A row of zeros has cosine 0 to
  // all.
  void compute(const StoredRows& rows, std::span<const uint32_t> slots, std::span<float> out);

  // 1 / |x| of the rows of the last compute(), in the order of its slots; 0 for a row of zeros.
  std::span<const double> inverse_lengths() const { return inverse_lengths_; }

 private:
  std::vector<float> block_;             // rows in f32
  std::vector<double> sum_;              // of unit rows, [padded_dim]
  std::vector<double> inverse_lengths_;  // [max_rows]
};

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Redundancy of keys as released R-KV computes it, before its softmax.
//
// Paper: Cai et al. 2025, arXiv:2505.24133. With c_ij = cos(k_i, k_j), c_ii = 0, every row i exempts its
// newest similar key, j*(i) = the newest j with c_ij > 0.5; a row without one exempts the oldest key, as the
// released code does. rho_j = mean_i of the c_ij that are left.
//
// "Newest" is by position, where the released code takes the last slot. No n x n matrix is made: the column
// means of all c_ij are linear (stats/mean_cosine.h), and only the exempted entry of each row is looked for,
// from the newest key backwards. Cost: n^2 head_dim multiply-adds in f32 if nothing is similar, and as little
// as n * head_dim if newest keys are; c_ij within about 1e-6 of 0.5 may fall on either side.
#pragma once

#include <span>
#include <vector>

#include "stats/mean_cosine.h"

namespace kvase {

inline constexpr size_t kRedundancyPanel = 16;  // keys side by side

// Scratch of one thread, allocated once: the unit keys of one KV head.
class Redundancy {
 public:
  Redundancy(uint32_t head_dim, uint32_t max_rows);

  //   by_position  all slots in use, oldest first
  //   out          f32 [slots in use]
  void compute(const StoredRows& keys, std::span<const uint32_t> by_position, std::span<float> out);

 private:
  void read_units(const StoredRows& keys, std::span<const uint32_t> by_position);
  void find_exempted(size_t n);

  MeanCosine mean_cosine_;
  size_t dim_;                   // padded
  std::vector<float> row_;       // one panel of rows
  std::vector<float> units_;     // unit keys by position, in panels of 16 keys: [16, dim, n / 16]
  std::vector<double> removed_;  // per key, what leaves its column sum
};

}  // namespace kvase

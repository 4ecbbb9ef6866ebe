// SPDX-License-Identifier: MIT
// Redundancy of keys as released R-KV computes it, before its softmax.
//
// Paper: Cai et al. 2025, arXiv:2505.24133. With c_ij = cos(k_i, k_j), c_ii = 0, every row i exempts its
// newest similar key, j*(i) = the newest j with c_ij > 0.5; a row without one exempts the oldest key, as the
// released code does. rho_j = mean_i of the c_ij that are left.
//
// "Newest" is by position, where the released code takes the last slot. No n x n matrix is made: the column
// means of all c_ij are linear (stats/mean_cosine.h), and only the exempted entry of each row is looked for,
// from the newest key backwards. What an earlier event found is kept with the slot: keys that were not
// similar then are not now, so only newer keys are compared, and older ones where j* was evicted. Cost: the
// first event n^2 head_dim multiply-adds in f32 if nothing is similar, later ones 2 * interval * n * head_dim
// and n * head_dim for every row that lost its j*. c_ij within about 1e-6 of 0.5 may fall on either side.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stats/mean_cosine.h"

namespace kvase {

inline constexpr uint32_t kRedundancyPanel = 16;  // keys side by side
inline constexpr size_t kRedundancyRows = 4;      // rows that are compared at once

// What a slot knows of its newest similar key: its position, or one of these.
inline constexpr int32_t kNeverCompared = -1;
inline constexpr int32_t kNoneSimilar = -2;

// Scratch of one thread, allocated once: the unit keys of one KV head.
class Redundancy {
 public:
  Redundancy(uint32_t head_dim, uint32_t max_rows);

  //   by_position  all slots in use, oldest first
  //   pos          [slots in use]
  //   similar      [slots in use], in: as the last event left it, kNeverCompared for newer slots; out: as
  //   found out          f32 [slots in use]
  void compute(const StoredRows& keys, std::span<const uint32_t> by_position, std::span<const int32_t> pos,
               std::span<int32_t> similar, std::span<float> out);

 private:
  // A row that looks for its newest similar key among the `end` oldest.
  struct Search {
    uint32_t row = 0;
    uint32_t end = 0;
    uint32_t found = 0;
  };

  void read_units(const StoredRows& keys, std::span<const uint32_t> by_position);
  void find_similar(std::span<const uint32_t> by_position, std::span<const int32_t> pos,
                    std::span<const int32_t> similar);
  void look_back(std::span<Search> searches, uint32_t begin);
  void look_back_together(std::span<Search> searches, uint32_t begin);
  const float* unit_of(size_t key) const;
  double cosine(size_t a, size_t b) const;

  MeanCosine mean_cosine_;
  size_t dim_;                      // padded
  std::vector<float> row_;          // one panel of rows
  std::vector<float> units_;        // unit keys by position, in panels of 16 keys: [16, dim, n / 16]
  std::vector<float> together_;     // rows that are compared at once, [kRedundancyRows, dim]
  std::vector<Search> searches_;    // one per row
  std::vector<Search> unfinished_;  // those that must look at older keys
  std::vector<double> removed_;     // per key, what leaves its column sum
};

}  // namespace kvase

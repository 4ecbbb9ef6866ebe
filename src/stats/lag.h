// SPDX-License-Identifier: MIT
// How much a row stands out from the partition that follows it: the statistic of LagKV.
//
// Paper: Liang et al. 2025, arXiv:2504.04704. Rows in order of position, sinks left out, cut into partitions
// of `lag` rows. In every whole partition but the last, each channel is scaled by its minimum and maximum in
// the next partition, y = (x - min) / (max - min); the statistic is the unbiased standard deviation of y over
// channels. Differs from the paper's code: a channel that is constant in the next partition counts as 0,
// where the code divides by zero. Cost: two passes over the rows.
#pragma once

#include <span>
#include <vector>

#include "stats/rows.h"

namespace kvase {

// Scratch of one thread, allocated once.
class LagDeviation {
 public:
  LagDeviation(uint32_t head_dim, uint32_t lag);

  // out[slot] for every slot of `by_position`; 0 where nothing is compared.
  //   by_position  slots without sinks, oldest first
  void compute(const StoredRows& rows, std::span<const uint32_t> by_position, std::span<float> out);

 private:
  void read_ranges(const StoredRows& rows, std::span<const uint32_t> slots);
  void compare(const StoredRows& rows, std::span<const uint32_t> slots, std::span<float> out);

  uint32_t head_dim_, lag_;
  std::vector<float> block_;           // rows in f32
  std::vector<float> low_, high_;      // of each channel in the next partition, [padded_dim]
  std::vector<double> inverse_range_;  // 1 / (high - low), 0 where they are equal
};

}  // namespace kvase

// SPDX-License-Identifier: MIT
// What an approximate tier that replaces values by a mean would lose: |v - mean|^2 of stored values.
//
// In f32, 16 running sums per row. Cost: one pass over the values, two where no mean exists yet.
#pragma once

#include <span>
#include <vector>

#include "stats/rows.h"

namespace kvase {

// Scratch of one thread, allocated once.
class MeanResidual {
 public:
  explicit MeanResidual(uint32_t head_dim);

  // out[slot] for every slot of `slots`; other elements are left as they are.
  //   mean  f32 [head_dim]; empty: that of the slots' own values
  void compute(const StoredRows& values, std::span<const uint32_t> slots, std::span<const float> mean,
               std::span<float> out);

 private:
  std::vector<float> block_;  // rows in f32
  std::vector<float> mean_;   // [padded_dim]
};

}  // namespace kvase

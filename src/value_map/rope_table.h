// SPDX-License-Identifier: MIT
// Takes RoPE off many keys at once, with sines and cosines from small tables: for attention, where every key
// without a value is un-rotated for every token.
//
// A position is four digits to the base 256. Each digit's angle is looked up, and angles are added as complex
// products, so the tables cover every position and their size depends on n_rot alone. RopeInverse repeats the
// roundings of ggml's angles; here they are missing: at position p the fast pairs differ by up to p * 2^-23
// radians. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "value_map/rope_inverse.h"

namespace kvase {

// What kernels read of a table.
struct RopeTurns {
  // Cosines, then sines, of one digit's angles: [n_pairs, 2, 256, 4 digits]. The lowest digit's are divided
  // by the rotation's magnitude.
  const float* table = nullptr;
  size_t n_pairs = 0;
  RopePairs pairs = RopePairs::half_split;
};

class RopeTable {
 public:
  RopeTable() = default;  // rotates nothing
  // REQUIRES: as RopeInverse.
  RopeTable(const RopeSetting& setting, uint32_t head_dim);

  size_t bytes() const { return table_.size() * sizeof(float); }
  RopeTurns turns() const { return {table_.data(), n_pairs_, pairs_}; }

  // Keys after RoPE to keys before it, in place. Allocates nothing.
  //   rows  f32 [head_dim, n]
  //   pos   [n], >= 0
  void unrotate_rows(float* rows, const int32_t* pos, size_t n) const;

 private:
  uint32_t head_dim_ = 0;
  uint32_t n_pairs_ = 0;
  RopePairs pairs_ = RopePairs::half_split;
  std::vector<float> table_;
};

}  // namespace kvase

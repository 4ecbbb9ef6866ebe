// SPDX-License-Identifier: MIT
// Made-up rows for benchmarks.
#pragma once

#include <cstdint>

namespace kvase {

// Values in [-1, 1) from a small linear congruential generator: the data does not matter, its spread does.
class Noise {
 public:
  float next() {
    state_ = state_ * 1664525U + 1013904223U;
    return static_cast<float>(static_cast<int32_t>(state_)) * 0x1p-31F;
  }

 private:
  uint32_t state_ = 1;
};

}  // namespace kvase

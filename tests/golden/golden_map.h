// SPDX-License-Identifier: MIT
// The RoPE and the map of a case of value_map.gguf.
#pragma once

#include <string>

#include "golden/golden_file.h"
#include "value_map/value_map.h"

namespace kvase::golden {

inline RopeSetting rope_of(const File& file, const std::string& name) {
  const auto counts = file.tensor<int32_t>(name + ".rope");
  const auto numbers = file.tensor<float>(name + ".rope_numbers");
  RopeSetting rope = {.n_rot = static_cast<uint32_t>(counts[0]),
                      .pairs = counts[1] != 0 ? RopePairs::half_split : RopePairs::adjacent,
                      .freq_base = numbers[0],
                      .freq_scale = numbers[1],
                      .ext_factor = numbers[2],
                      .attn_factor = numbers[3],
                      .beta_fast = numbers[4],
                      .beta_slow = numbers[5],
                      .n_ctx_orig = static_cast<uint32_t>(counts[2])};
  if (file.has(name + ".divisors")) rope.divisors = file.tensor<float>(name + ".divisors");
  return rope;
}

inline LayerMap map_of(const File& file, const std::string& name) {
  return {.mode = TierMode::linear,
          .head_dim = file.size(name + ".k", 0),
          .weight = file.tensor<float>(name + ".weight"),
          .bias = file.tensor<float>(name + ".bias")};
}

}  // namespace kvase::golden

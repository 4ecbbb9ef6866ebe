// SPDX-License-Identifier: MIT
// The oracle: attention and attention mass as plain double-precision loops over explicit arrays.
//
// Every faster path is tested against this one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvase/policy.h"

namespace kvase {

// One KV head and its query heads. Rows lie in any order; `pos` says which is which.
struct ReferenceHead {
  uint32_t head_dim = 0;
  std::span<const float> keys;    // [head_dim, n] as the cache holds them
  std::span<const float> values;  // [head_dim, n]
  std::span<const int32_t> pos;   // [n]
  double scale = 1;
};

// Probabilities of one query over the rows with pos <= query_pos; 0 elsewhere.
std::vector<double> reference_probabilities(const ReferenceHead& head, std::span<const float> query,
                                            int32_t query_pos);

// [head_dim] = sum of probability times value.
std::vector<double> reference_attention(const ReferenceHead& head, std::span<const float> query,
                                        int32_t query_pos);

// A linear map from keys before RoPE to values. RoPE as half-split pairs over the whole head: channels pair
// and pair + head_dim / 2 turn by pos * rope_base^(-2 pair / head_dim).
struct ReferenceMap {
  std::span<const float> weight;  // [head_dim in, head_dim out]
  std::span<const float> bias;    // [head_dim]
  double rope_base = 10000;
};

// [head_dim] = W k + b, k the stored key with RoPE taken off: what stands for a value that is gone.
std::vector<double> reference_value(const ReferenceMap& map, std::span<const float> key, int32_t pos);

// One query's share of the mass column: for every mass row, the probability of each candidate, [n] each.
//   queries       one [head_dim] span per query head of the group
//   is_candidate  [n], 1 for rows outside the window
std::vector<std::vector<double>> reference_mass(const ReferenceHead& head,
                                                std::span<const std::span<const float>> queries,
                                                int32_t query_pos, std::span<const uint8_t> is_candidate,
                                                const MassSpec& spec);

}  // namespace kvase

// SPDX-License-Identifier: MIT
// VECTOR's predictor: a value rebuilt from its key, v ~ W k + b, per layer and KV head.
//
// Paper: arXiv 2605.23258. k is the key before RoPE, after bias and key norm (rope_inverse.h). Differs from
// the paper: one map per KV head and an intercept, so that heads may choose their own tokens; see
// docs/value-map.md. Plain data, written once; thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "value_map/rope_inverse.h"
#include "value_map/rope_table.h"

namespace kvase {

// What a layer does with a value that it does not store.
enum class TierMode : uint8_t {
  off = 0,     // nothing: every slot of the layer keeps its value
  zero = 1,    // a mean in its place
  linear = 2,  // W k + b
};

struct LayerMap {
  TierMode mode = TierMode::off;
  uint32_t head_dim = 0;
  std::vector<float> weight = {};  // [head_dim in, head_dim out, n_kv_heads], f16 values; empty unless linear
  std::vector<float> bias = {};    // [head_dim, n_kv_heads]; the mean value unless linear
  std::vector<float> value_mean = {};  // [head_dim, n_kv_heads]
};

struct ValueMaps {
  std::vector<LayerMap> layers = {};
  RopeInverse rope_inverse = {};
  RopeTable rope_table = {};

  size_t bytes() const;  // of weights, biases, means and tables in memory
};

// |v - W k - b|^2, a sum over head_dim channels.
//   key_before_rope, value  f32 [head_dim]
float residual(const LayerMap& map, uint32_t kv_head, const float* key_before_rope, const float* value);

// Adds W sum_keys + sum_weight b: what slots of weight a_j contribute whose values are rebuilt, from
// sum_keys = sum of a_j k_j and sum_weight = sum of a_j.
//   sum_keys, out  f32 [head_dim]
void apply(const LayerMap& map, uint32_t kv_head, const float* sum_keys, float sum_weight, float* out);

}  // namespace kvase

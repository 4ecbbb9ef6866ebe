// SPDX-License-Identifier: MIT
// What the family files say of their tensors.
#pragma once

#include <string>
#include <vector>

#include "model/family.h"

namespace kvase {

inline void add_vector(std::vector<TensorSpec>& specs, std::string name, int64_t length, bool required) {
  specs.push_back({std::move(name), {length}, TensorRole::vector, required});
}

inline void add_matrix(std::vector<TensorSpec>& specs, std::string name, int64_t n_in, int64_t n_out,
                       bool required = true) {
  specs.push_back({std::move(name), {n_in, n_out}, TensorRole::matrix, required});
}

// Channels of all query heads, and of all KV heads.
inline int64_t q_width(const HParams& params) { return int64_t{params.head_dim} * params.n_heads; }
inline int64_t kv_width(const HParams& params) { return int64_t{params.head_dim} * params.n_kv_heads; }

inline void add_qkv_biases(const HParams& params, const std::string& layer, std::vector<TensorSpec>& specs,
                           bool required) {
  add_vector(specs, layer + "attn_q.bias", q_width(params), required);
  add_vector(specs, layer + "attn_k.bias", kv_width(params), required);
  add_vector(specs, layer + "attn_v.bias", kv_width(params), required);
}

}  // namespace kvase

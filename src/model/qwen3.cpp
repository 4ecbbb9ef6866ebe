// SPDX-License-Identifier: MIT
// qwen3: dense Qwen3. Half against half rotates; every query and key head is normed before it.
#include "model/tensor_list.h"

namespace kvase {
namespace {

void add_extras(const HParams& params, const std::string& layer, std::vector<TensorSpec>& specs) {
  add_vector(specs, layer + "attn_q_norm.weight", params.head_dim, /*required=*/true);
  add_vector(specs, layer + "attn_k_norm.weight", params.head_dim, /*required=*/true);
}

}  // namespace

const Family kQwen3Family = {"qwen3", RopePairing::halves, add_extras};

}  // namespace kvase

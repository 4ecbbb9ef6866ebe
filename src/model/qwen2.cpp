// SPDX-License-Identifier: MIT
// qwen2: Qwen2, Qwen2.5, R1-distill-Qwen. Half against half rotates; queries, keys and values have biases.
#include "model/tensor_list.h"

namespace kvase {
namespace {

void add_extras(const HParams& params, const std::string& layer, std::vector<TensorSpec>& specs) {
  add_qkv_biases(params, layer, specs, /*required=*/true);
}

}  // namespace

const Family kQwen2Family = {"qwen2", RopePairing::halves, add_extras};

}  // namespace kvase

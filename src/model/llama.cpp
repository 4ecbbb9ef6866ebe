// SPDX-License-Identifier: MIT
// llama: SmolLM2, Llama 2 and 3, R1-distill-Llama. Neighbouring channels rotate together; all biases are
// optional.
#include "model/tensor_list.h"

namespace kvase {
namespace {

void add_extras(const HParams& params, const std::string& layer, std::vector<TensorSpec>& specs) {
  add_qkv_biases(params, layer, specs, /*required=*/false);
  add_vector(specs, layer + "attn_output.bias", params.n_embd, /*required=*/false);
  add_vector(specs, layer + "ffn_gate.bias", params.n_ff, /*required=*/false);
  add_vector(specs, layer + "ffn_up.bias", params.n_ff, /*required=*/false);
  add_vector(specs, layer + "ffn_down.bias", params.n_embd, /*required=*/false);
}

}  // namespace

const Family kLlamaFamily = {"llama", RopePairing::neighbours, add_extras};

}  // namespace kvase

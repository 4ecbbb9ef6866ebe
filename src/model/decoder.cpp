// SPDX-License-Identifier: MIT
// Builds the graph, layer by layer.
#include "model/decoder.h"

#include "model/rope.h"
#include "tensor/shape.h"

namespace kvase {
namespace {

ggml_tensor* linear(ggml_context* context, ggml_tensor* weight, ggml_tensor* bias, ggml_tensor* x) {
  ggml_tensor* y = ggml_mul_mat(context, weight, x);
  return bias == nullptr ? y : ggml_add(context, y, bias);
}

}  // namespace

DecoderGraph Decoder::build(ggml_context* context, uint32_t n_tokens, uint32_t n_outputs,
                            CachedAttention& attention) const {
  DecoderGraph result;
  result.graph = ggml_new_graph_custom(context, max_nodes(), false);
  const auto input = [&](const char* name, uint32_t n) {
    ggml_tensor* tensor = ggml_new_tensor_1d(context, GGML_TYPE_I32, n);
    ggml_set_input(tensor);
    ggml_set_name(tensor, name);
    return tensor;
  };
  result.tokens = input("tokens", n_tokens);
  result.pos = input("pos", n_tokens);
  if (n_outputs < n_tokens) result.outputs = input("outputs", n_outputs);

  ggml_tensor* x = ggml_get_rows(context, weights_->token_embd, result.tokens);
  for (uint32_t layer = 0; layer < params_->n_layers; ++layer) {
    const LayerWeights& weights = weights_->layers[layer];
    ggml_tensor* attended =
        attention_block(context, layer, norm(context, x, weights.attn_norm), attention, result);
    if (layer + 1 == params_->n_layers && result.outputs != nullptr) {
      attended = ggml_get_rows(context, attended, result.outputs);
      x = ggml_get_rows(context, x, result.outputs);
    }
    x = ggml_add(context, attended, x);
    x = ggml_add(context, feed_forward(context, weights, norm(context, x, weights.ffn_norm)), x);
  }
  result.logits = ggml_mul_mat(context, weights_->output, norm(context, x, weights_->output_norm));
  check_shape(result.logits, GGML_TYPE_F32, {params_->n_vocab, n_outputs}, "logits");
  ggml_set_output(result.logits);
  ggml_build_forward_expand(result.graph, result.logits);
  return result;
}

ggml_tensor* Decoder::attention_block(ggml_context* context, uint32_t layer, ggml_tensor* x,
                                      CachedAttention& attention, DecoderGraph& result) const {
  const LayerWeights& weights = weights_->layers[layer];
  const int64_t head_dim = params_->head_dim;
  const int64_t n_tokens = x->ne[1];
  ggml_tensor* q = ggml_reshape_3d(context, linear(context, weights.q, weights.q_bias, x), head_dim,
                                   params_->n_heads, n_tokens);
  ggml_tensor* k = ggml_reshape_3d(context, linear(context, weights.k, weights.k_bias, x), head_dim,
                                   params_->n_kv_heads, n_tokens);
  ggml_tensor* v = ggml_reshape_3d(context, linear(context, weights.v, weights.v_bias, x), head_dim,
                                   params_->n_kv_heads, n_tokens);
  if (weights.q_norm != nullptr) q = norm(context, q, weights.q_norm);
  if (weights.k_norm != nullptr) k = norm(context, k, weights.k_norm);
  const auto turn = [&](ggml_tensor* heads) {
    return rotate(context, heads, result.pos, weights_->rope_freqs, params_->rope, family_->rope_pairing);
  };
  result.queries.push_back(turn(q));
  ggml_tensor* attended = attention.build(context, layer, result.queries.back(), turn(k), v);
  return linear(context, weights.o, weights.o_bias, attended);
}

ggml_tensor* Decoder::feed_forward(ggml_context* context, const LayerWeights& layer, ggml_tensor* x) const {
  ggml_tensor* gate = linear(context, layer.gate, layer.gate_bias, x);
  ggml_tensor* up = linear(context, layer.up, layer.up_bias, x);
  return linear(context, layer.down, layer.down_bias, ggml_swiglu_split(context, gate, up));
}

ggml_tensor* Decoder::norm(ggml_context* context, ggml_tensor* x, ggml_tensor* weight) const {
  return ggml_mul(context, ggml_rms_norm(context, x, params_->rms_eps), weight);
}

}  // namespace kvase

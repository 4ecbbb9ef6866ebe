// SPDX-License-Identifier: MIT
// The forward pass of a llama-shaped decoder as a ggml graph: RMS norm, rotated attention over the cache,
// gated feed-forward.
//
// llama, qwen2 and qwen3 differ only in which tensors are there (biases, per-head norms) and in RoPE's
// pairing.
#pragma once

#include "attention/cached_attention.h"
#include "model/family.h"
#include "model/hparams.h"
#include "model/weights.h"

namespace kvase {

// One graph. Inputs are filled before it runs; shapes depend on n_tokens and n_outputs alone.
struct DecoderGraph {
  ggml_cgraph* graph = nullptr;
  ggml_tensor* tokens = nullptr;  // i32 [n_tokens], in
  ggml_tensor* pos = nullptr;     // i32 [n_tokens], in
  ggml_tensor* outputs =
      nullptr;  // i32 [n_outputs], in: places in the batch whose logits are wanted; null if all are
  ggml_tensor* logits = nullptr;  // f32 [n_vocab, n_outputs], out
  // f32 [head_dim, n_heads, n_tokens] per layer, after RoPE. Out where they were made outputs before the
  // graph got its memory.
  std::vector<ggml_tensor*> queries = {};
};

class Decoder {
 public:
  Decoder(const HParams& params, const Family& family, const Weights& weights)
      : params_(&params), family_(&family), weights_(&weights) {}

  // Nodes and leaves of a graph, at most.
  size_t max_nodes() const { return 64 + size_t{params_->n_layers} * 48; }

  // REQUIRES: 1 <= n_outputs <= n_tokens.
  DecoderGraph build(ggml_context* context, uint32_t n_tokens, uint32_t n_outputs,
                     CachedAttention& attention) const;

 private:
  ggml_tensor* attention_block(ggml_context* context, uint32_t layer, ggml_tensor* x,
                               CachedAttention& attention, DecoderGraph& result) const;
  ggml_tensor* feed_forward(ggml_context* context, const LayerWeights& layer, ggml_tensor* x) const;
  ggml_tensor* norm(ggml_context* context, ggml_tensor* x, ggml_tensor* weight) const;

  const HParams* params_;
  const Family* family_;
  const Weights* weights_;
};

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Runs texts through a model one after another with a full cache, and shows what generation keeps to itself:
// the cache's rows, and the queries of the last step.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "attention/cached_attention.h"
#include "engine/cache_plan.h"
#include "engine/model.h"
#include "model/decoder.h"
#include "tensor/compute.h"

namespace kvase {

class TappedRun {
 public:
  static constexpr uint32_t kStep = 128;  // tokens

  // For texts of up to n_ctx tokens. Throws Error(out_of_memory).
  TappedRun(const Model& model, uint32_t n_ctx, RowType type_k, RowType type_v, uint32_t n_threads);

  // Empties the cache and runs the tokens, of which slot and position are then the place in the text. Returns
  // false if after_step(), called after each step, did. REQUIRES: whole steps, at most n_ctx tokens.
  bool run(std::span<const Token> tokens, const std::function<bool()>& after_step);

  Compute& compute() { return compute_; }
  const Cache& cache() const { return memory_.cache; }
  // f32 [head_dim, n_heads, kStep], of the last step, after RoPE.
  const float* queries(uint32_t layer) const {
    return static_cast<const float*>(graph_.queries[layer]->data);
  }

 private:
  void build();

  CachePlan plan_;
  Compute compute_;
  CacheMemory memory_;
  CachedAttention attention_;
  Decoder decoder_;
  GgmlContext context_;  // of the graph's tensors
  GgmlGraphAllocator allocator_;
  DecoderGraph graph_;
};

}  // namespace kvase

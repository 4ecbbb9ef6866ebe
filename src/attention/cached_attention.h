// SPDX-License-Identifier: MIT
// Attention over the cache as two nodes of a ggml graph: append the step's rows, then attend, and take mass
// on the way.
//
// Lengths and positions are read when a node runs, so a graph of given token count stays valid while the
// cache fills, compacts and changes sequences. Work is split at borders that do not depend on the number of
// threads: one thread computes all of one (token, KV head), and all window queries of one (sequence, KV head)
// in order, since they add to the same mass row.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kv/cache.h"
#include "stats/columns.h"

namespace kvase {

// One token of the step. Tokens of one sequence are consecutive, in order of position.
struct StepToken {
  uint32_t sequence = 0;
  uint32_t offset = 0;  // place among its sequence's tokens in this step; its slot is length + offset
  int32_t pos = 0;
};

// No query of the step is a window query.
inline constexpr uint32_t kNoMass = std::numeric_limits<uint32_t>::max();

class CachedAttention {
 public:
  // Allocates scratch for n_threads once. `scale` multiplies q . k, usually 1/sqrt(head_dim).
  CachedAttention(const Cache& cache, const Columns& columns, uint32_t n_heads, float scale,
                  uint32_t n_threads);
  CachedAttention(const CachedAttention&) = delete;
  CachedAttention& operator=(const CachedAttention&) = delete;

  // Adds one layer's nodes. The result is [head_dim * n_heads, n_tokens] f32.
  //   q f32 [head_dim, n_heads, n_tokens]     after RoPE
  //   k f32 [head_dim, n_kv_heads, n_tokens]  after RoPE
  //   v f32 [head_dim, n_kv_heads, n_tokens]
  ggml_tensor* build(ggml_context* context, uint32_t layer, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v);

  // What the next run of a graph works on. tokens.size() is the graph's n_tokens.
  void set_step(std::vector<StepToken> tokens) { tokens_ = std::move(tokens); }
  const std::vector<StepToken>& step() const { return tokens_; }

  // Slots outside the window of the coming event; a query at slot >= n_candidates adds to mass, weighted
  // 1/window. kNoMass: take none.
  void set_mass_window(uint32_t layer, uint32_t sequence, uint32_t n_candidates, uint32_t window);

  size_t scratch_bytes() const { return scratch_.size() * sizeof(float); }

 private:
  struct LayerRef {
    CachedAttention* owner = nullptr;
    uint32_t layer = 0;
  };
  struct MassWindow {
    uint32_t n_candidates = kNoMass;
    uint32_t window = 1;
  };

  static void append_op(ggml_tensor* dst, int ith, int nth, void* userdata);
  static void attend_op(ggml_tensor* dst, int ith, int nth, void* userdata);
  void append(uint32_t layer, const float* k, const float* v, uint32_t ith, uint32_t nth) const;
  void attend(uint32_t layer, const float* q, float* out, uint32_t ith, uint32_t nth);
  void attend_one(uint32_t layer, const StepToken& token, uint32_t kv_head, const float* q, float* logits,
                  float* out) const;
  void take_mass(uint32_t layer, const StepToken& token, uint32_t kv_head, const float* logits,
                 uint32_t n_rows, float* joined) const;
  // Per thread: logits [max_rows, group], one joined row [max_rows], sums [group].
  size_t scratch_floats() const { return size_t{group_ + 1} * max_rows_ + group_; }
  const MassWindow& mass_window(uint32_t layer, uint32_t sequence) const;

  const Cache* cache_;
  const Columns* columns_;
  uint32_t n_heads_;
  uint32_t group_;  // query heads per KV head
  float scale_;
  uint32_t max_rows_ = 0;  // largest capacity of a layer
  std::vector<LayerRef> layer_refs_;
  std::vector<MassWindow> mass_windows_;  // [n_sequences, n_layers]
  std::vector<StepToken> tokens_;
  std::vector<float> scratch_;
};

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Attention over the cache as three nodes of a ggml graph: append the step's rows, attend, then join partial
// results and take mass. (A custom node has no barrier inside; the third node is the barrier.)
//
// Lengths and positions are read when a node runs, so a graph of given token count stays valid while the
// cache fills, compacts and changes sequences. Any number of threads gives the same bits: threads take pieces
// of work whose borders do not depend on them (pieces.h), each piece writes its own result, and one thread
// joins those of a (sequence, KV head) in order.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "attention/pieces.h"
#include "attention/scratch.h"
#include "attention/tile.h"
#include "kv/cache.h"
#include "stats/columns.h"

namespace kvase {

// No event comes, so no query adds to mass.
inline constexpr uint32_t kNoMass = std::numeric_limits<uint32_t>::max();

class CachedAttention {
 public:
  // Allocates scratch for n_threads once. `scale` multiplies q . k, usually 1/sqrt(head_dim).
  // `maps` rebuild the values of approximate slots; null: their mean stands for them. Throws
  // Error(out_of_memory).
  CachedAttention(const Cache& cache, const Columns& columns, uint32_t n_heads, float scale,
                  uint32_t n_threads, const ValueMaps* maps = nullptr);
  CachedAttention(const CachedAttention&) = delete;
  CachedAttention& operator=(const CachedAttention&) = delete;

  // Adds one layer's nodes. The result is [head_dim * n_heads, n_tokens] f32.
  //   q f32 [head_dim, n_heads, n_tokens]     after RoPE
  //   k f32 [head_dim, n_kv_heads, n_tokens]  after RoPE
  //   v f32 [head_dim, n_kv_heads, n_tokens]
  ggml_tensor* build(ggml_context* context, uint32_t layer, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v);

  // What the next run of a graph works on. tokens.size() is the graph's n_tokens.
  void set_step(std::span<const StepToken> tokens);
  const std::vector<StepToken>& step() const { return tokens_; }

  // The coming event comes at `event_length` slots, of which the newest `window` are no candidates: which
  // queries add to mass, as MassSpec::queries says. kNoMass: none.
  void watch_mass(uint32_t layer, uint32_t sequence, uint32_t event_length, uint32_t window);

  size_t scratch_bytes() const { return scratch_.bytes(); }

  // Time in these nodes since the start, and of it in adding up mass, both of the first thread.
  double attention_ms() const { return attention_ms_; }
  double mass_ms() const { return mass_ms_; }

 private:
  struct LayerRef {
    CachedAttention* owner = nullptr;
    uint32_t layer = 0;
  };
  // Queries at slot first_query and later add `weight` times their probabilities to the first n_candidates
  // slots.
  struct MassWatch {
    uint32_t n_candidates = 0;
    uint32_t first_query = kNoMass;
    float weight = 0;
  };
  // One sequence's tokens in the step.
  struct Run {
    uint32_t first_token = 0;
    uint32_t n_tokens = 0;
  };

  static void append_op(ggml_tensor* dst, int ith, int nth, void* userdata);
  static void attend_op(ggml_tensor* dst, int ith, int nth, void* userdata);
  static void join_op(ggml_tensor* dst, int ith, int nth, void* userdata);
  ValueStand value_stand(uint32_t layer, uint32_t sequence, uint32_t kv_head) const;
  void append_residual(uint32_t layer, const StepToken& token, uint32_t kv_head, uint32_t slot,
                       const float* key, const float* value, float* unrotated) const;
  void append(uint32_t layer, const float* k, const float* v, uint32_t ith, uint32_t nth);
  void attend(uint32_t layer, const float* q, float* out, uint32_t ith, uint32_t nth);
  uint64_t step_cost(uint32_t layer) const;
  void join(uint32_t layer, const float* q, float* out, uint32_t ith, uint32_t nth);
  HeadWork head_work(uint32_t layer, const Run& run, uint32_t kv_head, const float* q, float* out) const;

  const Cache* cache_;
  const Columns* columns_;
  const ValueMaps* maps_;
  uint32_t n_heads_;
  uint32_t group_;  // query heads per KV head
  float scale_;
  Scratch scratch_;
  std::vector<LayerRef> layer_refs_;
  std::vector<MassWatch> mass_watches_;  // [n_sequences, n_layers]
  std::vector<StepToken> tokens_;
  std::vector<Run> runs_;
  // Written by the first thread of a node.
  std::chrono::steady_clock::time_point start_;
  double attention_ms_ = 0;
  double mass_ms_ = 0;
};

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Which of evicting, key-only with a mean, and key-only with a map serves a layer best: measured as the error
// of attention's output on queries that come after the choice, at equal bytes.
//
// Section 1.7 of VECTOR (arXiv 2605.23258) predicts the answer from R2; the choice of tokens and the shape of
// attention decide it as much, so it is measured. Scores are attention mass over the window, as SnapKV's. Of
// the pool, those slots lose their value whose mass^2 times squared residual is smallest.
#pragma once

#include <cstdint>

namespace kvase {

// One KV head of one sequence. Slots are in the order of positions; slot 0 is position 0.
struct GateHead {
  uint32_t head_dim = 0;
  uint32_t n = 0;                  // slots: the context, then n_eval that come after the choice
  uint32_t n_window = 0;           // last slots of the context; their queries score the others
  uint32_t n_eval = 0;             // queries that measure
  uint32_t n_sink = 0;             // first slots, which stay exact
  uint32_t group = 0;              // query heads
  float scale = 1.0F;              // of q . k
  const float* keys = nullptr;     // [head_dim, n]                              after RoPE
  const float* values = nullptr;   // [head_dim, n]
  const float* rebuilt = nullptr;  // [head_dim, n]                              W k + b
  const float* queries = nullptr;  // [head_dim, group, n_window + n_eval]       after RoPE
};

// Sums over queries and query heads of |out - out_full|^2, and of |out_full|^2.
struct GateErrors {
  double evict = 0, zero = 0, linear = 0, full = 0;
  void add(const GateErrors& other);
};

// The budget is a quarter of the context: evict keeps so many pairs, the others half as many recruits more as
// keys, paid with two values each. REQUIRES: a quarter of the context >= n_window + n_sink.
GateErrors measure_gate(const GateHead& head);

}  // namespace kvase

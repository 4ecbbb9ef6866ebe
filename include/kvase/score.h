// SPDX-License-Identifier: MIT
// Run one policy once on given tensors: for tests, for researchers, and against other implementations.
//
// The tensors go through the real cache, the real attention op and the real statistics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvase/options.h"
#include "kvase/policy.h"

namespace kvase {

// One layer of one sequence. Slots lie in the order given; the last w are the window, whose queries are q.
struct ScoreInput {
  uint32_t head_dim = 0, n = 0, n_kv_heads = 0, n_heads = 0, w = 0;
  std::vector<float> k;      // [head_dim, n, n_kv_heads]   after RoPE
  std::vector<float> v;      // [head_dim, n, n_kv_heads]
  std::vector<float> q;      // [head_dim, w, n_heads]      after RoPE
  std::vector<int32_t> pos;  // [n]                         ascending
};

// Reads k, v, q (f32) and pos (i32) from a GGUF file. Throws Error(bad_model_file) naming the tensor.
ScoreInput read_score_input(const std::string& path);

struct ScoreOptions {
  CacheOptions cache;  // window is the input's w
  uint64_t seed = 0;
  uint32_t sequence = 0, layer = 0, event = 0;
};

struct ScoreResult {
  std::string policy;
  Scores scores;                              // [n_kv_heads][n]
  std::vector<std::vector<uint32_t>> keep;    // slots that stay exact, ascending, per KV head
  std::vector<std::vector<uint32_t>> approx;  // slots that keep their key alone, likewise
};

// Throws Error(invalid_argument). A budget >= n keeps everything.
ScoreResult score(const ScoreInput& input, const ScoreOptions& options);

}  // namespace kvase

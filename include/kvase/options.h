// SPDX-License-Identifier: MIT
// Every option of model, cache, engine and sampling: meaning, unit, range, default, cost of changing.
//
// Options are refused, never clipped: an engine that was made has exactly what was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvase/policy.h"

namespace kvase {

struct ModelOptions {
  std::string path;  // GGUF file
  // Rearrange weights for the CPU's matmul kernels where ggml has such a layout. Faster; those weights are
  // then read into memory instead of mapped.
  bool repack = true;
};

enum class RowType : uint8_t { f32, f16, bf16 };
const char* row_type_name(RowType type) noexcept;
RowType parse_row_type(
    const std::string& text);  // throws Error(invalid_argument), or unsupported for types to come

enum class Prefill : uint8_t {
  bounded,  // a prompt step takes as many tokens as there are free slots; events come inside the prompt
  whole,    // the prompt is kept until the first decode event, as the papers' code does; allocates for n_ctx
            // tokens
};

struct CacheOptions {
  std::string policy = "vase-attnv";  // see policy.h; shape keys in it and the fields below must agree
  std::optional<Budget> budget;       // default 2048 tokens
  std::optional<uint32_t> interval;  // tokens, 1..65536, default 64. Larger: faster long prompts, more memory
  std::optional<uint32_t>
      window;  // tokens, 1..interval (0 too if the policy needs no mass), default interval
  std::optional<uint32_t> n_sink;  // tokens, 0..budget - window, default per method
  RowType type_k = RowType::f16;
  RowType type_v = RowType::f16;
  Prefill prefill = Prefill::bounded;
  // Positions: the context of `full`, the longest prompt of Prefill::whole. Default: the model's trained
  // context. Other policies do not read it.
  std::optional<uint32_t> n_ctx;
  // Collected beside what the policy needs, for an observer of events (engine.h). The policy chooses as it
  // would without. Each costs side bytes, or time at events. Refused where nothing is evicted.
  std::vector<Statistic> observed_statistics = {};
};

struct EngineOptions {
  CacheOptions cache;
  uint32_t n_threads = 0;  // 1..512; 0: all cores that this process may use
  uint32_t n_ubatch =
      512;  // most tokens of one sequence in one step, 1..4096. Larger: faster prompts, more scratch memory
  uint32_t n_sequences = 1;  // sequences that can be open at once, 1..256; each has its own cache rows
};

struct SamplingOptions {
  float temperature = 0.8f;  // >= 0; 0: highest logit, lowest id on ties, and nothing below is read
  int32_t top_k = 40;        // >= 0; 0: off
  float top_p = 0.95f;       // (0, 1]; 1: off
  float min_p = 0.05f;       // [0, 1]; 0: off
  uint64_t seed = 0;         // of text and of the policy's choices
  uint32_t sample = 0;       // number of this answer among several to one prompt: other noise, same seed
};

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Memory, before anything is allocated. The allocator runs the same code, so both give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kvase/model.h"
#include "kvase/options.h"

namespace kvase {

struct MemoryPlan {
  std::string policy;  // base name
  bool evicts = true;
  Prefill prefill = Prefill::bounded;
  CacheShape shape;       // of `full`: budget = capacity = context, the rest 0
  uint32_t capacity = 0;  // slots allocated per KV head and sequence, of the layer that has most
  uint32_t n_sequences = 1;
  size_t kv_bytes = 0;         // K and V rows over capacity, all sequences
  size_t side_bytes = 0;       // positions and per-slot statistics, all sequences
  size_t map_bytes = 0;        // VECTOR's maps
  size_t bytes_per_token = 0;  // K and V rows of one token in all layers
  size_t total_bytes() const { return kv_bytes + side_bytes + map_bytes; }
};

// Throws Error(invalid_argument): the message says which option, what was found, what is allowed.
MemoryPlan plan_memory(const ModelInfo& model, const CacheOptions& cache, uint32_t n_sequences = 1);

}  // namespace kvase

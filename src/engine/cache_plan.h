// SPDX-License-Identifier: MIT
// From options to the exact shape of the cache: every default filled in, every number checked, every byte
// counted.
#pragma once

#include <memory>

#include "kv/cache.h"
#include "kvase/plan.h"
#include "stats/columns.h"
#include "value_map/value_map.h"

namespace kvase {

struct CachePlan {
  ParsedPolicy policy;
  Needs needs;
  CacheDims dims;
  uint32_t n_heads = 0;
  uint32_t n_ctx = 0;                     // positions for `full`; longest prompt for Prefill::whole
  std::shared_ptr<const ValueMaps> maps;  // of +vector, else null
  std::vector<uint32_t> budgets;          // slots left by an event, per layer; all equal but for +pyramid
  MemoryPlan memory;
};

// Throws Error(invalid_argument).
CachePlan make_cache_plan(const ModelInfo& model, const CacheOptions& options, uint32_t n_sequences);

// The cache as declared. The plan counts its bytes; the engine also allocates it.
struct CacheMemory {
  explicit CacheMemory(const CachePlan& plan);
  // Declared and allocated. Throws Error(out_of_memory).
  CacheMemory(const CachePlan& plan, ggml_backend_t backend);
  CacheMemory(const CacheMemory&) = delete;
  CacheMemory& operator=(const CacheMemory&) = delete;

  std::shared_ptr<const ValueMaps> maps;  // as in the plan
  Arena arena;
  Cache cache;
  Columns columns;
};

// Length at which a layer's first event comes. A prompt that fits its budget, or bounded prefill: at
// capacity. A whole prompt beyond the budget: the first length behind it that is a whole number of intervals
// above the budget, as in VaSE's code.
uint32_t first_trigger(const CachePlan& plan, uint32_t layer, uint32_t n_prompt);

// Slots beyond the budget that an event leaves of `length` ones once `n_seen` tokens were processed; 0
// without an approximate tier.
uint32_t n_recruits(const CachePlan& plan, uint32_t layer, int64_t n_seen, uint32_t length);

}  // namespace kvase

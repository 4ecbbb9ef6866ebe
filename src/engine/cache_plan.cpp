// SPDX-License-Identifier: MIT
// Resolves cache options and counts bytes by declaring the tensors.
#include "engine/cache_plan.h"

#include <algorithm>

#include "base/errors.h"
#include "base/sizes.h"
#include "model/map_identity.h"
#include "policy/pyramid.h"
#include "policy/shape.h"
#include "policy/tier.h"

namespace kvase {
namespace {

constexpr uint32_t kDefaultInterval = 64;

ggml_type ggml_type_of(RowType type) {
  switch (type) {
    case RowType::f32:
      return GGML_TYPE_F32;
    case RowType::f16:
      return GGML_TYPE_F16;
    case RowType::bf16:
      return GGML_TYPE_BF16;
  }
  return GGML_TYPE_F16;
}

// A number may stand in a flag or in the policy string, not differently in both.
template <typename T, typename Text>
std::optional<T> given_once(const std::optional<T>& flag, const std::optional<T>& in_string,
                            const char* flag_name, const char* key, const Text& text) {
  if (flag && in_string && !(*flag == *in_string)) {
    invalid("{} {}: found {}={} in the policy string too, allowed: one of them", flag_name, text(*flag), key,
            text(*in_string));
  }
  return flag ? flag : in_string;
}

std::string count_text(uint32_t count) { return std::to_string(count); }

std::string budget_text(const Budget& budget) {
  if (budget.unit == Budget::Unit::tokens) return std::to_string(budget.amount);
  constexpr uint64_t kMiB = 1 << 20;
  return budget.amount % kMiB == 0 ? fmt::format("{}MiB", budget.amount / kMiB)
                                   : fmt::format("{} bytes", budget.amount);
}

// Bytes of one slot in all layers, heads and sequences.
size_t bytes_per_slot(const CacheDims& dims) {
  const size_t row_bytes =
      ggml_row_size(dims.type_k, dims.head_dim) + ggml_row_size(dims.type_v, dims.head_dim);
  return checked_product({row_bytes, dims.n_kv_heads, dims.n_layers, dims.n_sequences}, "KV cache");
}

// The largest budget whose capacity fits the bytes.
uint32_t budget_slots(const Budget& budget, uint32_t interval, size_t slot_bytes) {
  constexpr uint64_t kLargest = kMaxSlots - kMaxInterval;
  if (budget.unit == Budget::Unit::tokens) {
    if (budget.amount < 1 || budget.amount > kLargest)
      invalid("--kv-budget {}, allowed: 1..{}", budget.amount, kLargest);
    return static_cast<uint32_t>(budget.amount);
  }
  const uint64_t capacity = std::min<uint64_t>(budget.amount / slot_bytes, kLargest);
  if (capacity <= interval) {
    invalid(
        "--kv-budget {}: found room for {} slots per KV head, allowed: more than the interval of {} ({} "
        "bytes per slot)",
        budget_text(budget), capacity, interval, slot_bytes);
  }
  return static_cast<uint32_t>(capacity) - interval;
}

CacheShape resolve_shape(const ParsedPolicy& policy, const CacheOptions& options, size_t slot_bytes) {
  CacheShape shape;
  shape.interval = given_once(options.interval, policy.interval, "--kv-interval", "interval", count_text)
                       .value_or(kDefaultInterval);
  if (shape.interval < 1 || shape.interval > kMaxInterval)
    invalid("--kv-interval {}, allowed: 1..{}", shape.interval, kMaxInterval);
  shape.window =
      given_once(options.window, policy.window, "--kv-window", "window", count_text).value_or(shape.interval);
  shape.n_sink = given_once(options.n_sink, policy.n_sink, "--kv-sinks", "sinks", count_text)
                     .value_or(policy.info.default_sinks);
  const Budget budget =
      given_once(options.budget, policy.budget, "--kv-budget", "budget", budget_text).value_or(Budget{});
  shape.budget = budget_slots(budget, shape.interval, slot_bytes);
  return shape;
}

uint32_t resolve_n_ctx(const ModelInfo& model, const CacheOptions& options) {
  constexpr uint32_t kLargest = kMaxSlots - kMaxInterval;
  const uint32_t n_ctx = options.n_ctx.value_or(std::max(model.n_ctx_train, 1U));
  if (n_ctx < 1 || n_ctx > kLargest) invalid("-c {}, allowed: 1..{}", n_ctx, kLargest);
  return n_ctx;
}

uint32_t capacity_of(const MemoryPlan& memory, uint32_t budget, uint32_t n_ctx) {
  if (!memory.evicts) return n_ctx;
  return (memory.prefill == Prefill::whole ? std::max(n_ctx, budget) : budget) + memory.shape.interval;
}

// Every layer's budget, each of which must fit the method.
std::vector<uint32_t> layer_budgets(const ParsedPolicy& policy, const CacheShape& shape, uint32_t n_layers) {
  check_shape(policy, shape);
  if (!policy.pyramid) return std::vector<uint32_t>(n_layers, shape.budget);
  std::vector<uint32_t> budgets = pyramid_budgets(n_layers, shape, *policy.pyramid);
  for (const uint32_t budget : budgets) {
    CacheShape layer_shape = shape;
    layer_shape.budget = budget;
    check_shape(policy, layer_shape);
  }
  return budgets;
}

// What the policy needs and what is only observed.
Needs all_needs(const Policy& policy, const CacheOptions& options, const CacheShape& shape) {
  Needs needs = policy.needs();
  for (const Statistic statistic : options.observed_statistics) {
    if (std::ranges::find(needs.statistics, statistic) != needs.statistics.end()) continue;
    if (statistic == Statistic::mass && shape.window == 0)
      invalid("--kv-window 0, allowed: 1..{} where mass is observed", shape.interval);
    needs.statistics.push_back(statistic);
  }
  return needs;
}

std::shared_ptr<const ValueMaps> load_maps(const ModelInfo& model, const std::string& path) {
  if (model.path.empty())
    invalid("+vector: found no model file, allowed: with a model that the maps were made for");
  const GgufFile file(model.path);
  auto maps = std::make_shared<const ValueMaps>(load_value_maps(path, map_identity(file, check_model(file))));
  const bool all_off =
      std::ranges::all_of(maps->layers, [](const LayerMap& layer) { return layer.mode == TierMode::off; });
  if (all_off) invalid("+vector: found every layer off in {}, allowed: a file that rebuilds some", path);
  return maps;
}

// Every layer's most recruits. An arena lends rows of values to keys, so both must be alike.
std::vector<uint32_t> layer_recruits(const CachePlan& plan) {
  if (plan.dims.type_k != plan.dims.type_v) {
    invalid("--cache-type-k {}, --cache-type-v {} with {}: allowed: one type for both",
            ggml_type_name(plan.dims.type_k), ggml_type_name(plan.dims.type_v), plan.policy.text);
  }
  std::vector<uint32_t> recruits;
  for (uint32_t layer = 0; layer < plan.dims.n_layers; ++layer) {
    CacheShape shape = plan.memory.shape;
    shape.budget = plan.budgets[layer];
    const bool is_off = plan.maps && plan.maps->layers[layer].mode == TierMode::off;
    recruits.push_back(is_off ? 0 : most_recruits(plan.policy, shape));
  }
  return recruits;
}

}  // namespace

CachePlan make_cache_plan(const ModelInfo& model, const CacheOptions& options, uint32_t n_sequences) {
  if (n_sequences < 1 || n_sequences > 256) invalid("-np {}, allowed: 1..256", n_sequences);
  CachePlan plan;
  plan.policy = parse_policy(options.policy);
  plan.n_heads = model.n_heads;
  plan.n_ctx = resolve_n_ctx(model, options);
  plan.dims = {.n_layers = model.n_layers,
               .n_kv_heads = model.n_kv_heads,
               .head_dim = model.head_dim,
               .n_sequences = n_sequences,
               .capacity = {},
               .type_k = ggml_type_of(options.type_k),
               .type_v = ggml_type_of(options.type_v)};
  MemoryPlan& memory = plan.memory;
  memory.policy = plan.policy.info.name;
  memory.evicts = plan.policy.policy->evicts();
  memory.n_sequences = n_sequences;
  if (memory.evicts) {
    memory.prefill = options.prefill;
    memory.shape = resolve_shape(plan.policy, options, bytes_per_slot(plan.dims));
    plan.budgets = layer_budgets(plan.policy, memory.shape, model.n_layers);
    plan.needs = all_needs(*plan.policy.policy, options, memory.shape);
  } else {
    if (!options.observed_statistics.empty()) {
      invalid("observed_statistics: found {} with {}, allowed: none where nothing is evicted",
              options.observed_statistics.size(), memory.policy);
    }
    memory.shape.budget = plan.n_ctx;
    plan.budgets.assign(model.n_layers, plan.n_ctx);
  }
  for (const uint32_t budget : plan.budgets)
    plan.dims.capacity.push_back(capacity_of(memory, budget, plan.n_ctx));
  if (plan.policy.tier && !plan.policy.tier->map.empty()) {
    plan.maps = load_maps(model, plan.policy.tier->map);
    memory.map_bytes = plan.maps->bytes();
  }
  if (plan.policy.tier) plan.dims.n_recruits = layer_recruits(plan);
  memory.capacity = *std::ranges::max_element(plan.dims.capacity);
  const CacheMemory declared(plan);
  memory.kv_bytes = declared.cache.kv_bytes();
  memory.side_bytes = declared.cache.side_bytes() + declared.columns.bytes();
  memory.bytes_per_token = bytes_per_slot(plan.dims) / n_sequences;
  return plan;
}

CacheMemory::CacheMemory(const CachePlan& plan)
    : maps(plan.maps),
      arena(plan.dims.n_layers * (Cache::kTensorsPerLayer + Columns::max_tensors_per_layer())),
      cache(arena, plan.dims),
      columns(arena, cache, plan.n_heads, plan.needs) {}

CacheMemory::CacheMemory(const CachePlan& plan, ggml_backend_t backend) : CacheMemory(plan) {
  arena.allocate(backend);
}

uint32_t first_trigger(const CachePlan& plan, uint32_t layer, uint32_t n_prompt) {
  if (!plan.memory.evicts || plan.memory.prefill == Prefill::bounded) return plan.dims.capacity[layer];
  const uint32_t budget = plan.budgets[layer];
  const uint32_t interval = plan.memory.shape.interval;
  if (n_prompt <= budget) return budget + interval;
  return budget + ((n_prompt - budget) / interval + 1) * interval;
}

// The rule of VECTOR's paper, min(p_c, 1 - p_c) / 2 of the tokens seen, in whole slots.
uint32_t n_recruits(const CachePlan& plan, uint32_t layer, int64_t n_seen, uint32_t length) {
  if (!plan.dims.has_tier()) return 0;
  const int64_t budget = plan.budgets[layer];
  const int64_t rule = std::clamp<int64_t>(n_seen - budget, 0, budget) / 2;
  return static_cast<uint32_t>(std::min({rule, int64_t{plan.dims.n_recruits[layer]}, length - budget}));
}

MemoryPlan plan_memory(const ModelInfo& model, const CacheOptions& cache, uint32_t n_sequences) {
  return make_cache_plan(model, cache, n_sequences).memory;
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// One policy, once, on tensors from a file: through the cache, the attention op and the statistics that
// generation uses.
#include "kvase/score.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "attention/cached_attention.h"
#include "base/errors.h"
#include "engine/cache_plan.h"
#include "engine/event.h"
#include "model/weights.h"
#include "tensor/gguf_file.h"

namespace kvase {
namespace {

const GgufTensor& find_input(const GgufFile& file, const std::string& name, ggml_type type, uint32_t n_dims) {
  const GgufTensor* tensor = file.find_tensor(name);
  if (tensor == nullptr) {
    bad_file("{}: tensor \"{}\": found none, allowed: {} with {} dimensions", file.path(), name,
             ggml_type_name(type), n_dims);
  }
  const bool extra_dims =
      std::any_of(tensor->ne.begin() + n_dims, tensor->ne.end(), [](int64_t extent) { return extent != 1; });
  if (tensor->type != type || extra_dims) {
    bad_file("{}: tensor \"{}\": found {} {}, allowed: {} with {} dimensions", file.path(), name,
             ggml_type_name(tensor->type), shape_text(*tensor), ggml_type_name(type), n_dims);
  }
  return *tensor;
}

void expect_shape(const GgufFile& file, const GgufTensor& tensor, std::array<int64_t, 4> allowed) {
  if (tensor.ne == allowed) return;
  bad_file("{}: tensor \"{}\": found {}, allowed: [{}]", file.path(), tensor.name, shape_text(tensor),
           fmt::join(allowed.begin(), allowed.begin() + tensor.n_dims, ", "));
}

template <typename T>
std::vector<T> copy_values(const MappedFile& mapping, const GgufTensor& tensor) {
  std::vector<T> values(tensor.bytes / sizeof(T));
  std::memcpy(values.data(), mapping.data() + tensor.offset, tensor.bytes);
  return values;
}

void check_input(const ScoreInput& input) {
  const size_t rows = size_t{input.head_dim} * input.n * input.n_kv_heads;
  if (rows == 0 || input.k.size() != rows || input.v.size() != rows || input.pos.size() != input.n ||
      input.q.size() != size_t{input.head_dim} * input.w * input.n_heads) {
    invalid("score: found tensors of other sizes than head_dim {}, n {}, n_kv_heads {}, n_heads {}, w {}",
            input.head_dim, input.n, input.n_kv_heads, input.n_heads, input.w);
  }
  if (input.n_heads == 0 || input.n_heads % input.n_kv_heads != 0) {
    invalid("score: found {} query heads, allowed: a multiple of the {} KV heads", input.n_heads,
            input.n_kv_heads);
  }
  if (input.w < 1 || input.w >= input.n)
    invalid("score: found {} queries, allowed: 1..{}", input.w, input.n - 1);
  if (std::ranges::adjacent_find(input.pos, std::greater_equal{}) != input.pos.end() ||
      input.pos.front() < 0) {
    invalid("score: found positions that do not ascend, allowed: 0 or more, ascending");
  }
  const int32_t first_query = input.pos[input.n - input.w];
  if (input.pos.back() - first_query != static_cast<int32_t>(input.w) - 1) {
    invalid("score: found window positions {}..{} for {} queries, allowed: consecutive ones", first_query,
            input.pos.back(), input.w);
  }
}

ModelInfo one_layer(const ScoreInput& input) {
  ModelInfo model;
  model.n_layers = 1;
  model.n_heads = input.n_heads;
  model.n_kv_heads = input.n_kv_heads;
  model.head_dim = input.head_dim;
  model.n_ctx_train = input.n;
  return model;
}

// A plan whose capacity is exactly n: the event comes with the last row.
CachePlan plan_for(const ScoreInput& input, CacheOptions options) {
  options.type_k = RowType::f32;
  options.type_v = RowType::f32;
  options.prefill = Prefill::bounded;
  options.n_ctx = input.n;
  if (!options.window) options.window = input.w;
  if (!options.interval) options.interval = std::max(input.w, 64U);
  if (parse_policy(options.policy).pyramid) {
    invalid("score: found +pyramid, allowed: a base method, since one layer has no pyramid");
  }
  CachePlan plan = make_cache_plan(one_layer(input), options, 1);
  if (plan.memory.evicts && plan.memory.shape.window != input.w) {
    invalid("--kv-window {}, allowed: {}, the number of queries in the input", plan.memory.shape.window,
            input.w);
  }
  plan.dims.capacity.assign(1, input.n);
  return plan;
}

// Appends rows `first` .. `first + n_tokens - 1` through the attention op, with the queries of those in the
// window.
void append(const ScoreInput& input, uint32_t first, uint32_t n_tokens, Compute& compute, CacheMemory& memory,
            CachedAttention& attention) {
  const size_t n_values = size_t{input.head_dim} * n_tokens * (input.n_heads * 2 + 2 * input.n_kv_heads);
  const GgmlContext context(ggml_init(
      {.mem_size = n_values * sizeof(float) + (size_t{1} << 20), .mem_buffer = nullptr, .no_alloc = false}));
  if (!context) fail(ErrorCode::out_of_memory, "score: cannot allocate {} values", n_values);
  const auto tensor = [&](uint32_t n_heads) {
    return ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, input.head_dim, n_heads, n_tokens);
  };
  ggml_tensor* q = ggml_set_zero(tensor(input.n_heads));
  ggml_tensor* k = tensor(input.n_kv_heads);
  ggml_tensor* v = tensor(input.n_kv_heads);
  // [head_dim, n, n_heads] of the file to [head_dim, n_heads, n_tokens] of the graph.
  const auto copy_row = [&](const std::vector<float>& from, size_t from_row, ggml_tensor* to, size_t to_row) {
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(from_row * input.head_dim), input.head_dim,
                static_cast<float*>(to->data) + to_row * input.head_dim);
  };
  std::vector<StepToken> step;
  const uint32_t first_query = input.n - input.w;
  for (uint32_t token = 0; token < n_tokens; ++token) {
    const uint32_t slot = first + token;
    step.push_back({0, token, input.pos[slot]});
    for (uint32_t kv_head = 0; kv_head < input.n_kv_heads; ++kv_head) {
      copy_row(input.k, size_t{kv_head} * input.n + slot, k, size_t{token} * input.n_kv_heads + kv_head);
      copy_row(input.v, size_t{kv_head} * input.n + slot, v, size_t{token} * input.n_kv_heads + kv_head);
    }
    for (uint32_t head = 0; slot >= first_query && head < input.n_heads; ++head) {
      copy_row(input.q, size_t{head} * input.w + slot - first_query, q, size_t{token} * input.n_heads + head);
    }
  }
  attention.set_step(step);
  ggml_cgraph* graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, attention.build(context.get(), 0, q, k, v));
  compute.run(graph);
  memory.cache.commit(0, 0, n_tokens);
}

std::vector<uint32_t> all_slots(uint32_t n) {
  std::vector<uint32_t> slots(n);
  for (uint32_t slot = 0; slot < n; ++slot) slots[slot] = slot;
  return slots;
}

}  // namespace

ScoreInput read_score_input(const std::string& path) {
  const GgufFile file(path);
  const GgufTensor& k = find_input(file, "k", GGML_TYPE_F32, 3);
  const GgufTensor& v = find_input(file, "v", GGML_TYPE_F32, 3);
  const GgufTensor& q = find_input(file, "q", GGML_TYPE_F32, 3);
  const GgufTensor& pos = find_input(file, "pos", GGML_TYPE_I32, 1);
  for (const GgufTensor* tensor : {&k, &q}) {
    if (std::ranges::any_of(tensor->ne,
                            [](int64_t extent) { return extent > std::numeric_limits<int32_t>::max(); })) {
      bad_file("{}: tensor \"{}\": found {}, allowed: dimensions below 2^31", path, tensor->name,
               shape_text(*tensor));
    }
  }
  expect_shape(file, v, k.ne);
  expect_shape(file, q, {k.ne[0], q.ne[1], q.ne[2], 1});
  expect_shape(file, pos, {k.ne[1], 1, 1, 1});
  const MappedFile mapping(path);
  return {.head_dim = static_cast<uint32_t>(k.ne[0]),
          .n = static_cast<uint32_t>(k.ne[1]),
          .n_kv_heads = static_cast<uint32_t>(k.ne[2]),
          .n_heads = static_cast<uint32_t>(q.ne[2]),
          .w = static_cast<uint32_t>(q.ne[1]),
          .k = copy_values<float>(mapping, k),
          .v = copy_values<float>(mapping, v),
          .q = copy_values<float>(mapping, q),
          .pos = copy_values<int32_t>(mapping, pos)};
}

ScoreResult score(const ScoreInput& input, const ScoreOptions& options) {
  check_input(input);
  const CachePlan plan = plan_for(input, options.cache);
  ScoreResult result;
  result.policy = plan.policy.text;
  result.approx.assign(input.n_kv_heads, {});
  if (!plan.memory.evicts || plan.memory.shape.budget >= input.n) {
    result.scores.assign(input.n_kv_heads,
                         std::vector<double>(input.n, std::numeric_limits<double>::infinity()));
    result.keep.assign(input.n_kv_heads, all_slots(input.n));
    return result;
  }
  Compute compute(1);
  CacheMemory memory(plan, compute.backend());
  CachedAttention attention(memory.cache, memory.columns, input.n_heads,
                            1.0F / std::sqrt(static_cast<float>(input.head_dim)), 1);
  const uint32_t n_candidates = input.n - input.w;
  append(input, 0, n_candidates, compute, memory, attention);
  attention.watch_mass(0, 0, input.n, input.w);  // not before: the candidates' own queries are not known
  append(input, n_candidates, input.w, compute, memory, attention);

  const EventContext event{.seed = options.seed,
                           .sequence = options.sequence,
                           .layer = options.layer,
                           .event = options.event,
                           .n_seen = int64_t{input.pos.back()} + 1,
                           .window = input.w,
                           .n_sink = plan.memory.shape.n_sink};
  EventStatistics statistics(memory);
  const LayerView layer =
      statistics.collect(0, 0, plan.memory.shape.budget, n_recruits(plan, 0, input.n, input.n), event);
  result.scores = plan.policy.policy->score(layer, event);
  const Verdict verdict = plan.policy.policy->decide(layer, event);
  check_verdict(verdict, layer, plan.needs);
  for (uint32_t kv_head = 0; kv_head < input.n_kv_heads; ++kv_head) {
    const HeadVerdict& head = verdict.heads[kv_head];
    result.approx[kv_head] = head.demote;
    std::vector<uint32_t> stays, keep;
    std::ranges::set_difference(all_slots(input.n), head.drop, std::back_inserter(stays));
    std::ranges::set_difference(stays, head.demote, std::back_inserter(keep));
    result.keep.push_back(std::move(keep));
  }
  return result;
}

}  // namespace kvase

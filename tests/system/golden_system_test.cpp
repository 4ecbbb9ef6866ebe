// SPDX-License-Identifier: MIT
// The golden cases through the real cache, the real attention op's mass and the real statistics, against the
// reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "attention/cached_attention.h"
#include "engine/cache_plan.h"
#include "engine/event.h"
#include "golden/golden_file.h"
#include "kvase/score.h"

namespace kvase {
namespace {

class ScoreCommand : public testing::TestWithParam<std::string> {};
class TenEvents : public testing::TestWithParam<std::string> {};

ScoreOptions options_for(const golden::Case& golden_case, const std::string& policy) {
  ScoreOptions options;
  options.cache.policy = policy;
  options.cache.budget = Budget{.unit = Budget::Unit::tokens, .amount = golden_case.budget};
  options.seed = golden_case.event.seed;
  options.sequence = golden_case.event.sequence;
  options.layer = golden_case.event.layer;
  options.event = golden_case.event.event;
  return options;
}

TEST_P(ScoreCommand, AgreesWithTheReference) {
  const golden::Case golden_case = golden::read_case(GetParam());
  const ScoreInput input = read_score_input(GetParam());
  for (const golden::Expectation& expected : golden_case.expected) {
    SCOPED_TRACE(expected.name + " = " + expected.policy);
    const ScoreResult result = score(input, options_for(golden_case, expected.policy));
    const std::string method = parse_policy(expected.policy).info.name;
    const size_t n_kept = expected.keep.size() / input.n_kv_heads;
    for (uint32_t kv_head = 0; kv_head < input.n_kv_heads; ++kv_head) {
      const auto first = expected.keep.begin() + static_cast<ptrdiff_t>(kv_head * n_kept);
      EXPECT_EQ(std::vector<int32_t>(result.keep[kv_head].begin(), result.keep[kv_head].end()),
                std::vector<int32_t>(first, first + static_cast<ptrdiff_t>(n_kept)))
          << "head " << kv_head;
      for (uint32_t slot = 0; !expected.scores.empty() && slot < input.n; ++slot) {
        const double found = result.scores[kv_head][slot];
        const double wanted = expected.scores[size_t{kv_head} * input.n + slot];
        if (std::isinf(found) || std::isinf(wanted)) {
          EXPECT_EQ(found, wanted) << "head " << kv_head << " slot " << slot;
        } else {
          EXPECT_NEAR(found, wanted, golden::tolerance(method, wanted))
              << "head " << kv_head << " slot " << slot;
        }
      }
    }
  }
}

// One sequence on a model of `layer + 1` equal layers, so that the last one has the layer number of the
// golden noise.
class Replay {
 public:
  Replay(const golden::Case& golden_case, const std::string& policy)
      : case_(golden_case),
        plan_(make_plan(golden_case, policy)),
        memory_(plan_),
        attention_(memory_.cache, memory_.columns, golden_case.input.n_heads,
                   1.0F / std::sqrt(static_cast<float>(golden_case.input.head_dim)), compute_.n_threads()),
        events_(compute_, memory_, plan_) {
    memory_.arena.allocate(compute_.backend());
    for (uint32_t layer = 0; layer < plan_.dims.n_layers; ++layer)
      attention_.watch_mass(layer, 0, plan_.memory.capacity, golden_case.window);
  }

  void append(uint32_t token) {
    const ScoreInput& input = case_.input;
    const GgmlContext context(
        ggml_init({.mem_size = size_t{4} << 20, .mem_buffer = nullptr, .no_alloc = false}));
    const auto rows = [&](const std::vector<float>& values, uint32_t n_heads, uint32_t n) {
      ggml_tensor* tensor = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, input.head_dim, n_heads, 1);
      for (uint32_t head = 0; head < n_heads; ++head) {
        std::copy_n(values.begin() + (static_cast<ptrdiff_t>(head) * n + token) * input.head_dim,
                    input.head_dim, static_cast<float*>(tensor->data) + size_t{head} * input.head_dim);
      }
      return tensor;
    };
    const StepToken step{0, 0, static_cast<int32_t>(token)};
    attention_.set_step({&step, 1});
    ggml_cgraph* graph = ggml_new_graph(context.get());
    for (uint32_t layer = 0; layer < plan_.dims.n_layers; ++layer) {
      ggml_build_forward_expand(graph,
                                attention_.build(context.get(), layer, rows(input.q, input.n_heads, input.w),
                                                 rows(input.k, input.n_kv_heads, input.n),
                                                 rows(input.v, input.n_kv_heads, input.n)));
    }
    compute_.run(graph);
    for (uint32_t layer = 0; layer < plan_.dims.n_layers; ++layer) memory_.cache.commit(layer, 0, 1);
  }

  bool full() const { return memory_.cache.length(last(), 0) == plan_.memory.capacity; }

  void evict(uint32_t event, int64_t n_seen) {
    EventContext context = case_.event;
    context.event = event;
    context.n_seen = n_seen;
    context.n_sink = plan_.memory.shape.n_sink;
    std::vector<EventContext> layer_events(plan_.dims.n_layers, context);
    for (uint32_t layer = 0; layer < plan_.dims.n_layers; ++layer) layer_events[layer].layer = layer;
    events_.run(0, layer_events);
  }

  std::vector<int32_t> kept(uint32_t kv_head) const {
    const auto all = memory_.cache.pos(last(), 0, kv_head);
    std::vector<int32_t> positions(all.begin(), all.begin() + memory_.cache.length(last(), 0));
    std::ranges::sort(positions);
    return positions;
  }

 private:
  static CachePlan make_plan(const golden::Case& golden_case, const std::string& policy) {
    ModelInfo model;
    model.n_layers = golden_case.event.layer + 1;
    model.n_heads = golden_case.input.n_heads;
    model.n_kv_heads = golden_case.input.n_kv_heads;
    model.head_dim = golden_case.input.head_dim;
    model.n_ctx_train = golden_case.input.n;
    CacheOptions options;
    options.policy = policy;
    options.budget = Budget{.unit = Budget::Unit::tokens, .amount = golden_case.budget};
    options.interval = golden_case.interval;
    options.window = golden_case.window;
    options.type_k = RowType::f16;  // the golden inputs are f16 numbers
    options.type_v = RowType::f16;
    return make_cache_plan(model, options, 1);
  }

  uint32_t last() const { return plan_.dims.n_layers - 1; }

  const golden::Case& case_;
  Compute compute_{1};
  CachePlan plan_;
  CacheMemory memory_;
  CachedAttention attention_;
  EventRunner events_;
};

TEST_P(TenEvents, AgreeWithTheReference) {
  const golden::Case golden_case = golden::read_case(GetParam());
  for (const golden::Expectation& expected : golden_case.expected) {
    SCOPED_TRACE(expected.name + " = " + expected.policy);
    Replay run(golden_case, expected.policy);
    uint32_t event = 0;
    for (uint32_t token = 0; token < golden_case.input.n; ++token) {
      run.append(token);
      if (!run.full()) continue;
      run.evict(event, int64_t{token} + 1);
      for (uint32_t kv_head = 0; kv_head < golden_case.input.n_kv_heads; ++kv_head) {
        const auto first = expected.keep.begin() +
                           static_cast<ptrdiff_t>((size_t{event} * golden_case.input.n_kv_heads + kv_head) *
                                                  golden_case.budget);
        ASSERT_EQ(run.kept(kv_head), std::vector<int32_t>(first, first + golden_case.budget))
            << "event " << event << " head " << kv_head;
      }
      ++event;
    }
    EXPECT_EQ(event, 10U);
  }
}

std::string file_name(const testing::TestParamInfo<std::string>& info) {
  return std::filesystem::path(info.param).stem().string();
}
INSTANTIATE_TEST_SUITE_P(Files, ScoreCommand, testing::ValuesIn(golden::files("event")), file_name);
INSTANTIATE_TEST_SUITE_P(Files, TenEvents, testing::ValuesIn(golden::files("run")), file_name);

}  // namespace
}  // namespace kvase

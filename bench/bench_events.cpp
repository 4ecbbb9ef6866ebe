// SPDX-License-Identifier: MIT
// What an event costs, per method: statistics and choice of one layer on one thread, and whole events on two.
//
// Keys and values are a random walk around a common direction, so that neighbours are similar and distant
// rows less, as real keys are; `far` keys are independent, which is the worst case of released R-KV.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench/noise.h"
#include "engine/event.h"

namespace kvase {
namespace {

constexpr uint32_t kBudget = 4096;
constexpr uint32_t kInterval = 64;
constexpr uint32_t kLayers = 8;       // beyond any cache
constexpr uint32_t kModelLayers = 28;  // of Qwen3-0.6B, whose other numbers these are
constexpr uint32_t kKvHeads = 8;
constexpr uint32_t kHeads = 16;
constexpr uint32_t kHeadDim = 128;

class Bench {
 public:
  Bench(const std::string& policy, bool far_keys, uint32_t n_threads)
      : far_keys_(far_keys),
        compute_(n_threads),
        plan_(make_plan(policy)),
        memory_(plan_, compute_.backend()),
        runner_(compute_, memory_, plan_),
        statistics_(memory_) {
    append(kBudget);
  }

  // Fills every layer up to its next event.
  void fill() { append(memory_.cache.n_slots(0, 0) - memory_.cache.length(0, 0)); }

  void run_event() {
    std::vector<EventContext> layer_events;
    for (uint32_t layer = 0; layer < kLayers; ++layer) layer_events.push_back(event(layer));
    runner_.run(0, layer_events);
    ++n_events_;
  }

  LayerView collect() { return statistics_.collect(0, 0, kBudget, 0, event(0)); }
  Verdict decide(const LayerView& layer) const { return plan_.policy.policy->decide(layer, event(0)); }

 private:
  static CachePlan make_plan(const std::string& policy) {
    ModelInfo model;
    model.n_layers = kLayers;
    model.n_heads = kHeads;
    model.n_kv_heads = kKvHeads;
    model.head_dim = kHeadDim;
    model.n_ctx_train = 1U << 20;
    CacheOptions options;
    options.policy = policy;
    options.budget = Budget{.unit = Budget::Unit::tokens, .amount = kBudget};
    options.interval = kInterval;
    return make_cache_plan(model, options, 1);
  }

  EventContext event(uint32_t layer) const {
    EventContext event;
    event.layer = layer;
    event.event = n_events_;
    event.n_seen = n_seen_;
    event.window = plan_.memory.shape.window;
    event.n_sink = plan_.memory.shape.n_sink;
    return event;
  }

  void append(uint32_t n_tokens) {
    std::vector<float> key(kHeadDim), value(kHeadDim);
    for (uint32_t token = 0; token < n_tokens; ++token, ++n_seen_) {
      for (uint32_t channel = 0; channel < kHeadDim; ++channel) {
        walk_[channel] = 0.98F * walk_[channel] + 0.2F * noise_.next();
        key[channel] = noise_.next() + (far_keys_ ? 0 : 0.3F + walk_[channel]);
        value[channel] = noise_.next();
      }
      append_everywhere(key, value);
    }
  }

  void append_everywhere(const std::vector<float>& key, const std::vector<float>& value) {
    Cache& cache = memory_.cache;
    const Columns& columns = memory_.columns;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      for (uint32_t kv_head = 0; kv_head < kKvHeads; ++kv_head) {
        const uint32_t slot = cache.length(layer, 0);
        cache.append_row(layer, 0, kv_head, slot, static_cast<int32_t>(n_seen_), key.data(), value.data());
        columns.append(layer, 0, kv_head, slot, key, value);
        for (uint32_t row = 0; row < columns.n_mass_rows(); ++row)
          columns.mass(layer, 0, kv_head, row)[slot] = std::abs(noise_.next());
      }
      cache.commit(layer, 0, 1);
    }
  }

  bool far_keys_;
  Compute compute_;
  CachePlan plan_;
  CacheMemory memory_;
  EventRunner runner_;
  EventStatistics statistics_;
  Noise noise_;
  std::vector<float> walk_ = std::vector<float>(kHeadDim);
  int64_t n_seen_ = 0;
  uint32_t n_events_ = 0;
};

void measure(benchmark::State& state, const std::string& policy, bool far_keys) {
  Bench bench(policy, far_keys, 2);
  const auto ms = [](const auto& run) {
    const auto start = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<double> statistics, choice, whole;
  for ([[maybe_unused]] auto _ : state) {
    bench.fill();
    LayerView layer;
    statistics.push_back(ms([&] { layer = bench.collect(); }));
    choice.push_back(ms([&] { benchmark::DoNotOptimize(bench.decide(layer)); }));
    whole.push_back(ms([&] { bench.run_event(); }));
    state.SetIterationTime(whole.back() / 1000);
  }
  // The least of a few is what the work itself takes, on a machine that others use too.
  const double event_ms = std::ranges::min(whole) * kModelLayers / kLayers;
  state.counters["statistics_ms_per_layer"] = std::ranges::min(statistics);
  state.counters["choice_ms_per_layer"] = std::ranges::min(choice);
  state.counters["event_ms"] = event_ms;
  state.counters["first_event_ms"] = whole.front() * kModelLayers / kLayers;
  state.counters["ms_per_token"] = event_ms / kInterval;
}

void add_all() {
  const auto add = [](const std::string& policy, bool far_keys) {
    benchmark::RegisterBenchmark((policy + (far_keys ? "/far" : "")).c_str(),
                                 [=](benchmark::State& state) { measure(state, policy, far_keys); })
        ->UseManualTime()
        ->Iterations(6)
        ->Unit(benchmark::kMillisecond);
  };
  for (const PolicyInfo& info : list_policies()) {
    if (info.name != "full") add(info.name, false);
  }
  add("snapkv:smooth=max", false);
  add("rkv", true);
}

}  // namespace
}  // namespace kvase

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  kvase::add_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

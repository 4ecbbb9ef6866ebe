// SPDX-License-Identifier: MIT
// Attention over the cache against the time that reading K and V takes, and against ggml's op, on the same
// data.
//
// Every iteration runs all of them once, one after the other, so that what else happens on the machine hits
// all of them alike; medians are printed. Each run takes another layer, and all layers together exceed any
// cache.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <vector>

#include "attention/cached_attention.h"
#include "bench/noise.h"
#include "bench/read_floor.h"
#include "tensor/compute.h"

namespace kvase {
namespace {

struct Case {
  uint32_t n_kv_heads = 8;
  uint32_t group = 1;
  uint32_t head_dim = 128;
  ggml_type type = GGML_TYPE_F16;
  uint32_t n_slots = 4096;  // that the last token sees
  uint32_t n_tokens = 1;
  uint32_t n_layers = 12;
  uint32_t n_threads = 2;
  MassSpec mass = {};
};

class Bench {
 public:
  explicit Bench(const Case& c)
      : case_(c),
        compute_(c.n_threads),
        arena_((Cache::kTensorsPerLayer + Columns::max_tensors_per_layer()) * c.n_layers),
        cache_(arena_, {.n_layers = c.n_layers,
                        .n_kv_heads = c.n_kv_heads,
                        .head_dim = c.head_dim,
                        .n_sequences = 1,
                        .capacity = std::vector<uint32_t>(c.n_layers, c.n_slots),
                        .type_k = c.type,
                        .type_v = c.type}),
        columns_(arena_, cache_, n_heads(), {.statistics = {Statistic::mass}, .mass = c.mass, .sketch = {}}),
        attention_(cache_, columns_, n_heads(), scale(), c.n_threads),
        context_(ggml_init({.mem_size = size_t{256} << 20, .mem_buffer = nullptr, .no_alloc = false})) {
    arena_.allocate(compute_.backend());
    fill_cache();
    q_ = filled(n_heads());
    k_ = filled(c.n_kv_heads);
    v_ = filled(c.n_kv_heads);
    mask_ = causal_mask();
    std::vector<StepToken> tokens;
    for (uint32_t token = 0; token < c.n_tokens; ++token)
      tokens.push_back({0, token, static_cast<int32_t>(length() + token)});
    attention_.set_step(tokens);
    for (uint32_t layer = 0; layer < c.n_layers; ++layer) {
      ours_.push_back(graph_of(attention_.build(context_.get(), layer, q_, k_, v_)));
      ggml_.push_back(graph_of(flash_attention(layer)));
    }
  }

  void run_ours(uint32_t layer) { compute_.run(ours_[layer]); }
  void run_ggml(uint32_t layer) { compute_.run(ggml_[layer]); }
  void run_read(uint32_t layer) {
    std::vector<std::span<const std::byte>> spans;
    for (const ggml_tensor* tensor : {cache_.keys(layer), cache_.values(layer)})
      spans.emplace_back(static_cast<const std::byte*>(tensor->data), ggml_nbytes(tensor));
    benchmark::DoNotOptimize(read_all(compute_, spans));
  }
  // The step's queries are window queries, or not.
  void set_mass(bool on) {
    for (uint32_t layer = 0; layer < case_.n_layers; ++layer)
      attention_.watch_mass(layer, 0, on ? length() + 64 : kNoMass, 64);
  }

  uint32_t n_heads() const { return case_.n_kv_heads * case_.group; }
  uint32_t length() const { return case_.n_slots - case_.n_tokens; }
  double bytes() const {
    return static_cast<double>(ggml_nbytes(cache_.keys(0)) + ggml_nbytes(cache_.values(0)));
  }
  // Multiply-adds of both products over the visible slots.
  double multiply_adds() const {
    const double visible = case_.n_tokens * (length() + (case_.n_tokens + 1) / 2.0);
    return 2.0 * visible * n_heads() * case_.head_dim;
  }

 private:
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(case_.head_dim)); }

  void fill_cache() {
    Noise noise;
    std::vector<float> key(case_.head_dim);
    std::vector<float> value(case_.head_dim);
    for (uint32_t layer = 0; layer < case_.n_layers; ++layer) {
      for (uint32_t kv_head = 0; kv_head < case_.n_kv_heads; ++kv_head) {
        for (uint32_t slot = 0; slot < length(); ++slot) {
          for (float& x : key) x = noise.next();
          for (float& x : value) x = noise.next();
          cache_.append_row(layer, 0, kv_head, slot, static_cast<int32_t>(slot), key.data(), value.data());
        }
      }
      cache_.commit(layer, 0, length());
    }
  }

  ggml_tensor* filled(uint32_t heads) {
    ggml_tensor* tensor =
        ggml_new_tensor_3d(context_.get(), GGML_TYPE_F32, case_.head_dim, heads, case_.n_tokens);
    Noise noise;
    std::generate_n(static_cast<float*>(tensor->data), ggml_nelements(tensor),
                    [&] { return 2 * noise.next(); });
    return tensor;
  }

  ggml_tensor* causal_mask() {
    ggml_tensor* mask = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F16, case_.n_slots, case_.n_tokens);
    auto* data = static_cast<ggml_fp16_t*>(mask->data);
    for (uint32_t token = 0; token < case_.n_tokens; ++token) {
      for (uint32_t slot = 0; slot < case_.n_slots; ++slot)
        *data++ = ggml_fp32_to_fp16(slot <= length() + token ? 0.0F : -INFINITY);
    }
    return mask;
  }

  ggml_tensor* flash_attention(uint32_t layer) {
    ggml_tensor* q = ggml_permute(context_.get(), q_, 0, 2, 1, 3);
    return ggml_flash_attn_ext(context_.get(), q, cache_.keys(layer), cache_.values(layer), mask_, scale(), 0,
                               0);
  }

  ggml_cgraph* graph_of(ggml_tensor* out) {
    ggml_cgraph* graph = ggml_new_graph_custom(context_.get(), 16, false);
    ggml_build_forward_expand(graph, out);
    return graph;
  }

  Case case_;
  Compute compute_;
  Arena arena_;
  Cache cache_;
  Columns columns_;
  CachedAttention attention_;
  GgmlContext context_;
  ggml_tensor* q_ = nullptr;
  ggml_tensor* k_ = nullptr;
  ggml_tensor* v_ = nullptr;
  ggml_tensor* mask_ = nullptr;
  std::vector<ggml_cgraph*> ours_;
  std::vector<ggml_cgraph*> ggml_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void measure(benchmark::State& state, const Case& c) {
  Bench bench(c);
  uint32_t turn = 0;
  const auto seconds = [&](const std::function<void(uint32_t)>& run) {
    const uint32_t layer = turn++ % c.n_layers;
    const auto start = std::chrono::steady_clock::now();
    run(layer);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<double> ours, mass, ggml, read, mass_ratio, ggml_ratio, read_ratio;
  for ([[maybe_unused]] auto _ : state) {
    // What runs before a run leaves traces in the caches, so the two that are compared closely change places.
    const bool mass_first = turn / 4 % 2 == 1;
    const auto attend = [&](bool with_mass) {
      bench.set_mass(with_mass);
      (with_mass ? mass : ours).push_back(seconds([&](uint32_t layer) { bench.run_ours(layer); }));
    };
    attend(mass_first);
    ggml.push_back(seconds([&](uint32_t layer) { bench.run_ggml(layer); }));
    attend(!mass_first);
    read.push_back(seconds([&](uint32_t layer) { bench.run_read(layer); }));
    state.SetIterationTime(ours.back());
    mass_ratio.push_back(mass.back() / ours.back());
    ggml_ratio.push_back(ggml.back() / ours.back());
    read_ratio.push_back(read.back() / ours.back());
  }
  const double time = median(ours);
  state.counters["us"] = time * 1e6;
  state.counters["min_us"] = *std::ranges::min_element(ours) * 1e6;
  state.counters["MB"] = bench.bytes() / 1e6;
  state.counters["GB/s"] = bench.bytes() / time / 1e9;
  state.counters["Gmadd/s"] = bench.multiply_adds() / time / 1e9;
  state.counters["of_read"] = median(read_ratio);
  state.counters["of_read_min"] = *std::ranges::min_element(read) / *std::ranges::min_element(ours);
  state.counters["x_ggml"] = median(ggml_ratio);
  state.counters["x_ggml_min"] = *std::ranges::min_element(ggml) / *std::ranges::min_element(ours);
  state.counters["mass_%"] = 100 * (median(mass_ratio) - 1);
  state.counters["mass_min_%"] =
      100 * (*std::ranges::min_element(mass) / *std::ranges::min_element(ours) - 1);
}

void add(const std::string& name, const Case& c, int64_t iterations) {
  benchmark::RegisterBenchmark(name.c_str(), [c](benchmark::State& state) { measure(state, c); })
      ->UseManualTime()
      ->Iterations(iterations)
      ->Unit(benchmark::kMicrosecond);
}

void add_all() {
  for (const uint32_t n_slots : {4096U, 2048U, 512U}) {
    for (const uint32_t group : {1U, 2U, 4U, 8U})
      add(fmt::format("decode/slots:{}/group:{}", n_slots, group), {.group = group, .n_slots = n_slots}, 60);
  }
  for (const uint32_t group : {1U, 2U, 4U})
    add(fmt::format("decode/threads:1/group:{}", group), {.group = group, .n_threads = 1}, 60);
  for (const ggml_type type : {GGML_TYPE_BF16, GGML_TYPE_F32})
    add(fmt::format("decode/{}/group:4", ggml_type_name(type)), {.group = 4, .type = type}, 40);
  for (const uint32_t head_dim : {64U, 80U, 96U, 256U})
    add(fmt::format("decode/head_dim:{}/group:4", head_dim), {.group = 4, .head_dim = head_dim}, 40);
  add("decode/kv_heads:3/group:3/head_dim:64", {.n_kv_heads = 3, .group = 3, .head_dim = 64, .n_layers = 40},
      80);
  for (const uint32_t n_tokens : {2U, 4U, 8U})
    add(fmt::format("block/tokens:{}/group:4", n_tokens), {.group = 4, .n_tokens = n_tokens}, 20);
  const MassSpec all_queries = {.queries = MassSpec::Queries::all};
  for (const uint32_t group : {2U, 4U})
    add(fmt::format("decode/all_queries/group:{}", group), {.group = group, .mass = all_queries}, 60);
  add("prefill/all_queries/tokens:64/group:2", {.group = 2, .n_tokens = 64, .n_layers = 4, .mass = all_queries},
      10);
  add("prefill/all_queries/tokens:512/group:2",
      {.group = 2, .n_tokens = 512, .n_layers = 4, .mass = all_queries}, 4);
  for (const uint32_t n_tokens : {64U, 512U}) {
    for (const uint32_t group : {1U, 4U})
      add(fmt::format("prefill/tokens:{}/group:{}", n_tokens, group),
          {.group = group, .n_tokens = n_tokens, .n_layers = 4}, n_tokens == 64 ? 10 : 4);
  }
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

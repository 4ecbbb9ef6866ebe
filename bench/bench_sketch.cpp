// SPDX-License-Identifier: MIT
// The sketch of one KV head's keys, or values, at an event: n_slots * head_dim * padded rank multiply-adds.
#include <benchmark/benchmark.h>
#include <ggml-cpu.h>

#include <cstddef>
#include <numeric>
#include <vector>

#include "stats/sketch.h"

namespace kvase {
namespace {

constexpr uint32_t kHeadDim = 128;
constexpr uint32_t kRank = 20;

void sketch(benchmark::State& state, ggml_type type) {
  const auto n_slots = static_cast<size_t>(state.range(0));
  const SketchMatrix matrix = make_sketch_matrix({.rank = kRank}, EventContext{}, kHeadDim);
  const std::vector<std::byte> data(n_slots * ggml_row_size(type, kHeadDim));
  const StoredRows rows = {.type = type, .data = data.data(), .head_dim = kHeadDim};
  std::vector<uint32_t> slots(n_slots);
  std::iota(slots.begin(), slots.end(), 0U);
  std::vector<float> norms(n_slots);
  for ([[maybe_unused]] auto _ : state) {
    sketch_rows(matrix, rows, slots, norms);
    benchmark::DoNotOptimize(norms.data());
  }
  state.counters["s_per_row"] =
      benchmark::Counter(static_cast<double>(n_slots),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["multiply_adds"] =
      benchmark::Counter(static_cast<double>(n_slots * kHeadDim * matrix.padded_rank),
                         benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK_CAPTURE(sketch, f16, GGML_TYPE_F16)->Arg(4096)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sketch, bf16, GGML_TYPE_BF16)->Arg(4096)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sketch, f32, GGML_TYPE_F32)->Arg(4096)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvase

BENCHMARK_MAIN();

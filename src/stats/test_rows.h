// SPDX-License-Identifier: MIT
// Rows for tests of statistics: stored in any type, and the exact values that they then hold.
#pragma once

#include <ggml-cpu.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "golden/oracle.h"
#include "stats/rows.h"

namespace kvase {

struct TestRows {
  ggml_type type = GGML_TYPE_F32;
  uint32_t head_dim = 0;
  std::vector<float> exact;
  std::vector<std::byte> stored;

  StoredRows view() const { return {type, stored.data(), head_dim}; }
  oracle::Rows spans() const {
    oracle::Rows rows;
    for (size_t first = 0; first < exact.size(); first += head_dim)
      rows.push_back(std::span(exact).subspan(first, head_dim));
    return rows;
  }
};

// Rounds `values` to the type.
inline TestRows store_rows(ggml_type type, uint32_t head_dim, std::vector<float> values) {
  TestRows rows{.type = type, .head_dim = head_dim, .exact = std::move(values), .stored = {}};
  ggml_cpu_init();  // fills the tables that f16 conversions read; elsewhere the backend has done it
  const auto n = static_cast<int64_t>(rows.exact.size());
  rows.stored.resize(ggml_row_size(type, n));
  if (type == GGML_TYPE_F32) {
    std::ranges::copy(rows.exact, reinterpret_cast<float*>(rows.stored.data()));
  } else {
    ggml_get_type_traits_cpu(type)->from_float(rows.exact.data(), rows.stored.data(), n);
    ggml_get_type_traits(type)->to_float(rows.stored.data(), rows.exact.data(), n);
  }
  return rows;
}

// Uniform in -2..2, plus `shift`: the larger, the more similar rows are.
inline TestRows random_rows(ggml_type type, uint32_t head_dim, uint32_t n, float shift = 0,
                            uint64_t seed = 3) {
  std::vector<float> values;
  for (uint32_t index = 0; index < head_dim * n; ++index) {
    values.push_back(static_cast<float>(noise_uniform({.seed = seed}, NoiseStream::race, index) * 4 - 2) +
                     shift);
  }
  return store_rows(type, head_dim, std::move(values));
}

// 0 .. n - 1 in an order that is not ascending; `step` is coprime to n.
inline std::vector<uint32_t> scattered(uint32_t n, uint32_t step) {
  std::vector<uint32_t> slots(n);
  for (uint32_t place = 0; place < n; ++place) slots[place] = place * step % n;
  return slots;
}

inline std::vector<size_t> wide(const std::vector<uint32_t>& slots) { return {slots.begin(), slots.end()}; }

}  // namespace kvase

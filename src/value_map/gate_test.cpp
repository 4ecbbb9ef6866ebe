// SPDX-License-Identifier: MIT
// The gate's three errors on heads where they are known, and eviction's against plain loops.
#include "value_map/gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace kvase {
namespace {

constexpr uint32_t kHeadDim = 24, kContext = 400, kWindow = 20, kEval = 10, kGroup = 3, kSinks = 4;
constexpr uint32_t kSlots = kContext + kEval, kBudget = kContext / 4;

std::vector<float> random_rows(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> rows(n * kHeadDim);
  for (float& x : rows) x = normal(random);
  return rows;
}

struct Head {
  std::vector<float> keys = random_rows(kSlots, 1);
  std::vector<float> values = random_rows(kSlots, 2);
  std::vector<float> rebuilt = random_rows(kSlots, 3);
  std::vector<float> queries = random_rows(size_t{kWindow + kEval} * kGroup, 4);
  GateErrors measure() const {
    return measure_gate({.head_dim = kHeadDim,
                         .n = kSlots,
                         .n_window = kWindow,
                         .n_eval = kEval,
                         .n_sink = kSinks,
                         .group = kGroup,
                         .scale = 0.4F,
                         .keys = keys.data(),
                         .values = values.data(),
                         .rebuilt = rebuilt.data(),
                         .queries = queries.data()});
  }
  double weight(size_t query, size_t slot) const {
    double dot = 0;
    for (size_t channel = 0; channel < kHeadDim; ++channel)
      dot += double{queries[query * kHeadDim + channel]} * keys[slot * kHeadDim + channel];
    return std::exp(0.4 * dot);
  }
  // Attention of a query over the slots for which keeps(slot).
  template <typename Keeps>
  std::vector<double> attend(size_t query, size_t n, const Keeps& keeps) const {
    std::vector<double> out(kHeadDim, 0.0);
    double total = 0;
    for (size_t slot = 0; slot < n; ++slot) {
      if (!keeps(slot)) continue;
      total += weight(query, slot);
      for (size_t channel = 0; channel < kHeadDim; ++channel)
        out[channel] += weight(query, slot) * values[slot * kHeadDim + channel];
    }
    for (double& channel : out) channel /= total;
    return out;
  }
};

TEST(Gate, EvictionIsThatOfPlainLoops) {
  const Head head;
  constexpr size_t kCandidates = kContext - kWindow;
  std::vector<double> mass(kCandidates, 0.0);
  for (size_t query = 0; query < size_t{kWindow} * kGroup; ++query) {
    double total = 0;
    for (size_t slot = 0; slot < kCandidates; ++slot) total += head.weight(query, slot);
    for (size_t slot = 0; slot < kCandidates; ++slot) mass[slot] += head.weight(query, slot) / total;
  }
  std::vector<double> sorted(mass.begin() + kSinks, mass.end());
  std::ranges::sort(sorted, std::greater{});
  const double cut = sorted[kBudget - kWindow - kSinks - 1];
  const auto keeps = [&](size_t slot) { return slot < kSinks || slot >= kCandidates || mass[slot] >= cut; };
  double evict = 0, full = 0;
  for (size_t query = 0; query < kEval; ++query) {
    for (size_t member = 0; member < kGroup; ++member) {
      const size_t row = (kWindow + query) * kGroup + member, n = kContext + query + 1;
      const auto cut_out = head.attend(row, n, keeps);
      const auto full_out = head.attend(row, n, [](size_t) { return true; });
      for (size_t channel = 0; channel < kHeadDim; ++channel) {
        evict += std::pow(cut_out[channel] - full_out[channel], 2);
        full += std::pow(full_out[channel], 2);
      }
    }
  }
  const GateErrors found = head.measure();
  EXPECT_NEAR(found.evict, evict, 1e-4 * evict);
  EXPECT_NEAR(found.full, full, 1e-4 * full);
}

TEST(Gate, ExactRebuildingBeatsEviction) {
  Head head;
  head.rebuilt = head.values;
  const GateErrors errors = head.measure();
  EXPECT_LT(errors.linear, 0.8 * errors.evict);
}

TEST(Gate, WrongRebuildingLoses) {
  Head head;
  for (float& x : head.rebuilt) x *= 5;
  const GateErrors errors = head.measure();
  EXPECT_GT(errors.linear, errors.evict);
  EXPECT_GT(errors.linear, errors.zero);
}

TEST(Gate, EqualValuesLoseNothing) {
  Head head;
  std::ranges::fill(head.values, 2.0F);
  head.rebuilt = head.values;
  const GateErrors errors = head.measure();
  EXPECT_LT(errors.evict, 1e-8 * errors.full);
  EXPECT_LT(errors.zero, 1e-8 * errors.full);
  EXPECT_LT(errors.linear, 1e-8 * errors.full);
}

TEST(Gate, ErrorsAddUp) {
  GateErrors sum{.evict = 1, .zero = 2, .linear = 3, .full = 4};
  sum.add({.evict = 10, .zero = 20, .linear = 30, .full = 40});
  EXPECT_EQ(sum.evict, 11);
  EXPECT_EQ(sum.zero, 22);
  EXPECT_EQ(sum.linear, 33);
  EXPECT_EQ(sum.full, 44);
}

}  // namespace
}  // namespace kvase

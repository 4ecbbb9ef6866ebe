// SPDX-License-Identifier: MIT
// lagkv: partitions by position, ranks within them, and what is kept for want of knowledge.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "golden/synthetic.h"

namespace kvase {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// 10 slots in reverse order of position: one sink, partitions 1..3, 4..6, the rest 7..9 (the last partition).
oracle::Layer layer_of(const std::vector<float>& by_pos) {
  oracle::Layer layer = synthetic::small_layer(std::vector<float>(by_pos.size()), {}, 6);
  std::ranges::reverse(layer.heads[0].pos);
  std::vector<float> column(by_pos.rbegin(), by_pos.rend());
  layer.heads[0][Statistic::k_lag] = column;
  layer.heads[0][Statistic::v_lag] = column;
  return layer;
}

std::vector<double> by_pos(const Scores& scores) { return {scores[0].rbegin(), scores[0].rend()}; }

TEST(Lagkv, RanksWithinEachPartition) {
  oracle::Layer layer = layer_of({0, 3, 1, 2, 9, 7, 8, 0, 0, 0});
  const auto policy = parse_policy("lagkv:lag=3").policy;
  const EventContext event = synthetic::small_event(10, 1, 1);
  const std::vector<double> scores = by_pos(policy->score(layer.view(), event));
  const std::vector<double> expected = {kInf, 2.0 / 3, 0, 1.0 / 3, 2.0 / 3, 0, 1.0 / 3, 1, 1, kInf};
  EXPECT_EQ(scores, expected);
  // Dropped: both zeros, then of the two thirds the newer.
  layer.budget = 7;
  EXPECT_EQ(synthetic::kept_positions(layer, policy->decide(layer.view(), event))[0],
            (std::set<int32_t>{0, 1, 3, 4, 7, 8, 9}));
}

TEST(Lagkv, AcrossPartitionsTheSoftmaxesThemselvesCount) {
  oracle::Layer layer = layer_of({0, 3, 1, 2, 9, 9, 9, 0, 0, 0});
  const std::vector<double> scores = by_pos(
      parse_policy("lagkv:lag=3,cross=yes").policy->score(layer.view(), synthetic::small_event(10, 1, 1)));
  const double sum = std::exp(3.0) + std::exp(1.0) + std::exp(2.0);
  EXPECT_NEAR(scores[1], std::exp(3.0) / sum, 1e-12);
  EXPECT_NEAR(scores[4], 1.0 / 3, 1e-12);
}

TEST(Lagkv, FewerThanTwoPartitionsKeepTheNewest) {
  oracle::Layer layer = layer_of({0, 3, 1, 2, 9, 7, 8, 0, 0, 0});
  const auto policy = parse_policy("lagkv:lag=5").policy;
  EXPECT_EQ(
      synthetic::kept_positions(layer, policy->decide(layer.view(), synthetic::small_event(10, 1, 1)))[0],
      (std::set<int32_t>{0, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace kvase

// SPDX-License-Identifier: MIT
// leverage and cur-exact: they rank by what the statistics say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/synthetic.h"

namespace kvase {
namespace {

using testing::ElementsAre;

TEST(Leverage, KeepsTheLargest) {
  oracle::Layer layer = synthetic::small_layer(std::vector<float>(4), {}, 3);
  layer.heads[0][Statistic::k_leverage] = {0.9f, 0.1f, 0.5f, 0};
  const Verdict verdict = parse_policy("leverage").policy->decide(layer.view(), synthetic::small_event(4, 1));
  EXPECT_THAT(verdict.heads[0].drop, ElementsAre(1));
}

TEST(CurExact, KeepsTheLargestProducts) {
  oracle::Layer layer = synthetic::small_layer(std::vector<float>(4), {}, 3);
  layer.heads[0][Statistic::k_leverage] = {0.9f, 0.2f, 0.5f, 0};
  layer.heads[0][Statistic::v_leverage] = {0.1f, 0.7f, 0.4f, 0};
  const auto policy = parse_policy("cur-exact").policy;
  const EventContext event = synthetic::small_event(4, 1);
  EXPECT_NEAR(policy->score(layer.view(), event)[0][1], 0.14 / (0.09 + 0.14 + 0.2), 1e-7);
  EXPECT_THAT(policy->decide(layer.view(), event).heads[0].drop, ElementsAre(0));
}

}  // namespace
}  // namespace kvase

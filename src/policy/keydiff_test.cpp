// SPDX-License-Identifier: MIT
// keydiff: cosines to the mean key, from mean cosines alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "golden/synthetic.h"

namespace kvase {
namespace {

using testing::ElementsAre;

oracle::Layer layer_of(const std::vector<float>& mean_cosines, uint32_t budget) {
  oracle::Layer layer = synthetic::small_layer(std::vector<float>(mean_cosines.size()), {}, budget);
  layer.heads[0][Statistic::k_mean_cos_all] = mean_cosines;
  return layer;
}

// Unit keys (1,0), (1,0), (0,1), (1,0): the mean is (3/4, 1/4), its length sqrt(10)/4.
TEST(Keydiff, ScoresAreCosinesToTheMeanKey) {
  oracle::Layer layer = layer_of({0.75f, 0.75f, 0.25f, 0.75f}, 2);
  const auto policy = parse_policy("keydiff").policy;
  const EventContext event = synthetic::small_event(4, 1);
  const Scores scores = policy->score(layer.view(), event);
  EXPECT_NEAR(scores[0][0], -3 / std::sqrt(10.0), 1e-12);
  EXPECT_NEAR(scores[0][2], -1 / std::sqrt(10.0), 1e-12);
  EXPECT_THAT(policy->decide(layer.view(), event).heads[0].drop, ElementsAre(0, 1));
}

// Opposite keys: there is no mean direction, and nobody differs.
TEST(Keydiff, NoMeanKeyLeavesPositionsToDecide) {
  oracle::Layer layer = layer_of({0, 0, 0, 0}, 2);
  const Verdict verdict = parse_policy("keydiff").policy->decide(layer.view(), synthetic::small_event(4, 1));
  EXPECT_THAT(verdict.heads[0].drop, ElementsAre(1, 2));
}

TEST(Keydiff, ANanDoesNotTouchTheOthers) {
  oracle::Layer layer = layer_of({0.5f, std::numeric_limits<float>::quiet_NaN(), 0.2f, 0.1f}, 3);
  const Verdict verdict = parse_policy("keydiff").policy->decide(layer.view(), synthetic::small_event(4, 1));
  EXPECT_THAT(verdict.heads[0].drop, ElementsAre(1));
}

}  // namespace
}  // namespace kvase

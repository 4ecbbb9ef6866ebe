// SPDX-License-Identifier: MIT
// tova: one row of scores for all KV heads, whatever the order of their slots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/synthetic.h"

namespace kvase {
namespace {

using testing::ElementsAre;

// Two heads that disagree: means 0.25, 0.3, 0.2, 0.1 of the first four tokens.
oracle::Layer two_heads() {
  oracle::Layer layer = synthetic::small_layer({0.5f, 0.1f, 0.1f, 0.2f, 0}, {}, 3);
  layer.heads.push_back(layer.heads[0]);
  layer.heads[1][Statistic::mass] = {0, 0.5f, 0.3f, 0, 0};
  return layer;
}

TEST(Tova, HeadsAgreeOnTheMean) {
  oracle::Layer layer = two_heads();
  const auto policy = parse_policy("tova").policy;
  const EventContext event = synthetic::small_event(5, 1);
  const Scores scores = policy->score(layer.view(), event);
  EXPECT_EQ(scores[0], scores[1]);
  EXPECT_NEAR(scores[0][0], 0.25, 1e-7);
  EXPECT_NEAR(scores[0][1], 0.3, 1e-7);
  const Verdict verdict = policy->decide(layer.view(), event);
  EXPECT_THAT(verdict.heads[0].drop, ElementsAre(2, 3));
  EXPECT_THAT(verdict.heads[1].drop, ElementsAre(2, 3));
}

TEST(Tova, HeadsThatStoreTokensElsewhereKeepTheSame) {
  oracle::Layer layer = two_heads();
  layer.heads[1].pos = {3, 4, 0, 2, 1};
  layer.heads[1][Statistic::mass] = {0, 0, 0, 0.3f, 0.5f};
  const Verdict verdict = parse_policy("tova").policy->decide(layer.view(), synthetic::small_event(5, 1));
  const auto kept = synthetic::kept_positions(layer, verdict);
  EXPECT_EQ(kept[0], (std::set<int32_t>{0, 1, 4}));
  EXPECT_EQ(kept[1], kept[0]);
}

}  // namespace
}  // namespace kvase

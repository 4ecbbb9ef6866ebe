// SPDX-License-Identifier: MIT
// rkv and rkv-vase: what they ask for, and attention against redundancy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/synthetic.h"

namespace kvase {
namespace {

using testing::ElementsAre;
using Group = MassSpec::Group;

TEST(Rkv, AsksForWhatEachVariantReads) {
  const Needs released = parse_policy("rkv").policy->needs();
  EXPECT_THAT(released.statistics, ElementsAre(Statistic::mass, Statistic::k_redundancy));
  EXPECT_EQ(released.mass.group, Group::max_logit);
  EXPECT_FALSE(released.rank);
  EXPECT_TRUE(parse_policy("rkv:axis=slot").policy->needs().rank);

  const Needs linear = parse_policy("rkv-vase").policy->needs();
  EXPECT_THAT(linear.statistics, ElementsAre(Statistic::mass, Statistic::k_mean_cos));
  EXPECT_EQ(linear.mass.group, Group::mean);
  EXPECT_EQ(parse_policy("rkv-vase:smooth=max").policy->needs().mass.group, Group::per_head);
  EXPECT_EQ(parse_policy("rkv-vase:smooth=max,smooth_on=group").policy->needs().mass.group, Group::mean);
}

oracle::Layer layer_of(Statistic redundancy) {
  oracle::Layer layer = synthetic::small_layer({0.5f, 0.3f, 0.2f, 0}, {}, 3);
  // Powers of e: 4, 1 and 1 among candidates, 2 in the window.
  layer.heads[0][redundancy] = {std::log(4.0f), 0, 0, std::log(2.0f)};
  return layer;
}

// Softmax over candidates 4/6, 1/6, 1/6; over all slots 4/8, 1/8, 1/8, 2/8.
TEST(Rkv, RedundancyOverCandidatesOrOverAll) {
  const EventContext event = synthetic::small_event(4, 1);
  oracle::Layer layer = layer_of(Statistic::k_mean_cos);
  Scores scores = parse_policy("rkv-vase").policy->score(layer.view(), event);
  EXPECT_NEAR(scores[0][0], 0.5 * 0.5 - 0.5 * 4 / 6, 1e-7);
  EXPECT_NEAR(scores[0][1], 0.5 * 0.3 - 0.5 / 6, 1e-7);
  layer = layer_of(Statistic::k_redundancy);
  scores = parse_policy("rkv:smooth=none").policy->score(layer.view(), event);
  EXPECT_NEAR(scores[0][0], 0.1 * 0.5 - 0.9 * 4 / 8, 1e-7);
  EXPECT_NEAR(scores[0][2], 0.1 * 0.2 - 0.9 * 1 / 8, 1e-7);
}

TEST(Rkv, LambdaDecidesWhoGoes) {
  const EventContext event = synthetic::small_event(4, 1);
  oracle::Layer layer = layer_of(Statistic::k_mean_cos);
  const auto dropped = [&](const char* policy) {
    return parse_policy(policy).policy->decide(layer.view(), event).heads[0].drop;
  };
  EXPECT_THAT(dropped("rkv-vase:lambda=0"), ElementsAre(0));
  EXPECT_THAT(dropped("rkv-vase:lambda=1"), ElementsAre(2));
}

}  // namespace
}  // namespace kvase

// SPDX-License-Identifier: MIT
// snapkv: what it asks for, and that it ranks by mass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/synthetic.h"

namespace kvase {
namespace {

using testing::ElementsAre;
using Group = MassSpec::Group;

TEST(Snapkv, AsksForARowPerQueryHeadOnlyWhereItMatters) {
  const std::pair<const char*, Group> asked[] = {
      {"snapkv", Group::mean},
      {"snapkv:smooth=avg", Group::mean},
      {"snapkv:smooth=max", Group::per_head},
      {"snapkv:smooth=max,smooth_on=heads", Group::per_head},
      {"snapkv:smooth=max,smooth_on=group", Group::mean},
      {"snapkv:group=max-logit", Group::max_logit},
      {"snapkv:group=max-logit,smooth=max", Group::max_logit},
  };
  for (const auto& [policy, group] : asked) {
    const Needs needs = parse_policy(policy).policy->needs();
    EXPECT_THAT(needs.statistics, ElementsAre(Statistic::mass));
    EXPECT_EQ(needs.mass.group, group) << policy;
  }
}

TEST(Snapkv, AsksForRanksOnlyToSmoothOverThem) {
  EXPECT_FALSE(parse_policy("snapkv").policy->needs().rank);
  EXPECT_FALSE(parse_policy("snapkv:smooth=avg").policy->needs().rank);
  EXPECT_TRUE(parse_policy("snapkv:smooth=avg,axis=slot").policy->needs().rank);
}

TEST(Snapkv, KeepsTheLargestMass) {
  oracle::Layer layer = synthetic::small_layer({0.1f, 0.4f, 0.2f, 0.3f, 0, 0}, {}, 4);
  const Verdict verdict = parse_policy("snapkv").policy->decide(layer.view(), synthetic::small_event(6, 2));
  EXPECT_THAT(verdict.heads[0].drop, ElementsAre(0, 2));
}

TEST(Snapkv, ASinkIsKeptOnRequest) {
  oracle::Layer layer = synthetic::small_layer({0.1f, 0.4f, 0.2f, 0.3f, 0, 0}, {}, 4);
  const Verdict verdict =
      parse_policy("snapkv").policy->decide(layer.view(), synthetic::small_event(6, 2, 1));
  EXPECT_THAT(verdict.heads[0].drop, ElementsAre(2, 3));
}

TEST(Snapkv, LayoutIsByScoreThenWindow) {
  oracle::Layer layer = synthetic::small_layer({0.1f, 0.4f, 0.2f, 0.3f, 0, 0}, {}, 5);
  const auto policy = parse_policy("snapkv:smooth=max,kernel=1,smooth_on=group,axis=slot").policy;
  const Verdict verdict = policy->decide(layer.view(), synthetic::small_event(6, 2));
  EXPECT_THAT(verdict.heads[0].order, ElementsAre(1, 3, 2, 4, 5));
}

}  // namespace
}  // namespace kvase

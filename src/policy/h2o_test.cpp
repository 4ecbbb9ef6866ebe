// SPDX-License-Identifier: MIT
// h2o: the largest sums stay, and the recent half whatever its sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/synthetic.h"
#include "policy/shape.h"

namespace kvase {
namespace {

using testing::ElementsAre;

std::vector<uint32_t> dropped(const std::string& policy, uint32_t budget, uint32_t window) {
  oracle::Layer layer = synthetic::small_layer({5, 1, 4, 2, 3, 0, 0, 0}, {}, budget);
  return parse_policy(policy).policy->decide(layer.view(), synthetic::small_event(8, window)).heads[0].drop;
}

TEST(H2o, HalfOfTheBudgetIsRecent) {
  EXPECT_THAT(dropped("h2o", 6, 1), ElementsAre(1, 3));        // 5, 6, 7 stay
  EXPECT_THAT(dropped("h2o", 4, 1), ElementsAre(1, 3, 4, 5));  // 6, 7 stay
}

TEST(H2o, RecentIsAnOption) {
  EXPECT_THAT(dropped("h2o:recent=1", 6, 1), ElementsAre(5, 6));
  EXPECT_THAT(dropped("h2o:recent=5", 6, 1), ElementsAre(1, 2));
}

TEST(H2o, TheWindowStaysWhereItIsLongerThanHalf) { EXPECT_THAT(dropped("h2o", 5, 4), ElementsAre(1, 2, 3)); }

TEST(H2o, RefusesARecentPartThatDoesNotFit) {
  const auto allowed = [](const std::string& policy, uint32_t n_sink) {
    try {
      check_shape(parse_policy(policy), {.budget = 100, .interval = 64, .window = 64, .n_sink = n_sink});
      return std::string();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return std::string(error.what());
    }
  };
  EXPECT_EQ(allowed("h2o", 30), "");
  EXPECT_EQ(allowed("h2o:recent=64", 4), "");
  EXPECT_EQ(allowed("h2o:recent=95", 4), "");
  EXPECT_EQ(allowed("h2o:recent=63", 4),
            "h2o: recent=63, allowed: 64..95 (window 64, budget 100 less 4 sinks and one heavy hitter)");
  EXPECT_EQ(allowed("h2o:recent=96", 4),
            "h2o: recent=96, allowed: 64..95 (window 64, budget 100 less 4 sinks and one heavy hitter)");
}

}  // namespace
}  // namespace kvase

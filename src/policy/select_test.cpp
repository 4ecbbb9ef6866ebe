// SPDX-License-Identifier: MIT
// Selection: ties, NaN, protection, order.
#include "policy/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kvase {
namespace {

using testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Six slots, in no order of age; 8 tokens seen, so the window is pos 6 and 7.
class Select : public testing::Test {
 protected:
  Select() {
    head_.pos = pos_;
    event_.n_seen = 8;
    event_.window = 2;
    event_.n_sink = 1;
  }
  std::vector<int32_t> pos_ = {7, 3, 0, 5, 6, 2};
  HeadView head_;
  EventContext event_;
};

TEST_F(Select, CandidatesAreOutsideTheWindow) {
  EXPECT_THAT(candidate_slots(head_, event_), ElementsAre(1, 2, 3, 5));
}

TEST_F(Select, ProtectsWindowAndSinksByPosition) {
  std::vector<double> scores(6, 0.5);
  protect(scores, head_, event_);
  EXPECT_THAT(scores, ElementsAre(kInf, 0.5, kInf, 0.5, kInf, 0.5));
}

TEST_F(Select, TiesGoToTheSmallerPosition) {
  const std::vector<double> scores(6, 1.0);
  EXPECT_THAT(best_first({0, 1, 2, 3, 4, 5}, scores, pos_, 6), ElementsAre(2, 5, 1, 3, 4, 0));
  EXPECT_THAT(keep_best(scores, head_, event_, 4).drop, ElementsAre(1, 3));
}

TEST_F(Select, NanAndMinusInfinityGoFirst) {
  const std::vector<double> scores = {0, kNan, 1, -1e30, 0, -kInf};
  EXPECT_THAT(best_first({1, 2, 3, 5}, scores, pos_, 4), ElementsAre(2, 3, 5, 1));
  EXPECT_THAT(keep_best(scores, head_, event_, 4).drop, ElementsAre(1, 5));
}

TEST_F(Select, TheWindowStaysWhateverItsScores) {
  const std::vector<double> scores = {-kInf, 3, 2, 1, kNan, 4};
  EXPECT_THAT(keep_best(scores, head_, event_, 4).drop, ElementsAre(2, 3));
  EXPECT_THAT(keep_best(scores, head_, event_, 2).drop, ElementsAre(1, 2, 3, 5));
}

TEST_F(Select, ABudgetThatHoldsAllDropsNothing) {
  const std::vector<double> scores(6, kNan);
  EXPECT_TRUE(keep_best(scores, head_, event_, 6).drop.empty());
  EXPECT_TRUE(keep_best(scores, head_, event_, 100).drop.empty());
}

TEST_F(Select, LayoutIsReserveThenScoreThenWindow) {
  const std::vector<double> scores = {kInf, 1, kInf, 2, kInf, 3};
  const std::vector<uint32_t> dropped = {1}, reserved = {2};
  EXPECT_THAT(layout_order(scores, head_, event_, dropped, reserved), ElementsAre(2, 5, 3, 4, 0));
}

TEST(ByPosition, OldestFirstWithoutSinks) {
  const std::vector<int32_t> pos = {70000, 3, 2147483646, 0, 2, 100};
  EXPECT_THAT(by_position(pos, 0), ElementsAre(3, 4, 1, 5, 0, 2));
  EXPECT_THAT(by_position(pos, 3), ElementsAre(1, 5, 0, 2));
}

TEST(Softmax, RunsOverTheGivenSlotsAndPastANan) {
  const std::vector<float> column = {std::log(3.0f), 50, std::numeric_limits<float>::quiet_NaN(), 0, 1000};
  const std::vector<double> p = softmax(column, std::vector<uint32_t>{3, 2, 0});
  ASSERT_EQ(p.size(), 3U);
  EXPECT_NEAR(p[0], 0.25, 1e-7);
  EXPECT_TRUE(std::isnan(p[1]));
  EXPECT_NEAR(p[2], 0.75, 1e-7);
  EXPECT_EQ(softmax(std::vector<float>{1000, 1000}, std::vector<uint32_t>{0, 1}),
            std::vector<double>(2, 0.5));
}

TEST(RaceKey, IsLogWeightPlusGumbel) {
  const double u = 0.3;
  EXPECT_DOUBLE_EQ(race_key(0.25, u, 5), std::log(0.25) - std::log(-std::log(u)));
  // The same draw as the exponential race: key = -ln(arrival time), arrival = Exp(1) / weight.
  EXPECT_NEAR(race_key(0.25, u, 5), -std::log(-std::log(u) / 0.25), 1e-14);
}

TEST(RaceKey, ZeroWeightLosesToAnyWeightAndPrefersTheNewest) {
  const double worst = race_key(std::numeric_limits<double>::denorm_min(), 0x1p-54, 0);
  EXPECT_GT(worst, -800);
  EXPECT_GT(worst, race_key(0.0, 1 - 0x1p-53, 2147483647));
  EXPECT_GT(race_key(0.0, 0.1, 8), race_key(0.0, 0.9, 7));
  EXPECT_GT(race_key(0.0, 0.1, 2147483647), race_key(0.0, 0.9, 2147483646));
}

TEST(RaceKey, NanLosesToZero) {
  EXPECT_EQ(race_key(kNan, 0.5, 3), -kInf);
  EXPECT_EQ(race_key(-kInf, 0.5, 3), -kInf);
}

}  // namespace
}  // namespace kvase

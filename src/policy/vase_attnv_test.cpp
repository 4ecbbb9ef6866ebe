// SPDX-License-Identifier: MIT
// vase-attnv: the reserve, the race, and what happens at their borders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "golden/synthetic.h"

namespace kvase {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

constexpr double kInf = std::numeric_limits<double>::infinity();

std::shared_ptr<const Policy> make(const std::string& options) {
  return parse_policy("vase-attnv" + options).policy;
}

std::set<int32_t> kept(const std::string& options, oracle::Layer& layer, const EventContext& event) {
  return synthetic::kept_positions(layer, make(options)->decide(layer.view(), event))[0];
}

// Slots with a score of +inf outside the window.
std::vector<uint32_t> reserved(const std::string& options, oracle::Layer& layer, const EventContext& event) {
  const std::vector<double> scores = make(options)->score(layer.view(), event)[0];
  std::vector<uint32_t> slots;
  for (uint32_t slot = 0; slot + event.window < scores.size(); ++slot) {
    if (scores[slot] == kInf) slots.push_back(slot);
  }
  return slots;
}

TEST(VaseAttnv, ReservesSinksThenTheLargestRanges) {
  oracle::Layer layer = synthetic::small_layer({1, 1, 1, 1, 1, 1, 1, 0}, {1, 2, 3, 9, 4, 8, 5, 99}, 6);
  EventContext event = synthetic::small_event(8, 1, 2);
  EXPECT_THAT(reserved(":n_large=4", layer, event), ElementsAre(0, 1, 3, 5));
  EXPECT_THAT(reserved(":n_large=1", layer, event), ElementsAre(0));
  EXPECT_THAT(reserved(":n_large=0", layer, event), ElementsAre());
  EXPECT_THAT(reserved(":reserve=none", layer, event), ElementsAre());
  event.n_sink = 0;
  EXPECT_THAT(reserved(":n_large=4", layer, event), ElementsAre(3, 4, 5, 6));
}

TEST(VaseAttnv, ReservesAQuarterOfTheBudgetByDefault) {
  const synthetic::Shape shape = {.length = 90, .window = 10, .budget = 51};
  oracle::Layer layer = synthetic::layer(make("")->needs(), shape);
  EXPECT_EQ(reserved("", layer, synthetic::event_of(shape)).size(), 12U);
  // Never more than there is beside the window.
  const synthetic::Shape narrow = {.length = 90, .window = 46, .budget = 51};
  oracle::Layer narrow_layer = synthetic::layer(make("")->needs(), narrow);
  EXPECT_EQ(reserved("", narrow_layer, synthetic::event_of(narrow)).size(), 5U);
}

TEST(VaseAttnv, AReserveOfAllThatStaysLeavesNothingToChance) {
  const synthetic::Shape shape;
  oracle::Layer layer = synthetic::layer(make("")->needs(), shape);
  EventContext event = synthetic::event_of(shape);
  const std::set<int32_t> first = kept(":n_large=38", layer, event);
  event.seed = 99;
  EXPECT_EQ(first, kept(":n_large=38", layer, event));
}

// Published code zeroes the reserve's weights and may then draw a reserved slot a second time.
TEST(VaseAttnv, WithoutMassTheMostRecentFillTheShortfall) {
  oracle::Layer layer = synthetic::small_layer({0, 0, 0.5f, 0, 0, 0, 0, 0}, {9, 1, 1, 1, 1, 1, 8, 0}, 6);
  const EventContext event = synthetic::small_event(8, 1);
  EXPECT_EQ(kept(":n_large=2", layer, event), (std::set<int32_t>{0, 2, 4, 5, 6, 7}));
}

TEST(VaseAttnv, TopkFillsByMass) {
  oracle::Layer layer = synthetic::small_layer({0.1f, 0.3f, 0.2f, 0.4f, 0.05f, 0}, {9, 1, 1, 1, 1, 0}, 4);
  const EventContext event = synthetic::small_event(6, 1);
  EXPECT_EQ(kept(":n_large=1,fill=topk", layer, event), (std::set<int32_t>{0, 1, 3, 5}));
}

// A reserved slot does not take part in the race, but lends its mass to its neighbours.
TEST(VaseAttnv, SmoothsBeforeTheReserveIsTakenOut) {
  oracle::Layer layer = synthetic::small_layer({0, 0, 0, 9, 0, 0, 0, 1, 0}, {1, 1, 1, 9, 1, 1, 1, 1, 0}, 4);
  const EventContext event = synthetic::small_event(9, 1);
  EXPECT_EQ(kept(":n_large=1,fill=topk,smooth=avg,kernel=3", layer, event), (std::set<int32_t>{2, 3, 4, 8}));
}

TEST(VaseAttnv, ARandomReserveHasItsOwnNoise) {
  const synthetic::Shape shape = {.length = 90, .window = 10, .budget = 48, .n_sink = 4};
  oracle::Layer layer = synthetic::layer(make("")->needs(), shape);
  EventContext event = synthetic::event_of(shape);
  const std::string options = ":reserve=random,n_large=12";
  const std::vector<uint32_t> slots = reserved(options, layer, event);
  EXPECT_EQ(slots.size(), 12U);
  for (uint32_t sink = 0; sink < 4; ++sink) EXPECT_THAT(slots, Contains(sink));
  // Not the race's winners: those would be the largest uniforms of stream `race`, which `random` keeps.
  const Verdict by_race = parse_policy("random").policy->decide(layer.view(), event);
  size_t lost = 0;
  for (const uint32_t slot : slots)
    lost += static_cast<size_t>(std::ranges::count(by_race.heads[0].drop, slot));
  EXPECT_GT(lost, 0U);
  event.event = 1;
  EXPECT_NE(slots, reserved(options, layer, event));
}

TEST(VaseAttnv, AsksForTheMagnitudeThatItUses) {
  const std::pair<const char*, std::vector<Statistic>> asked[] = {
      {"", {Statistic::mass, Statistic::v_range}},
      {":magnitude=var", {Statistic::mass, Statistic::v_var}},
      {":magnitude=l2", {Statistic::mass, Statistic::v_l2}},
      {":magnitude=absmax", {Statistic::mass, Statistic::v_absmax}},
      {":reserve=random", {Statistic::mass}},
      {":reserve=none", {Statistic::mass}},
  };
  for (const auto& [options, statistics] : asked) {
    const Needs needs = make(options)->needs();
    EXPECT_EQ(needs.statistics, statistics) << options;
    EXPECT_EQ(needs.mass, MassSpec{}) << options;
    EXPECT_FALSE(needs.rank) << options;
  }
  EXPECT_TRUE(make(":smooth=avg,axis=slot")->needs().rank);
}

TEST(VaseAttnv, LayoutIsReserveThenDrawThenWindow) {
  oracle::Layer layer = synthetic::small_layer({1, 1, 1, 4, 3, 1, 2, 0, 0}, {1, 7, 9, 1, 1, 8, 1, 0, 0}, 8);
  const EventContext event = synthetic::small_event(9, 2, 1);
  const Verdict verdict =
      make(":n_large=3,fill=topk,smooth=max,kernel=1,axis=slot")->decide(layer.view(), event);
  EXPECT_THAT(verdict.heads[0].drop, ElementsAre(1));
  EXPECT_THAT(verdict.heads[0].order, ElementsAre(0, 2, 5, 3, 4, 6, 7, 8));
}

}  // namespace
}  // namespace kvase

// SPDX-License-Identifier: MIT
// The walk of the approximate tier: what stays, what loses its value, over every base method.
#include "policy/tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "golden/golden_file.h"
#include "golden/synthetic.h"

namespace kvase {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Six slots, pos = slot, the last one is the window; slot 0 is approximate.
struct Small {
  Small() {
    pos.resize(6);
    std::iota(pos.begin(), pos.end(), 0);
    head.pos = pos;
    head.n_approximate = 1;
  }
  HeadVerdict run(const std::vector<double>& scores, const std::vector<double>& cost) const {
    return route(scores, cost, head, synthetic::small_event(6, 1), 4, 1);
  }
  std::vector<int32_t> pos;
  HeadView head;
};

// budget 4 and one recruit: 5 slots stay, 3 of them with a value.
TEST(Route, DropsTheLowestScoreAndDemotesTheLowestCost) {
  const HeadVerdict verdict = Small().run({5, 4, 3, 2, 1, 0}, {0, 4, 3, 1, 2, 0});
  EXPECT_THAT(verdict.drop, ElementsAre(4));
  EXPECT_THAT(verdict.demote, ElementsAre(3)) << "the dropped slot costs nothing, the window is not touched";
}

TEST(Route, AnApproximateSlotMayGoAndMakesRoomForAnother) {
  const HeadVerdict verdict = Small().run({0, 5, 4, 3, 2, 1}, {0, 4, 1, 3, 2, 0});
  EXPECT_THAT(verdict.drop, ElementsAre(0));
  EXPECT_THAT(verdict.demote, ElementsAre(2, 4)) << "two approximate slots, whichever they were";
}

TEST(Route, ProtectedSlotsKeepTheirValueAsLongAsOthersHaveOne) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(Small().run({5, infinity, 3, 2, 1, 0}, {0, 0, 9, 8, 7, 0}).demote, ElementsAre(3));
  EXPECT_THAT(Small().run({5, infinity, infinity, infinity, 1, 0}, {0, 2, 1, 3, 7, 0}).demote,
              ElementsAre(1));
}

TEST(Route, TiesGoToTheSmallerPosAndNanCostsMost) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(Small().run({5, 4, 3, 2, 1, 0}, {0, 1, 1, 1, 1, 1}).demote, ElementsAre(1));
  EXPECT_THAT(Small().run({5, 4, 3, 2, 1, 0}, {0, nan, 3, nan, 1, 1}).demote, ElementsAre(2));
}

// mass 1/2 of a slot whose loss is 4, mass 1 of one whose loss is 2: 1 against 2.
TEST(Tier, WeightsByTheSquaredMassUnlessTold) {
  oracle::Layer layer = synthetic::small_layer({0, 0.5F, 1, 1.5F, 2, 0}, {1, 1, 1, 1, 1, 1}, 4);
  layer.heads[0].pos = {10, 11, 12, 13, 14, 15};
  layer.heads[0][Statistic::mean_residual] = {9, 4, 2, 9, 9, 9};
  std::vector<HeadView> heads = {layer.heads[0].view()};
  const LayerView view = {.heads = heads, .budget = 4, .n_recruits = 1};
  const EventContext event = synthetic::small_event(16, 1);
  const auto demoted = [&](const char* text) {
    return parse_policy(text).policy->decide(view, event).heads[0].demote;
  };
  EXPECT_THAT(demoted("snapkv+zero"), ElementsAre(1, 2));
  heads[0].n_approximate = 1;
  EXPECT_THAT(demoted("snapkv+zero"), ElementsAre(1, 2)) << "slot 0 has the lowest mass and goes";
  layer.heads[0][Statistic::mass] = {3, 0.5F, 1, 1.5F, 2, 0};
  EXPECT_THAT(demoted("snapkv+zero"), ElementsAre(2));
  EXPECT_THAT(demoted("snapkv+zero:route=plain"), ElementsAre(2));
  layer.heads[0][Statistic::mass] = {3, 0.5F, 1, 0.4F, 2, 0};
  layer.heads[0][Statistic::mean_residual] = {9, 4, 0.5F, 9, 9, 9};
  EXPECT_THAT(demoted("snapkv+zero"), ElementsAre(2));
}

// Attention sinks, whether the base protects them or not: the cheapest of all here, and pos 1 is gone
// already.
TEST(Tier, TheFirstFourTokensKeepTheirValue) {
  oracle::Layer layer = synthetic::small_layer({9, 9, 9, 9, 8, 7, 6}, {1, 1, 1, 1, 1, 1, 1}, 5);
  layer.heads[0].pos = {0, 2, 3, 4, 5, 6, 7};
  layer.heads[0][Statistic::mean_residual] = {1, 1, 1, 4, 3, 2, 9};
  const std::vector<HeadView> heads = {layer.heads[0].view()};
  const LayerView view = {.heads = heads, .budget = 5, .n_recruits = 1};
  const Verdict verdict =
      parse_policy("snapkv+zero:route=plain").policy->decide(view, synthetic::small_event(8, 1));
  EXPECT_THAT(verdict.heads[0].demote, ElementsAre(3, 4)) << "slot 5 has the lowest mass and goes";
}

// The reference's routing, by plain and by weighted residual, for every case of the value maps' file.
TEST(Route, AgreesWithTheReference) {
  const golden::File file(golden::folder() + "/value_map.gguf");
  for (const std::string& name : file.texts("name")) {
    SCOPED_TRACE(name);
    const std::vector<int32_t> pos = file.tensor<int32_t>(name + ".pos");
    const auto scores = file.tensor<double>(name + ".score");
    const auto residual = file.tensor<double>(name + ".residual");
    const size_t n = pos.size(), n_kv_heads = scores.size() / n;
    for (const bool weighted : {false, true}) {
      const std::string prefix = name + (weighted ? ".weighted_" : ".");
      const auto exact = file.tensor<int32_t>(prefix + "exact"),
                 approx = file.tensor<int32_t>(prefix + "approx");
      const size_t n_exact = exact.size() / n_kv_heads, n_approx = approx.size() / n_kv_heads;
      ASSERT_EQ(n_approx % 2, 0U);
      for (size_t kv_head = 0; kv_head < n_kv_heads; ++kv_head) {
        std::vector<double> score(scores.begin() + static_cast<ptrdiff_t>(kv_head * n),
                                  scores.begin() + static_cast<ptrdiff_t>((kv_head + 1) * n));
        std::vector<double> cost(n);
        for (size_t slot = 0; slot < n; ++slot)
          cost[slot] = residual[kv_head * n + slot] * (weighted ? score[slot] * score[slot] : 1.0);
        for (size_t slot = 0; slot < 4; ++slot) score[slot] = std::numeric_limits<double>::infinity();
        HeadView head;
        head.pos = pos;
        const HeadVerdict verdict =
            route(score, cost, head, synthetic::small_event(static_cast<size_t>(pos.back()) + 1, 0),
                  static_cast<uint32_t>(n_exact + n_approx / 2), static_cast<uint32_t>(n_approx / 2));
        const auto slots = [&](const std::vector<int32_t>& all, size_t count) {
          const auto first = all.begin() + static_cast<ptrdiff_t>(kv_head * count);
          return std::vector<uint32_t>(first, first + static_cast<ptrdiff_t>(count));
        };
        EXPECT_EQ(verdict.demote, slots(approx, n_approx)) << "head " << kv_head;
        std::vector<uint32_t> gone = slots(exact, n_exact);
        gone.insert(gone.end(), verdict.demote.begin(), verdict.demote.end());
        gone.insert(gone.end(), verdict.drop.begin(), verdict.drop.end());
        std::ranges::sort(gone);
        std::vector<uint32_t> all(n);
        std::iota(all.begin(), all.end(), 0U);
        EXPECT_EQ(gone, all) << "what is neither exact nor approximate goes";
      }
    }
  }
}

class TierConformance : public testing::TestWithParam<std::string> {};

// Several events' worth of views of one synthetic layer: growing, full, with and without approximate slots.
TEST_P(TierConformance, LeavesTheBytesOfTheBudget) {
  const ParsedPolicy parsed = parse_policy(GetParam() + "+zero");
  const synthetic::Shape shape = {.n_sink = parsed.info.default_sinks};
  const CacheShape cache = {
      .budget = shape.budget, .interval = 64, .window = shape.window, .n_sink = shape.n_sink};
  oracle::Layer layer = synthetic::layer(parsed.policy->needs(), shape);
  const EventContext event = synthetic::event_of(shape);
  for (const uint32_t n_recruits : {1U, 7U, most_recruits(parsed, cache)}) {
    for (const uint32_t n_approximate : {0U, 2U, 2 * n_recruits}) {
      SCOPED_TRACE(testing::Message() << n_recruits << " recruits, " << n_approximate << " approximate");
      synthetic::shuffle_slots(layer, n_recruits);
      std::vector<HeadView> heads;
      for (const oracle::HeadColumns& head : layer.heads) {
        heads.push_back(head.view());
        heads.back().n_approximate = n_approximate;
      }
      const LayerView view = {
          .heads = heads, .budget = shape.budget, .n_recruits = n_recruits, .n_mass_rows = layer.n_mass_rows};
      const Verdict verdict = parsed.policy->decide(view, event);
      const Scores scores = parsed.policy->score(view, event);
      for (size_t kv_head = 0; kv_head < heads.size(); ++kv_head) {
        const auto& [drop, demote, order] = verdict.heads[kv_head];
        ASSERT_TRUE(std::ranges::is_sorted(drop) && std::ranges::is_sorted(demote));
        const size_t n_keys = shape.length - drop.size();
        EXPECT_EQ(n_keys, shape.budget + n_recruits);
        const auto n_gone = std::ranges::lower_bound(drop, n_approximate) - drop.begin();
        const size_t n_left = n_approximate - static_cast<size_t>(n_gone) + demote.size();
        EXPECT_EQ(n_left, 2 * n_recruits);
        const bool room = n_recruits <= most_recruits(parsed, cache);
        for (const uint32_t slot : demote) {
          EXPECT_GE(slot, n_approximate) << "states only move down";
          EXPECT_FALSE(std::ranges::binary_search(drop, slot));
          EXPECT_LT(heads[kv_head].pos[slot], event.n_seen - event.window) << "the window was touched";
          const bool is_protected = scores[kv_head][slot] == std::numeric_limits<double>::infinity();
          EXPECT_FALSE(room && is_protected) << "a protected slot lost its value";
          EXPECT_FALSE(room && heads[kv_head].pos[slot] < 4) << "an attention sink lost its value";
        }
        EXPECT_EQ(order.size(), parsed.policy->needs().rank ? n_keys : 0);
      }
    }
  }
}

// Without recruits nothing differs from the base: the path of a text that still fits.
TEST_P(TierConformance, WithoutRecruitsDecidesAsTheBase) {
  const ParsedPolicy base = parse_policy(GetParam());
  const ParsedPolicy tiered = parse_policy(GetParam() + "+zero");
  const synthetic::Shape shape = {.n_sink = base.info.default_sinks};
  oracle::Layer layer = synthetic::layer(tiered.policy->needs(), shape);
  const EventContext event = synthetic::event_of(shape);
  const Verdict expected = base.policy->decide(layer.view(), event);
  const Verdict verdict = tiered.policy->decide(layer.view(), event);
  for (size_t kv_head = 0; kv_head < layer.heads.size(); ++kv_head) {
    EXPECT_EQ(verdict.heads[kv_head].drop, expected.heads[kv_head].drop);
    EXPECT_THAT(verdict.heads[kv_head].demote, IsEmpty());
    EXPECT_EQ(verdict.heads[kv_head].order, expected.heads[kv_head].order);
  }
}

std::vector<std::string> bases() {
  std::vector<std::string> names = {"snapkv:smooth=max", "snapkv:smooth=avg,axis=slot",
                                    "vase-attnv:fill=topk", "vase-attnv:reserve=random",
                                    "vase-attnv:reserve=none"};
  for (const PolicyInfo& info : list_policies()) {
    if (info.name != "full") names.push_back(info.name);
  }
  return names;
}
std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}
INSTANTIATE_TEST_SUITE_P(Bases, TierConformance, testing::ValuesIn(bases()), test_name);

// VaSE's reserve is a quarter of the budget, and its values need room beside the window.
TEST(Tier, RecruitsAreHalfTheBudgetOrWhatProtectedValuesLeave) {
  const auto most = [](const char* text, uint32_t budget, uint32_t window, uint32_t n_sink = 4) {
    return most_recruits(parse_policy(text),
                         {.budget = budget, .interval = 64, .window = window, .n_sink = n_sink});
  };
  EXPECT_EQ(most("snapkv+zero", 512, 64), 256U);
  EXPECT_EQ(most("snapkv+zero", 128, 64, 0), 60U);
  EXPECT_EQ(most("vase-attnv+zero", 512, 64), 256U);
  EXPECT_EQ(most("vase-attnv+zero", 200, 64), 86U);
  EXPECT_EQ(most("vase-attnv:n_large=100+zero", 512, 64), 256U);
  EXPECT_EQ(most("vase-attnv:n_large=400+zero", 512, 64), 48U);
  EXPECT_EQ(most("vase-attnv:reserve=none+zero", 100, 64), 36U);
  try {
    most("vase-attnv:n_large=36+zero", 100, 64);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "--kv-budget 100 with vase-attnv:n_large=36+zero: found 100 slots that keep their value (window 64 "
        "+ 36 protected), allowed: fewer than the budget, and a budget of at least 2");
  }
}

}  // namespace
}  // namespace kvase

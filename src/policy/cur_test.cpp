// SPDX-License-Identifier: MIT
// curdkv, vase-dkv, cur-norms: which sketch they ask for, their scores, and ties.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "golden/golden_file.h"
#include "golden/synthetic.h"

namespace kvase {
namespace {

TEST(Cur, TheTwoMethodsDifferInTheRedraw) {
  EXPECT_EQ(parse_policy("curdkv").policy->needs().sketch, (SketchSpec{.rank = 20, .redraw = false}));
  EXPECT_EQ(parse_policy("vase-dkv").policy->needs().sketch, (SketchSpec{.rank = 20, .redraw = true}));
  EXPECT_EQ(parse_policy("vase-dkv:rank=7").policy->needs().sketch, (SketchSpec{.rank = 7, .redraw = true}));
}

// Kept sets on real keys and values, at (seed, event).
std::vector<std::set<int32_t>> kept(const char* policy, uint64_t seed, uint32_t event_number) {
  const golden::Case input = golden::read_case(golden::folder() + "/event_group3.gguf");
  const ParsedPolicy parsed = parse_policy(policy);
  EventContext event = input.event;
  event.seed = seed;
  event.event = event_number;
  event.n_sink = 4;
  oracle::Layer layer;
  layer.budget = input.budget;
  for (uint32_t kv_head = 0; kv_head < input.input.n_kv_heads; ++kv_head) {
    layer.heads.push_back(oracle::columns(
        oracle::head_input(input.input, kv_head, input.input.pos, input.input.w, input.input.w - 1),
        parsed.policy->needs(), event));
  }
  return synthetic::kept_positions(layer, parsed.policy->decide(layer.view(), event));
}

TEST(Cur, AFixedSketchOutlivesTheEventARedrawnOneDoesNot) {
  EXPECT_EQ(kept("curdkv", 1, 0), kept("curdkv", 1, 5));
  EXPECT_NE(kept("vase-dkv", 1, 0), kept("vase-dkv", 1, 5));
  EXPECT_EQ(kept("vase-dkv", 1, 0), kept("curdkv", 1, 0));
  EXPECT_NE(kept("curdkv", 1, 0), kept("curdkv", 2, 0));
  EXPECT_EQ(kept("cur-norms", 1, 0), kept("cur-norms", 2, 5));
}

TEST(Cur, ScoresSumToOneOverCandidates) {
  oracle::Layer layer = synthetic::small_layer(std::vector<float>(4), {}, 3);
  layer.heads[0][Statistic::k_l2] = {1, 2, 3, 9};
  layer.heads[0][Statistic::v_l2] = {1, 1, 2, 9};
  const Scores scores = parse_policy("cur-norms").policy->score(layer.view(), synthetic::small_event(4, 1));
  EXPECT_DOUBLE_EQ(scores[0][0], 1.0 / 41);
  EXPECT_DOUBLE_EQ(scores[0][1], 4.0 / 41);
  EXPECT_DOUBLE_EQ(scores[0][2], 36.0 / 41);
}

TEST(Cur, ANanCountsForNothing) {
  oracle::Layer layer = synthetic::small_layer(std::vector<float>(4), {}, 3);
  layer.heads[0][Statistic::k_l2] = {1, std::numeric_limits<float>::quiet_NaN(), 3, 9};
  layer.heads[0][Statistic::v_l2] = {1, 1, 1, 9};
  const auto policy = parse_policy("cur-norms").policy;
  const EventContext event = synthetic::small_event(4, 1);
  const Scores scores = policy->score(layer.view(), event);
  EXPECT_DOUBLE_EQ(scores[0][0], 0.1);
  EXPECT_DOUBLE_EQ(scores[0][2], 0.9);
  EXPECT_THAT(policy->decide(layer.view(), event).heads[0].drop, testing::ElementsAre(1));
}

float to_bf16(float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xffff0000U); }

// 512 random keys in bf16: scores in 16 bits would be equal for most tokens, and tie order would choose. In
// f32 and f64 they are not, and the kept set is that of exact arithmetic.
TEST(Cur, SixteenBitRowsDoNotTie) {
  constexpr uint32_t n = 512, head_dim = 128, budget = 128;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<double> squares;
  oracle::Layer layer = synthetic::small_layer(std::vector<float>(n), {}, budget);
  for (uint32_t slot = 0; slot < n; ++slot) {
    double square = 0;
    for (uint32_t d = 0; d < head_dim; ++d) {
      const double x = to_bf16(normal(random));
      square += x * x;
    }
    squares.push_back(square);
    layer.heads[0][Statistic::k_l2].push_back(static_cast<float>(std::sqrt(square)));
    layer.heads[0][Statistic::v_l2].push_back(1);
  }
  const EventContext event = synthetic::small_event(n, 1);
  const auto policy = parse_policy("cur-norms").policy;
  const std::vector<double> scores = policy->score(layer.view(), event)[0];
  EXPECT_GE(std::set<double>(scores.begin(), scores.end()).size(), n - 2);
  std::set<float> rounded;
  for (const double square : squares) rounded.insert(to_bf16(static_cast<float>(square)));
  EXPECT_LT(rounded.size(), n / 2) << "this input would not show the fault";

  std::vector<std::pair<double, int32_t>> best;
  for (uint32_t slot = 0; slot + 1 < n; ++slot) best.emplace_back(-squares[slot], static_cast<int32_t>(slot));
  std::ranges::sort(best);
  std::set<int32_t> expected = {n - 1};
  for (uint32_t place = 0; place < budget - 1; ++place) expected.insert(best[place].second);
  EXPECT_EQ(synthetic::kept_positions(layer, policy->decide(layer.view(), event))[0], expected);
}

}  // namespace
}  // namespace kvase

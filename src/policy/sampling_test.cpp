// SPDX-License-Identifier: MIT
// Random choices: Philox against its published answers, uniforms, the law of sampling without replacement.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "golden/synthetic.h"
#include "policy/select.h"

namespace kvase {
namespace {

using testing::ElementsAre;

TEST(Philox, KnownAnswers) {
  EXPECT_THAT(philox4x32({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  const uint32_t ones = 0xffffffff;
  EXPECT_THAT(philox4x32({ones, ones, ones, ones}, {ones, ones}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Uniform, LiesInTheOpenInterval) {
  EXPECT_EQ(uniform53(0, 0), 0x1p-54);
  EXPECT_EQ(uniform53(0xffffffff, 0xffffffff), 1 - 0x1p-53);
  double sum = 0;
  for (uint32_t index = 0; index < 20000; ++index) {
    const double u = noise_uniform({.seed = 1}, NoiseStream::race, index);
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 20000, 0.5, 0.01);
}

// Weights, then the law of the first and second draw: w_a, and w_a w_b / (1 - w_a). 20,000 events, standard
// error 0.0035.
TEST(Sampling, DrawsFollowTheWeights) {
  constexpr std::array<double, 4> weights = {0.5, 0.25, 0.15, 0.1};
  constexpr uint32_t n_events = 20000;
  const ParsedPolicy parsed = parse_policy("vase-attnv:reserve=none");
  oracle::Layer layer = synthetic::small_layer({0.5f, 0.25f, 0.15f, 0.1f, 0}, {}, 3);
  const LayerView view = layer.view();
  EventContext event = synthetic::small_event(5, 1);

  std::array<std::array<double, 4>, 4> pairs{};
  std::array<double, 4> included{};
  for (event.event = 0; event.event < n_events; ++event.event) {
    const std::vector<double> keys = parsed.policy->score(view, event)[0];
    const std::vector<uint32_t> order = best_first({0, 1, 2, 3}, keys, view.heads[0].pos, 4);
    pairs[order[0]][order[1]] += 1.0 / n_events;
    const std::vector<uint32_t> drop = parsed.policy->decide(view, event).heads[0].drop;
    for (uint32_t slot = 0; slot < 4; ++slot)
      included[slot] += std::ranges::count(drop, slot) == 0 ? 1.0 / n_events : 0;
  }
  for (size_t a = 0; a < 4; ++a) {
    double first = 0, either = weights[a];
    for (size_t b = 0; b < 4; ++b) {
      first += pairs[a][b];
      if (a == b) continue;
      EXPECT_NEAR(pairs[a][b], weights[a] * weights[b] / (1 - weights[a]), 0.015) << a << " then " << b;
      either += weights[b] * weights[a] / (1 - weights[b]);
    }
    EXPECT_NEAR(first, weights[a], 0.015) << a;
    EXPECT_NEAR(included[a], either, 0.015) << a;
  }
}

TEST(Sampling, OnlyRatiosOfWeightsMatter) {
  const ParsedPolicy parsed = parse_policy("vase-attnv:reserve=none");
  const synthetic::Shape shape;
  oracle::Layer layer = synthetic::layer(parsed.policy->needs(), shape);
  const EventContext event = synthetic::event_of(shape);
  const auto kept = synthetic::kept_positions(layer, parsed.policy->decide(layer.view(), event));
  for (oracle::HeadColumns& head : layer.heads) {
    for (float& mass : head[Statistic::mass]) mass *= 0x1p-40f;
  }
  EXPECT_EQ(kept, synthetic::kept_positions(layer, parsed.policy->decide(layer.view(), event)));
}

// Random keeps every candidate equally often.
TEST(Sampling, RandomIsUniform) {
  const ParsedPolicy parsed = parse_policy("random");
  oracle::Layer layer = synthetic::small_layer({0, 0, 0, 0, 0, 0}, {}, 3);
  const LayerView view = layer.view();
  EventContext event = synthetic::small_event(6, 1);
  std::array<double, 5> included{};
  for (event.event = 0; event.event < 10000; ++event.event) {
    const std::vector<uint32_t> drop = parsed.policy->decide(view, event).heads[0].drop;
    for (uint32_t slot = 0; slot < 5; ++slot)
      included[slot] += std::ranges::count(drop, slot) == 0 ? 1e-4 : 0;
  }
  for (const double share : included) EXPECT_NEAR(share, 0.4, 0.02);
}

}  // namespace
}  // namespace kvase

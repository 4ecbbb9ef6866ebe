// SPDX-License-Identifier: MIT
// An observer of events sees what the policy saw and what the cache then holds, and changes nothing.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "system/policies.h"

namespace kvase {
namespace {

constexpr Shape kShape = {40, 16};

// Positions that stay, per (layer, KV head), by what the observer was shown last.
struct Watch {
  std::map<std::pair<uint32_t, uint32_t>, std::set<int32_t>> held;
  std::vector<EventContext> events;

  void see(const LayerEvent& seen) {
    events.push_back(seen.event);
    for (uint32_t kv_head = 0; kv_head < seen.layer.heads.size(); ++kv_head) {
      const HeadView& head = seen.layer.heads[kv_head];
      std::set<int32_t>& positions = held[{seen.event.layer, kv_head}];
      positions = {head.pos.begin(), head.pos.end()};
      for (const uint32_t slot : seen.verdict.heads[kv_head].drop) positions.erase(head.pos[slot]);
    }
  }
};

class Observed : public testing::TestWithParam<std::string> {};

TEST_P(Observed, EventsAreThoseOfTheCacheAndTheTextIsTheSame) {
  const std::vector<Token> prompt = random_tokens(90, toy_model().info().n_vocab, 6);
  EngineOptions options = options_for(GetParam(), kShape);
  Engine unobserved(toy_model(), options);
  options.cache.observed_statistics = {Statistic::v_range};
  options.n_threads = 2;
  Engine engine(toy_model(), options);
  Watch watch;
  std::vector<std::string> faults;
  engine.observe_events([&](const LayerEvent& seen) {
    watch.see(seen);
    for (uint32_t kv_head = 0; kv_head < seen.layer.heads.size(); ++kv_head) {
      const HeadView& head = seen.layer.heads[kv_head];
      if (seen.scores[kv_head].size() != head.length()) faults.emplace_back("scores");
      if (head[Statistic::v_range].size() != head.length()) faults.emplace_back("v_range");
      for (const int32_t pos : engine.kept_positions(seen.sequence, seen.event.layer, kv_head)) {
        if (std::ranges::find(head.pos, pos) == head.pos.end()) faults.emplace_back("shown after the cut");
      }
    }
  });

  const SequenceId sequence = engine.open({.seed = 5});
  std::vector<Token> tokens;
  std::vector<float> logits = feed(engine, sequence, prompt);
  for (size_t index = 0; index < 40; ++index) {
    tokens.push_back(best(logits));
    logits = feed(engine, sequence, std::span(tokens).last(1));
  }
  EXPECT_EQ(tokens, greedy(unobserved, prompt, 40, {.seed = 5}));
  EXPECT_TRUE(faults.empty()) << faults.size() << ", first: " << faults[0];

  const uint32_t n_layers = toy_model().info().n_layers;
  EXPECT_EQ(watch.held.size(), n_layers * toy_model().info().n_kv_heads);
  std::map<uint32_t, int64_t> last_event;  // n_seen, per layer
  std::map<uint32_t, uint32_t> n_events;
  for (const EventContext& event : watch.events) {
    EXPECT_EQ(event.event, n_events[event.layer]++);
    EXPECT_GT(event.n_seen, last_event[event.layer]);
    last_event[event.layer] = event.n_seen;
  }
  const auto in_order = [](const EventContext& event) { return std::tuple(event.n_seen, event.layer); };
  EXPECT_TRUE(std::ranges::is_sorted(watch.events, {}, in_order));
  EXPECT_EQ(engine.state(sequence).n_evictions, std::max(n_events[0], n_events[n_layers - 1]));
  for (auto& [place, positions] : watch.held) {
    for (int64_t pos = last_event[place.first]; pos < engine.state(sequence).n_seen; ++pos)
      positions.insert(static_cast<int32_t>(pos));
    EXPECT_EQ(std::vector<int32_t>(positions.begin(), positions.end()),
              engine.kept_positions(sequence, place.first, place.second))
        << "layer " << place.first << " KV head " << place.second;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Observed, testing::ValuesIn(evicting_policies()), test_name);

TEST(Observer, ObservedStatisticsAreOfTheTokenAndCounted) {
  EngineOptions options = options_for("window", kShape);
  const size_t side_bytes = Engine(toy_model(), options).plan().side_bytes;
  options.cache.observed_statistics = {Statistic::v_range, Statistic::mass, Statistic::k_mean_cos};
  Engine engine(toy_model(), options);
  const ModelInfo& info = toy_model().info();
  EXPECT_EQ(engine.plan().side_bytes,
            side_bytes + 2 * sizeof(float) * engine.plan().capacity * info.n_layers * info.n_kv_heads);
  EXPECT_EQ(plan_memory(info, options.cache).side_bytes, engine.plan().side_bytes);

  std::map<std::tuple<uint32_t, uint32_t, int32_t>, float> range_of;
  size_t n_seen_again = 0;
  float most_mass = 0;
  engine.observe_events([&](const LayerEvent& seen) {
    for (uint32_t kv_head = 0; kv_head < seen.layer.heads.size(); ++kv_head) {
      const HeadView& head = seen.layer.heads[kv_head];
      for (size_t slot = 0; slot < head.length(); ++slot) {
        const float range = head[Statistic::v_range][slot];
        const auto [known, is_new] = range_of.insert({{seen.event.layer, kv_head, head.pos[slot]}, range});
        if (!is_new) ++n_seen_again;
        EXPECT_EQ(known->second, range);
        EXPECT_GT(range, 0);
        most_mass = std::max(most_mass, head[Statistic::mass][slot]);
        EXPECT_LE(std::abs(head[Statistic::k_mean_cos][slot]), 1.001F);
      }
    }
  });
  feed(engine, engine.open({}), random_tokens(150, info.n_vocab, 1));
  EXPECT_GT(n_seen_again, 0U);
  EXPECT_GT(most_mass, 0);
}

TEST(Observer, TellsSequencesApartAndCanBeTakenAway) {
  Engine engine(toy_model(), options_for("random", kShape, 2));
  std::map<SequenceId, uint32_t> n_events;
  std::map<SequenceId, uint64_t> seeds;
  engine.observe_events([&](const LayerEvent& seen) {
    ++n_events[seen.sequence];
    seeds[seen.sequence] = seen.event.seed;
  });
  const SequenceId first = engine.open({.seed = 3});
  const SequenceId second = engine.open({.seed = 4});
  const std::vector<Token> tokens = random_tokens(100, toy_model().info().n_vocab, 2);
  feed(engine, first, tokens);
  feed(engine, second, std::span(tokens).first(60));
  EXPECT_EQ(n_events[first], toy_model().info().n_layers * 3);
  EXPECT_EQ(n_events[second], toy_model().info().n_layers);
  EXPECT_EQ(seeds[first], 3U);
  EXPECT_EQ(seeds[second], 4U);
  engine.observe_events({});
  feed(engine, first, tokens);
  EXPECT_EQ(n_events[first], toy_model().info().n_layers * 3) << "no longer observed";
}

TEST(Observer, WhatItThrowsComesOut) {
  Engine engine(toy_model(), options_for("window", kShape));
  engine.observe_events([](const LayerEvent&) { throw std::runtime_error("enough"); });
  const SequenceId sequence = engine.open({});
  const std::vector<Token> tokens = random_tokens(60, toy_model().info().n_vocab, 2);
  EXPECT_THROW(feed(engine, sequence, tokens), std::runtime_error);
  engine.close(sequence);
  engine.observe_events({});
  feed(engine, engine.open({}), tokens);
}

TEST(Observer, RefusesStatisticsThatNoEventCouldShow) {
  EngineOptions options = options_for("full", kShape);
  options.cache.observed_statistics = {Statistic::v_range};
  const auto message = [&] {
    try {
      plan_memory(toy_model().info(), options.cache);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message(), "observed_statistics: found 1 with full, allowed: none where nothing is evicted");
  options.cache.policy = "window";
  options.cache.observed_statistics = {Statistic::mass};
  options.cache.window = 0;
  EXPECT_EQ(message(), "--kv-window 0, allowed: 1..16 where mass is observed");
}

}  // namespace
}  // namespace kvase

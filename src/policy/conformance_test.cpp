// SPDX-License-Identifier: MIT
// What holds for every method in the table, whatever the numbers: exactly `budget` slots stay, the window and
// the sinks among them, and the choice depends on positions, never on slots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "golden/synthetic.h"
#include "kvase/policy.h"
#include "policy/shape.h"

namespace kvase {
namespace {

using synthetic::Shape;

// Every method as it comes, and those whose options change the path through the code.
std::vector<std::string> policy_strings() {
  std::vector<std::string> strings;
  for (const PolicyInfo& info : list_policies()) strings.push_back(info.name);
  const char* variants[] = {
      "streaming-llm:sinks=0",
      "random:sinks=4",
      "snapkv:domain=all,smooth=avg",
      "snapkv:smooth=max,kernel=7",
      "snapkv:smooth=max,smooth_on=group",
      "snapkv:smooth=avg,axis=slot,sinks=4",
      "snapkv:group=max-logit",
      "vase-attnv:n_large=0",
      "vase-attnv:n_large=1",
      "vase-attnv:n_large=5",
      "vase-attnv:reserve=none",
      "vase-attnv:reserve=random",
      "vase-attnv:fill=topk",
      "vase-attnv:magnitude=absmax",
      "vase-attnv:smooth=avg",
      "vase-attnv:smooth=avg,axis=slot",
      "vase-attnv:smooth=max,fill=topk,axis=slot",
      "vase-dkv:rank=1",
      "lagkv:lag=16,sinks=4",
      "lagkv:lag=16,cross=yes",
      "rkv:lambda=0",
      "rkv:smooth=none,lambda=1",
      "rkv:axis=slot",
      "rkv-vase:smooth=avg,axis=slot,sinks=4",
      "rkv-vase:smooth=max",
      "h2o:sinks=4",
      "tova:sinks=4",
  };
  strings.insert(strings.end(), std::begin(variants), std::end(variants));
  return strings;
}

// vase-attnv has its sinks in the reserve, so as many as fit there; every other method protects all of them.
uint32_t n_protected_sinks(const ParsedPolicy& parsed, const Shape& shape) {
  if (parsed.info.name != "vase-attnv") return shape.n_sink;
  if (parsed.text.find("reserve=none") != std::string::npos) return 0;
  const size_t n_large = parsed.text.find("n_large=");
  const uint32_t reserved = n_large == std::string::npos
                                ? std::min(shape.budget / 4, shape.budget - shape.window)
                                : static_cast<uint32_t>(std::stoul(parsed.text.substr(n_large + 8)));
  return std::min(shape.n_sink, reserved);
}

class Conformance : public testing::TestWithParam<std::string> {
 protected:
  Conformance() : parsed_(parse_policy(GetParam())), needs_(parsed_.policy->needs()) {}

  // The shape with this method's sinks, checked as the engine checks it.
  Shape fitted(Shape shape) const {
    shape.n_sink = parsed_.n_sink.value_or(parsed_.info.default_sinks);
    check_shape(parsed_,
                {.budget = shape.budget, .interval = 64, .window = shape.window, .n_sink = shape.n_sink});
    return shape;
  }

  void expect_valid(oracle::Layer& layer, const Shape& shape) const {
    const EventContext event = synthetic::event_of(shape);
    const LayerView view = layer.view();
    const Verdict verdict = parsed_.policy->decide(view, event);
    ASSERT_EQ(verdict.heads.size(), shape.n_kv_heads);
    for (size_t kv_head = 0; kv_head < shape.n_kv_heads; ++kv_head) {
      SCOPED_TRACE(testing::Message() << "head " << kv_head);
      expect_valid_head(verdict.heads[kv_head], layer.heads[kv_head], shape, event);
    }
    expect_valid_scores(parsed_.policy->score(view, event), layer, event);
  }

  void expect_valid_head(const HeadVerdict& verdict, const oracle::HeadColumns& head, const Shape& shape,
                         const EventContext& event) const {
    const std::set<uint32_t> dropped(verdict.drop.begin(), verdict.drop.end());
    EXPECT_EQ(dropped.size(), verdict.drop.size()) << "a slot dropped twice";
    EXPECT_TRUE(std::ranges::is_sorted(verdict.drop));
    EXPECT_TRUE(verdict.demote.empty());
    for (const uint32_t slot : dropped) ASSERT_LT(slot, shape.length);
    const uint32_t wanted = parsed_.policy->evicts() ? std::min(shape.budget, shape.length) : shape.length;
    EXPECT_EQ(shape.length - dropped.size(), wanted);
    const int64_t n_sink = n_protected_sinks(parsed_, shape);
    for (const uint32_t slot : dropped) {
      EXPECT_LT(head.pos[slot], event.n_seen - event.window) << "the window was touched";
      EXPECT_GE(head.pos[slot], n_sink) << "a sink was dropped";
    }
    if (!needs_.rank) {
      EXPECT_TRUE(verdict.order.empty());
      return;
    }
    std::vector<uint32_t> kept;
    for (uint32_t slot = 0; slot < shape.length; ++slot) {
      if (!dropped.contains(slot)) kept.push_back(slot);
    }
    EXPECT_THAT(verdict.order, testing::UnorderedElementsAreArray(kept));
  }

  static void expect_valid_scores(const Scores& scores, const oracle::Layer& layer,
                                  const EventContext& event) {
    ASSERT_EQ(scores.size(), layer.heads.size());
    for (size_t kv_head = 0; kv_head < scores.size(); ++kv_head) {
      const std::vector<int32_t>& pos = layer.heads[kv_head].pos;
      ASSERT_EQ(scores[kv_head].size(), pos.size());
      for (size_t slot = 0; slot < pos.size(); ++slot) {
        if (pos[slot] < event.n_seen - event.window) continue;
        EXPECT_EQ(scores[kv_head][slot], std::numeric_limits<double>::infinity()) << "pos " << pos[slot];
      }
    }
  }

  // Sets every column of every head by f(head, statistic, index).
  template <typename F>
  void fill(oracle::Layer& layer, F f) const {
    for (oracle::HeadColumns& head : layer.heads) {
      for (const Statistic statistic : needs_.statistics) {
        for (size_t index = 0; index < head[statistic].size(); ++index) {
          head[statistic][index] = f(head, statistic, index);
        }
      }
    }
  }

  ParsedPolicy parsed_;
  Needs needs_;
};

TEST_P(Conformance, KeepsExactlyTheBudget) {
  const Shape shapes[] = {
      {},
      {.n_kv_heads = 1, .group = 1},
      {.n_kv_heads = 8, .group = 1, .length = 57, .window = 3, .budget = 31},
      {.n_kv_heads = 1, .group = 7, .length = 49},  // length = budget + 1
      {.length = 61, .window = 1, .budget = 29},
      {.length = 200, .window = 40, .budget = 45},  // almost all of the budget is window
      {.length = 48},                               // length = budget: nothing goes
      {.length = 30},                               // length < budget
  };
  for (const Shape& base : shapes) {
    const Shape shape = fitted(base);
    SCOPED_TRACE(testing::Message() << "length " << shape.length << " budget " << shape.budget);
    oracle::Layer layer = synthetic::layer(needs_, shape);
    expect_valid(layer, shape);
    synthetic::shuffle_slots(layer, 3);
    expect_valid(layer, shape);
  }
}

TEST_P(Conformance, WorksAtTheSmallestBudget) {
  if (GetParam().find("n_large=5") != std::string::npos) {
    EXPECT_THROW(fitted({.budget = 14}), Error);  // 4 slots beside the window
    return;
  }
  const uint32_t n_sink = parsed_.n_sink.value_or(parsed_.info.default_sinks);
  const Shape shape = fitted({.budget = 10 + n_sink + 1});
  oracle::Layer layer = synthetic::layer(needs_, shape);
  expect_valid(layer, shape);
}

TEST_P(Conformance, SurvivesStrangeNumbers) {
  const Shape shape = fitted({});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  oracle::Layer layer = synthetic::layer(needs_, shape);
  for (const float value : {0.0f, 1.0f, nan, infinity, std::numeric_limits<float>::denorm_min()}) {
    SCOPED_TRACE(testing::Message() << "all equal " << value);
    fill(layer, [&](const oracle::HeadColumns&, Statistic, size_t) { return value; });
    expect_valid(layer, shape);
  }
  for (const float value : {1.0f, nan, infinity}) {
    SCOPED_TRACE(testing::Message() << "one slot " << value << ", the rest 0");
    fill(layer,
         [&](const oracle::HeadColumns&, Statistic, size_t index) { return index == 20 ? value : 0.0f; });
    expect_valid(layer, shape);
  }
}

TEST_P(Conformance, NanGoesFirst) {
  const Shape shape = fitted({});
  oracle::Layer layer = synthetic::layer(needs_, shape);
  for (oracle::HeadColumns& head : layer.heads) {
    for (const Statistic statistic : needs_.statistics) {
      for (size_t index = 30; index < head[statistic].size(); index += shape.length) {
        head[statistic][index] = std::numeric_limits<float>::quiet_NaN();
      }
    }
  }
  expect_valid(layer, shape);
  const Verdict verdict = parsed_.policy->decide(layer.view(), synthetic::event_of(shape));
  // Not where nothing looks at columns (90 slots are less than two partitions of lagkv), where a maximum over
  // neighbours hides the NaN, or where a slot is reserved by chance.
  const bool may_stay =
      needs_.statistics.empty() || GetParam() == "lagkv" ||
      (GetParam().find("smooth=max") != std::string::npos && !parsed_.info.name.starts_with("rkv")) ||
      GetParam().find("reserve=random") != std::string::npos;
  if (may_stay) return;
  for (const HeadVerdict& head : verdict.heads) EXPECT_THAT(head.drop, testing::Contains(30U));
}

TEST_P(Conformance, EqualColumnsAreToldApartByPosition) {
  const Shape shape = fitted({});
  oracle::Layer layer = synthetic::layer(needs_, shape);
  fill(layer, [](const oracle::HeadColumns&, Statistic, size_t) { return 1.0f; });
  const EventContext event = synthetic::event_of(shape);
  const auto kept = synthetic::kept_positions(layer, parsed_.policy->decide(layer.view(), event));
  synthetic::shuffle_slots(layer, 11);
  EXPECT_EQ(kept, synthetic::kept_positions(layer, parsed_.policy->decide(layer.view(), event)));
}

// Only `pos` and the columns count: nothing may read age or sink-ness from a slot number.
TEST_P(Conformance, SlotOrderDoesNotMatter) {
  const Shape shape = fitted({});
  const EventContext event = synthetic::event_of(shape);
  oracle::Layer layer = synthetic::layer(needs_, shape);
  const auto kept = synthetic::kept_positions(layer, parsed_.policy->decide(layer.view(), event));
  for (uint32_t seed = 0; seed < 5; ++seed) {
    synthetic::shuffle_slots(layer, seed);
    EXPECT_EQ(kept, synthetic::kept_positions(layer, parsed_.policy->decide(layer.view(), event)));
  }
}

TEST_P(Conformance, SameKeySameChoice) {
  const Shape shape = fitted({});
  oracle::Layer layer = synthetic::layer(needs_, shape);
  const EventContext event = synthetic::event_of(shape);
  const auto choice = [&](const EventContext& at) {
    return synthetic::kept_positions(layer, parsed_.policy->decide(layer.view(), at));
  };
  EXPECT_EQ(choice(event), choice(event));

  const bool draws = parsed_.info.name == "random" ||
                     (parsed_.info.name == "vase-attnv" && GetParam().find("fill=topk") == std::string::npos);
  EventContext other[5] = {event, event, event, event, event};
  other[0].seed = 2;
  other[1].seed += uint64_t{1} << 32;
  other[2].sequence = 1;
  other[3].layer = 1;
  other[4].event = 1;
  for (const EventContext& at : other) EXPECT_EQ(choice(at) != choice(event), draws);
}

TEST_P(Conformance, HeadsDrawIndependently) {
  const Shape shape = fitted({});
  oracle::Layer layer = synthetic::layer(needs_, shape);
  layer.heads[1] = layer.heads[0];
  const auto kept =
      synthetic::kept_positions(layer, parsed_.policy->decide(layer.view(), synthetic::event_of(shape)));
  const bool draws = parsed_.info.name == "random" ||
                     GetParam().find("reserve=random") != std::string::npos ||
                     (parsed_.info.name == "vase-attnv" && GetParam().find("fill=topk") == std::string::npos);
  EXPECT_EQ(kept[0] != kept[1], draws);
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}
INSTANTIATE_TEST_SUITE_P(Policies, Conformance, testing::ValuesIn(policy_strings()), test_name);

}  // namespace
}  // namespace kvase

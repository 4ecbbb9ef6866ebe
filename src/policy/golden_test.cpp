// SPDX-License-Identifier: MIT
// Every method against the independent reference: noise, scores, kept sets, layout, ten events in a row.
#include "golden/golden_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "golden/oracle.h"
#include "policy/select.h"

namespace kvase {
namespace {

using Kept = std::vector<std::vector<int32_t>>;  // per KV head

// Rows of `width` from a flat array.
Kept rows(const std::vector<int32_t>& flat, size_t width, size_t first, size_t count) {
  Kept result;
  for (size_t row = first; row < first + count; ++row) {
    const auto begin = flat.begin() + static_cast<ptrdiff_t>(row * width);
    result.emplace_back(begin, begin + static_cast<ptrdiff_t>(width));
  }
  return result;
}

std::vector<int32_t> kept_slots(size_t length, const HeadVerdict& verdict) {
  const std::set<uint32_t> dropped(verdict.drop.begin(), verdict.drop.end());
  std::vector<int32_t> kept;
  for (uint32_t slot = 0; slot < length; ++slot) {
    if (!dropped.contains(slot)) kept.push_back(static_cast<int32_t>(slot));
  }
  return kept;
}

EventContext event_for(const golden::Case& golden_case, const ParsedPolicy& parsed) {
  EventContext event = golden_case.event;
  event.n_sink = parsed.n_sink.value_or(parsed.info.default_sinks);
  return event;
}

// Infinities must be equal.
void expect_scores(const Scores& scores, const std::vector<double>& expected, const std::string& method) {
  const size_t length = scores[0].size();
  for (size_t kv_head = 0; kv_head < scores.size(); ++kv_head) {
    for (size_t slot = 0; slot < length; ++slot) {
      const double found = scores[kv_head][slot], wanted = expected[kv_head * length + slot];
      if (std::isinf(wanted) || std::isinf(found)) {
        EXPECT_EQ(found, wanted) << "head " << kv_head << " slot " << slot;
      } else {
        EXPECT_NEAR(found, wanted, golden::tolerance(method, wanted))
            << "head " << kv_head << " slot " << slot;
      }
    }
  }
  EXPECT_EQ(scores.size() * length, expected.size());
}

class GoldenEvent : public testing::TestWithParam<std::string> {};
class GoldenRun : public testing::TestWithParam<std::string> {};

void check_event(const golden::Case& golden_case, const golden::Expectation& expected) {
  const ParsedPolicy parsed = parse_policy(expected.policy);
  const Needs needs = parsed.policy->needs();
  const EventContext event = event_for(golden_case, parsed);
  const ScoreInput& input = golden_case.input;

  std::vector<int32_t> tokens(input.n);
  for (uint32_t token = 0; token < input.n; ++token) tokens[token] = static_cast<int32_t>(token);
  oracle::Layer layer;
  layer.budget = golden_case.budget;
  layer.n_mass_rows = oracle::mass_rows(needs, input);
  for (uint32_t kv_head = 0; kv_head < input.n_kv_heads; ++kv_head) {
    layer.heads.push_back(
        oracle::columns(oracle::head_input(input, kv_head, tokens, input.w, input.w - 1), needs, event));
  }
  const LayerView view = layer.view();

  if (!expected.scores.empty())
    expect_scores(parsed.policy->score(view, event), expected.scores, parsed.info.name);
  const Verdict verdict = parsed.policy->decide(view, event);
  ASSERT_EQ(verdict.heads.size(), input.n_kv_heads);
  const Kept keep = rows(expected.keep, expected.keep.size() / input.n_kv_heads, 0, input.n_kv_heads);
  for (uint32_t kv_head = 0; kv_head < input.n_kv_heads; ++kv_head) {
    EXPECT_EQ(kept_slots(input.n, verdict.heads[kv_head]), keep[kv_head]) << "head " << kv_head;
    EXPECT_EQ(verdict.heads[kv_head].order.empty(), expected.order.empty());
    if (expected.order.empty()) continue;
    const std::vector<uint32_t>& order = verdict.heads[kv_head].order;
    EXPECT_EQ(std::vector<int32_t>(order.begin(), order.end()),
              rows(expected.order, golden_case.budget, kv_head, 1)[0])
        << "head " << kv_head;
  }
}

// One KV head's slots as the cache keeps them: holes are filled, so that slots lie in no order.
struct RunHead {
  std::vector<int32_t> pos, rank;
  std::vector<float> mass;  // of the queries before the last event

  void append(int32_t token) {
    rank.push_back(static_cast<int32_t>(pos.size()));
    pos.push_back(token);
    mass.push_back(0);
  }

  // Mass of all queries is what came since the last event, and what was there.
  void carry_mass(std::vector<float>& column) {
    for (size_t slot = 0; slot < column.size(); ++slot) column[slot] += mass[slot];
    mass = column;
  }

  void compact(const HeadVerdict& verdict) {
    for (size_t place = 0; place < verdict.order.size(); ++place)
      rank[verdict.order[place]] = static_cast<int32_t>(place);
    const std::set<uint32_t> dropped(verdict.drop.begin(), verdict.drop.end());
    for (const uint32_t hole : verdict.drop) {
      while (pos.size() > hole && dropped.contains(static_cast<uint32_t>(pos.size() - 1))) pop();
      if (hole >= pos.size()) break;
      pos[hole] = pos.back();
      rank[hole] = rank.back();
      mass[hole] = mass.back();
      pop();
    }
  }

  std::vector<int32_t> sorted_pos() const {
    std::vector<int32_t> sorted = pos;
    std::ranges::sort(sorted);
    return sorted;
  }

 private:
  void pop() {
    pos.pop_back();
    rank.pop_back();
    mass.pop_back();
  }
};

void check_run(const golden::Case& golden_case, const golden::Expectation& expected) {
  const ParsedPolicy parsed = parse_policy(expected.policy);
  const Needs needs = parsed.policy->needs();
  const ScoreInput& input = golden_case.input;
  const uint32_t budget = golden_case.budget, n_heads = input.n_kv_heads;
  const size_t n_events = expected.keep.size() / (size_t{budget} * n_heads);
  ASSERT_EQ(n_events, 10U);

  std::vector<RunHead> heads(n_heads);
  EventContext event = event_for(golden_case, parsed);
  event.n_seen = 0;
  for (int32_t token = 0; token < static_cast<int32_t>(input.n); ++token) {
    for (RunHead& head : heads) head.append(token);
    if (heads[0].pos.size() < budget + golden_case.interval) continue;

    const bool carries = needs.mass.queries == MassSpec::Queries::all;
    const auto n_queries = carries ? static_cast<uint32_t>(token + 1 - event.n_seen) : golden_case.window;
    event.n_seen = token + int64_t{1};
    oracle::Layer layer;
    layer.budget = budget;
    layer.n_mass_rows = oracle::mass_rows(needs, input);
    for (uint32_t kv_head = 0; kv_head < n_heads; ++kv_head) {
      const oracle::HeadInput head =
          oracle::head_input(input, kv_head, heads[kv_head].pos, n_queries, static_cast<size_t>(token));
      layer.heads.push_back(oracle::columns(head, needs, event));
      if (carries) heads[kv_head].carry_mass(layer.heads.back()[Statistic::mass]);
      layer.heads.back().rank = heads[kv_head].rank;
    }
    const Verdict verdict = parsed.policy->decide(layer.view(), event);

    const Kept keep = rows(expected.keep, budget, size_t{event.event} * n_heads, n_heads);
    for (uint32_t kv_head = 0; kv_head < n_heads; ++kv_head) {
      std::vector<int32_t> order;
      for (const uint32_t slot : verdict.heads[kv_head].order) order.push_back(heads[kv_head].pos[slot]);
      if (!expected.order.empty()) {
        ASSERT_EQ(order, rows(expected.order, budget, size_t{event.event} * n_heads + kv_head, 1)[0])
            << "event " << event.event << " head " << kv_head;
      }
      heads[kv_head].compact(verdict.heads[kv_head]);
      ASSERT_EQ(heads[kv_head].sorted_pos(), keep[kv_head]) << "event " << event.event << " head " << kv_head;
    }
    ++event.event;
  }
  EXPECT_EQ(event.event, n_events);
}

TEST_P(GoldenEvent, EveryPolicyAgreesWithTheReference) {
  const golden::Case golden_case = golden::read_case(GetParam());
  ASSERT_FALSE(golden_case.expected.empty());
  for (const golden::Expectation& expected : golden_case.expected) {
    SCOPED_TRACE(golden_case.file + ": " + expected.name + " = " + expected.policy);
    check_event(golden_case, expected);
  }
}

TEST_P(GoldenRun, TenEventsAgreeWithTheReference) {
  const golden::Case golden_case = golden::read_case(GetParam());
  ASSERT_FALSE(golden_case.expected.empty());
  for (const golden::Expectation& expected : golden_case.expected) {
    SCOPED_TRACE(golden_case.file + ": " + expected.name + " = " + expected.policy);
    check_run(golden_case, expected);
  }
}

TEST_P(GoldenEvent, NoiseAgreesWithTheReference) {
  const golden::File file(GetParam());
  const golden::Case golden_case = golden::read_case(GetParam());
  const std::vector<double> uniform = file.tensor<double>("noise.uniform");
  const std::vector<double> gumbel = file.tensor<double>("noise.gumbel");
  const std::vector<double> gauss = file.tensor<double>("noise.gauss");

  for (size_t token = 0; token < uniform.size(); ++token) {
    const int32_t pos = golden_case.input.pos[token];
    const double u =
        noise_uniform(noise_key(golden_case.event, 0), NoiseStream::race, static_cast<uint32_t>(pos));
    EXPECT_EQ(u, uniform[token]);
    EXPECT_NEAR(race_key(1.0, u, pos), gumbel[token], 1e-12);
  }
  const std::vector<double> matrix =
      oracle::sketch_matrix(SketchSpec{}, golden_case.event, golden_case.input.head_dim);
  ASSERT_EQ(matrix.size(), gauss.size());
  for (size_t index = 0; index < gauss.size(); ++index) EXPECT_NEAR(matrix[index], gauss[index], 1e-12);
}

// What the golden files must cover, so that a lost file or row is noticed.
TEST(GoldenFiles, CoverEveryMethod) {
  std::set<std::string> methods;
  size_t n_rows = 0;
  std::vector<std::string> paths = golden::files("event");
  std::ranges::copy(golden::files("run"), std::back_inserter(paths));
  for (const std::string& path : paths) {
    for (const golden::Expectation& expected : golden::read_case(path).expected) {
      methods.insert(parse_policy(expected.policy).info.name);
      ++n_rows;
    }
  }
  EXPECT_EQ(methods,
            (std::set<std::string>{"full", "window", "streaming-llm", "random", "snapkv", "vase-attnv",
                                   "vase-dkv", "curdkv", "cur-norms", "evict-large", "knorm", "keydiff",
                                   "lagkv", "rkv", "rkv-vase", "cur-exact", "leverage", "h2o", "tova"}));
  EXPECT_GE(n_rows, 170U);
}

std::string file_name(const testing::TestParamInfo<std::string>& info) {
  return std::filesystem::path(info.param).stem().string();
}
INSTANTIATE_TEST_SUITE_P(Files, GoldenEvent, testing::ValuesIn(golden::files("event")), file_name);
INSTANTIATE_TEST_SUITE_P(Files, GoldenRun, testing::ValuesIn(golden::files("run")), file_name);

}  // namespace
}  // namespace kvase

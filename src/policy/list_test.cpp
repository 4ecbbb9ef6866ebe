// SPDX-License-Identifier: MIT
// The table of methods: complete, consistent, and open for methods of others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "kvase/policy.h"
#include "policy/params.h"
#include "policy/select.h"

namespace kvase {
namespace {

std::set<std::string> table_names() {
  std::set<std::string> names;
  for (const PolicyInfo& info : list_policies()) names.insert(info.name);
  return names;
}

// Every file here that is not shared code holds the method of its name: vase_attnv.cpp is vase-attnv.
TEST(PolicyTable, HasARowForEveryFileOfAMethod) {
  const std::set<std::string> shared = {"policy", "list",         "parse",     "params",  "shape", "select",
                                        "smooth", "sketch_score", "rkv_score", "pyramid", "tier"};
  std::set<std::string> methods;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(KVASE_SOURCE_DIR) + "/src/policy")) {
    std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".cpp" || name.ends_with("_test") || shared.contains(name)) continue;
    std::ranges::replace(name, '_', '-');
    methods.insert(name);
  }
  EXPECT_EQ(methods, table_names());
}

TEST(PolicyTable, RowsAreComplete) {
  for (const PolicyInfo& info : list_policies()) {
    SCOPED_TRACE(info.name);
    EXPECT_FALSE(info.summary.empty());
    EXPECT_EQ(info.summary.find('\n'), std::string::npos);
    for (const ParamInfo& param : info.params) {
      SCOPED_TRACE(param.name);
      EXPECT_FALSE(param.help.empty());
      if (param.default_value.empty()) continue;
      EXPECT_EQ(checked_value(info.name, param, param.default_value), param.default_value);
    }
    const ParsedPolicy parsed = parse_policy(info.name);
    EXPECT_EQ(parsed.policy->evicts(), info.name != "full");
  }
}

TEST(PolicyTable, SinksAsPublished) {
  const std::set<std::string> with_sinks = {"streaming-llm", "vase-attnv", "vase-dkv",
                                            "curdkv",        "cur-norms",  "cur-exact"};
  for (const PolicyInfo& info : list_policies()) {
    EXPECT_EQ(info.default_sinks, with_sinks.contains(info.name) ? 4U : 0U) << info.name;
  }
}

TEST(PolicyTable, SaysWhatDependsOnTheSeed) {
  const std::set<std::string> seeded = {"random", "vase-attnv", "vase-dkv", "curdkv"};
  for (const PolicyInfo& info : list_policies()) {
    EXPECT_EQ(info.deterministic, !seeded.contains(info.name)) << info.name;
  }
}

TEST(PolicyTable, StatisticsHaveDistinctNames) {
  std::set<std::string> names;
  for (size_t s = 0; s < kStatisticCount; ++s) names.insert(statistic_name(static_cast<Statistic>(s)));
  EXPECT_EQ(names.size(), kStatisticCount);
  EXPECT_STREQ(statistic_name(Statistic::v_absmax), "v_absmax");
}

// Keeps the oldest; scores say nothing of the window, as an outsider's may.
class Oldest final : public Policy {
 public:
  Scores score(const LayerView& layer, const EventContext&) const override {
    Scores scores;
    for (const HeadView& head : layer.heads) {
      scores.emplace_back();
      for (const int32_t pos : head.pos) scores.back().push_back(-pos);
    }
    return scores;
  }
};

PolicyInfo oldest_info() {
  PolicyInfo info;
  info.name = "oldest";
  info.summary = "keep the oldest tokens";
  info.params = {integer_param("depth", "3", 1, 9, "of nothing")};
  info.make = [](const Params&) { return std::make_unique<Oldest>(); };
  return info;
}

// The window stays even where a policy's scores are against it.
TEST(RegisterPolicy, AnOutsidersMethodWorksLikeOurs) {
  register_policy(oldest_info());
  EXPECT_EQ(list_policies().back().name, "oldest");
  const ParsedPolicy parsed = parse_policy("oldest:depth=4,budget=4");

  const std::vector<int32_t> pos = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
  HeadView head;
  head.pos = pos;
  const LayerView layer = {.heads = std::span(&head, 1), .budget = 4, .n_mass_rows = 1};
  EventContext event;
  event.n_seen = 10;
  event.window = 2;
  const Verdict verdict = parsed.policy->decide(layer, event);
  EXPECT_THAT(verdict.heads[0].drop, testing::ElementsAre(2, 3, 4, 5, 6, 7));
}

std::string refusal(const PolicyInfo& info) {
  try {
    register_policy(info);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

TEST(RegisterPolicy, RefusesWhatTheGrammarCannotName) {
  PolicyInfo info = oldest_info();
  for (const char* name : {"", "a b", "a:b", "a+b", "A", "-a", "3a", "a=b", "a,b"}) {
    info.name = name;
    EXPECT_EQ(refusal(info),
              std::string("policy: name \"") + name + "\", allowed: a-z, 0-9, - and _, a letter first");
  }
  info.name = "snapkv";
  EXPECT_EQ(refusal(info), "policy: name \"snapkv\" is taken, allowed: a new one");
  info.name = "new-one";
  info.params[0].name = "budget";
  EXPECT_EQ(refusal(info),
            "new-one: option name \"budget\" is taken, allowed: any but budget, interval, window, sinks");
  info.params[0].name = "x=";
  EXPECT_EQ(refusal(info), "new-one: option name \"x=\", allowed: a-z, 0-9, - and _, a letter first");
  info.params[0].name = "depth";
  info.params[0].default_value = "10";
  EXPECT_EQ(refusal(info), "new-one: depth=10, allowed: 1..9");
  info.params[0].default_value = "1";
  info.params.push_back(info.params[0]);
  EXPECT_EQ(refusal(info), "new-one: option \"depth\" declared twice, allowed: once");
  info.params.pop_back();
  info.make = nullptr;
  EXPECT_EQ(refusal(info), "new-one: no make function, allowed: a function that makes the policy");
}

}  // namespace
}  // namespace kvase

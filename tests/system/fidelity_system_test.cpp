// SPDX-License-Identifier: MIT
// `kvase eval fidelity` measures what decoding token by token would show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "eval/fidelity.h"
#include "system/policies.h"

namespace kvase::eval {
namespace {

constexpr uint32_t kTokens = 320;
// The kernels for one token and for several add in other orders.
constexpr double kSums = 2e-5;

FidelityText text_for(const Model& model) {
  return {.name = "random", .tokens = random_tokens(kTokens + 1, model.info().n_vocab, 7)};
}

FidelityPlan plan_of(const std::vector<std::string>& policies, const std::vector<std::string>& budgets) {
  FidelityPlan plan{
      .engine = {}, .policies = policies, .budgets = budgets, .seeds = {5}, .n_tokens = kTokens};
  plan.engine.n_threads = 1;
  plan.engine.cache.interval = 24;
  return plan;
}

std::vector<Json> measure(const FidelityPlan& plan) {
  const std::vector<FidelityItem> items = fidelity_items(plan, exact_model().info(), {"random"});
  return measure_fidelity(exact_model(), plan.engine, text_for(exact_model()), items, {});
}

// Everything but the times.
Json without_times(Json row) {
  for (const char* field : {"ms_per_token", "ms_per_token_full", "evict_ms", "evict_share"}) row.erase(field);
  return row;
}

long double log_sum(std::span<const float> logits) {
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
  return std::log(sum);
}

struct Plain {
  double nll = 0, nll_full = 0, kl = 0, top1 = 0;
};

// One token at a time, as an answer is decoded, and sums that a reader sees through.
Plain token_by_token(const EngineOptions& options, uint64_t seed) {
  EngineOptions full_options = options;
  full_options.cache = CacheOptions();
  full_options.cache.policy = "full";
  full_options.cache.n_ctx = kTokens;
  Engine full(exact_model(), full_options), evicting(exact_model(), options);
  const SequenceId full_id = full.open({}), evicting_id = evicting.open({.seed = seed});
  const std::vector<Token> tokens = text_for(exact_model()).tokens;
  Plain sums;
  for (size_t pos = 0; pos < kTokens; ++pos) {
    const std::span<const Token> token(&tokens[pos], 1);
    const std::vector<float> p = feed(full, full_id, token), q = feed(evicting, evicting_id, token);
    const long double p_sum = log_sum(p), q_sum = log_sum(q);
    const auto next = static_cast<size_t>(tokens[pos + 1]);
    long double kl = 0;
    for (size_t id = 0; id < p.size(); ++id)
      kl += std::exp(p[id] - p_sum) * ((p[id] - p_sum) - (q[id] - q_sum));
    sums.kl += static_cast<double>(kl) / kTokens;
    sums.nll += static_cast<double>(q_sum - q[next]) / kTokens;
    sums.nll_full += static_cast<double>(p_sum - p[next]) / kTokens;
    sums.top1 += best(p) == best(q) ? 1.0 / kTokens : 0;
  }
  return sums;
}

class FidelityOf : public testing::TestWithParam<std::string> {};

TEST_P(FidelityOf, BlocksGiveTheNumbersOfDecoding) {
  FidelityPlan plan = plan_of({GetParam()}, {"2/5"});
  const std::vector<FidelityItem> items = fidelity_items(plan, exact_model().info(), {"random"});
  EngineOptions options = plan.engine;
  options.cache = items.front().cache;
  const Plain plain = token_by_token(options, items.front().seed.value_or(0));
  const Json row = measure(plan).front();
  EXPECT_GT(row["n_evictions"], 5);
  EXPECT_GT(plain.kl, 1e-4);
  EXPECT_NEAR(row["kl_mean"], plain.kl, kSums);
  EXPECT_NEAR(row["nll"], plain.nll, kSums);
  EXPECT_NEAR(row["nll_full"], plain.nll_full, kSums);
  EXPECT_NEAR(row["top1_agreement"], plain.top1, 1e-9);
}

// One of each kind of statistic, with and without noise and layer budgets. In policies that compare many
// nearly equal scores the last bits may decide a slot otherwise.
INSTANTIATE_TEST_SUITE_P(All, FidelityOf,
                         testing::Values("window", "streaming-llm", "random", "snapkv", "vase-attnv",
                                         "vase-dkv", "keydiff", "rkv-vase", "h2o", "tova",
                                         "snapkv:smooth=max", "vase-attnv+pyramid:beta=2"),
                         test_name);

TEST(Fidelity, SideBySideAsAlone) {
  const std::vector<std::string> policies = {"window", "vase-attnv", "vase-dkv", "snapkv"};
  const std::vector<Json> together = measure(plan_of(policies, {"1/4"}));
  ASSERT_EQ(together.size(), policies.size());
  for (size_t number = 0; number < policies.size(); ++number)
    EXPECT_EQ(without_times(together[number]),
              without_times(measure(plan_of({policies[number]}, {"1/4"})).front()));
}

TEST(Fidelity, ACacheThatHoldsTheWholeTextLosesNothing) {
  const Json row = measure(plan_of({"vase-attnv"}, {"1/1"})).front();
  EXPECT_LT(row["kl_mean"], 1e-9);
  EXPECT_EQ(row["top1_agreement"], 1);
  EXPECT_NEAR(row["nll"], row["nll_full"].get<double>(), 1e-6);
  EXPECT_LE(row["n_evictions"], 1);  // after the last token
  EXPECT_EQ(row["kv_bytes"], row["kv_bytes_full"]);
}

TEST(Fidelity, ABudgetIsTheSameBytesForAll) {
  FidelityPlan plan =
      plan_of({"window", "snapkv:interval=40", "vase-attnv:sinks=9", "snapkv+pyramid:beta=2"}, {"100"});
  plan.engine.cache.interval.reset();  // 64
  const std::vector<Json> rows = measure(plan);
  for (const Json& row : rows) EXPECT_EQ(row["kv_bytes"], rows.front()["kv_bytes"]) << row["policy"];
  EXPECT_EQ(rows[0]["budget"], 100);
  EXPECT_EQ(rows[1]["budget"], 124);
}

TEST(Fidelity, PiecesAndQuartersAreMeansOfTheWhole) {
  const Json row = measure(plan_of({"window"}, {"1/4"})).front();
  const std::vector<double> blocks = row["blocks"]["kl"];
  ASSERT_EQ(blocks.size(), kBlocks);
  double whole = 0, last = 0;
  for (size_t block = 0; block < kBlocks; ++block) {
    whole += blocks[block] / kBlocks;
    if (block >= kBlocks * 3 / 4) last += blocks[block] / (kBlocks / 4);
  }
  EXPECT_NEAR(row["kl_mean"], whole, 1e-12);
  EXPECT_NEAR(row["last_quarter"]["kl_mean"], last, 1e-12);
  EXPECT_EQ(blocks.front(), 0);  // nothing was evicted yet
}

TEST(Fidelity, SeedsMultiplyOnlyWhatDraws) {
  FidelityPlan plan = plan_of({"window", "random"}, {"1/4", "64MiB"});
  plan.seeds = {1, 2, 3};
  std::vector<std::string> keys;
  for (const FidelityItem& item : fidelity_items(plan, exact_model().info(), {"a"})) keys.push_back(item.key);
  EXPECT_THAT(keys,
              testing::ElementsAre("a 1/4 window", "a 64MiB window", "a 1/4 random seed 1",
                                   "a 1/4 random seed 2", "a 1/4 random seed 3", "a 64MiB random seed 1",
                                   "a 64MiB random seed 2", "a 64MiB random seed 3"));
}

TEST(Fidelity, RefusesWhatCannotBe) {
  const auto refusal = [](const FidelityPlan& plan) -> std::string {
    try {
      fidelity_items(plan, exact_model().info(), {"a"});
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_THAT(refusal(plan_of({"full"}, {"1/4"})), testing::HasSubstr("evicts nothing"));
  EXPECT_THAT(refusal(plan_of({"window:budget=9"}, {"1/4"})),
              testing::HasSubstr("found a budget in the policy"));
  EXPECT_THAT(refusal(plan_of({"window"}, {"5/4"})), testing::HasSubstr("a fraction of the full cache"));
  EXPECT_THAT(refusal(plan_of({"window"}, {"1/"})), testing::HasSubstr("a fraction of the full cache"));
  EXPECT_THAT(refusal(plan_of({"window"}, {"1/20"})), testing::HasSubstr("--kv-budget"));
  EXPECT_THROW(make_fidelity_text(exact_model(), "short", "a b c", 64), Error);
  FidelityPlan short_plan = plan_of({"window"}, {"1/4"});
  short_plan.n_tokens = kBlocks - 1;
  EXPECT_THAT(refusal(short_plan), testing::HasSubstr("-c 15, allowed: 16.."));
  EXPECT_THAT(refusal(plan_of({"window", "window"}, {"1/4"})), testing::HasSubstr("twice"));
}

TEST(Fidelity, StopsWithoutRows) {
  const FidelityPlan plan = plan_of({"window"}, {"1/4"});
  const std::vector<FidelityItem> items = fidelity_items(plan, exact_model().info(), {"random"});
  size_t n_read = 0;
  const FidelityHooks hooks{.should_stop = [&] { return n_read > 100; },
                            .on_progress = [&](size_t done, size_t) { n_read = done; }};
  EXPECT_TRUE(measure_fidelity(exact_model(), plan.engine, text_for(exact_model()), items, hooks).empty());
  EXPECT_LT(n_read, kTokens);
}

}  // namespace
}  // namespace kvase::eval

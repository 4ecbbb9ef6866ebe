// SPDX-License-Identifier: MIT
// Seeds averaged, pieces paired, the order of rows without effect.
#include "eval/fidelity_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace kvase::eval {
namespace {

Json row(const std::string& policy, const std::string& budget, double kv_bytes, const Json& seed,
         const std::vector<double>& kl) {
  double mean = 0;
  for (const double value : kl) mean += value / static_cast<double>(kl.size());
  Json json = {{"key", "text " + budget + " " + policy + " " + seed.dump()},
               {"policy", policy},
               {"budget_option", budget},
               {"text", "text"},
               {"seed", seed},
               {"kv_bytes", kv_bytes},
               {"n_tokens", 4},
               {"nll", 2 + mean},
               {"nll_full", 2},
               {"kl_mean", mean},
               {"kl_p99", 1},
               {"top1_agreement", 0.5},
               {"last_quarter", {{"kl_mean", kl.back()}}},
               {"n_evictions", 3},
               {"ms_per_token", 4},
               {"evict_ms", 2},
               {"evict_share", 0.125}};
  json["blocks"] = {{"kl", kl}, {"nll", kl}, {"top1", kl}};
  return json;
}

JsonLines example() {
  return {.definition = {{"kind", "fidelity"},
                         {"model", {{"file", "toy.gguf"}}},
                         {"n_tokens", 4},
                         {"texts", Json::array({Json{{"name", "text"}}})}},
          .rows = {row("window", "1/2", 2 << 20, nullptr, {1, 2}), row("random", "1/2", 2 << 20, 0, {2, 4}),
                   row("random", "1/2", 2 << 20, 1, {4, 8}), row("window", "1/4", 1 << 20, nullptr, {3, 5})}};
}

TEST(FidelityReport, PairsPiecesAndAveragesSeeds) {
  const std::vector<FidelityDifference> differences = fidelity_differences(example(), "window");
  ASSERT_EQ(differences.size(), 1U);  // random at 1/4 was not measured
  EXPECT_EQ(differences[0].policy, "random");
  EXPECT_DOUBLE_EQ(differences[0].kl.mean, 3);  // (3 - 1, 6 - 2)
  EXPECT_DOUBLE_EQ(differences[0].kl.standard_error, 1);
  EXPECT_EQ(differences[0].kl.n, 2U);
}

TEST(FidelityReport, TableHasARowPerPolicyAndBudget) {
  const report::Table table = fidelity_table(example(), "text");
  std::vector<std::string> names;
  for (const auto& cells : table.rows)
    names.push_back(cells[0] + " " + cells[1] + " " + cells[2] + " " + cells[7]);
  EXPECT_THAT(names,
              testing::ElementsAre("window 1/2 (2.00 MiB) 1.5000 -", "random 1/2 (2.00 MiB) 4.5000 0, 1",
                                   "window 1/4 (1.00 MiB) 4.0000 -"));
}

TEST(FidelityReport, DoesNotDependOnTheOrderOfRows) {
  JsonLines shuffled = example();
  std::ranges::reverse(shuffled.rows);
  const auto text = [](const JsonLines& lines) {
    return report::to_html(fidelity_report(lines, "window", "command"));
  };
  EXPECT_EQ(text(example()), text(shuffled));
  EXPECT_THAT(text(shuffled), testing::HasSubstr("+3.0000 ± 1.0000"));
}

TEST(FidelityReport, ChoosesItsReference) {
  JsonLines lines = example();
  EXPECT_EQ(default_reference(lines), "window");
  lines.rows.push_back(row("vase-attnv", "1/2", 2 << 20, 0, {9, 9}));
  EXPECT_EQ(default_reference(lines), "vase-attnv");
  lines.rows.clear();
  EXPECT_EQ(default_reference(lines), "");
}

}  // namespace
}  // namespace kvase::eval

// SPDX-License-Identifier: MIT
// Summaries and paired differences of rows whose numbers were worked out by hand.
#include "eval/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace kvase::eval {
namespace {

using testing::HasSubstr;

Json make_row(const std::string& policy, const Json& budget, const std::string& name, uint32_t sample,
              double score, const std::string& answer) {
  return {{"key", policy + budget.dump() + name + std::to_string(sample)},
          {"policy", policy},
          {"budget", budget},
          {"case", name},
          {"sample", sample},
          {"seed", 7},
          {"score", score},
          {"finish_reason", answer.empty() ? "length" : "stop"},
          {"n_prompt", 10},
          {"n_generated", score > 0 ? 100 : 200},
          {"n_evictions", budget.is_null() ? 0 : 3},
          {"kv_bytes", budget.is_null() ? 1000 + sample : 500},
          {"answer", answer},
          {"answer_source", answer.empty() ? "none" : "boxed"}};
}

// Two samples of three questions: full is right on a, half the time on b; window on a alone.
JsonLines lines() {
  JsonLines lines;
  lines.definition = {{"kind", "math"}, {"model", {{"file", "m.gguf"}}}};
  lines.rows = {make_row("full", nullptr, "a", 0, 1, "4"),   make_row("full", nullptr, "a", 1, 1, "4"),
                make_row("full", nullptr, "b", 0, 1, "1/2"), make_row("full", nullptr, "b", 1, 0, "7"),
                make_row("full", nullptr, "c", 0, 0, "8"),   make_row("full", nullptr, "c", 1, 0, ""),
                make_row("window", 32, "a", 0, 1, "4"),      make_row("window", 32, "a", 1, 1, "4.0"),
                make_row("window", 32, "b", 0, 0, "0.5"),    make_row("window", 32, "b", 1, 0, "6"),
                make_row("window", 32, "c", 0, 0, "9"),      make_row("window", 32, "c", 1, 0, "")};
  return lines;
}

TEST(Answers, SummariesAverageSamplesFirst) {
  const std::vector<Json> summaries = answer_summaries(lines());
  ASSERT_EQ(summaries.size(), 2U);
  const Json& full = summaries[0];
  EXPECT_EQ(full["policy"], "full");
  EXPECT_TRUE(full["budget"].is_null());
  EXPECT_DOUBLE_EQ(full["score"].get<double>(), 0.5);
  EXPECT_NEAR(full["score_se"].get<double>(), 0.5 / std::sqrt(3.0), 1e-12);  // of 1, 0.5, 0
  EXPECT_EQ(full["n"], 6);
  EXPECT_EQ(full["n_cases"], 3);
  EXPECT_EQ(full["n_unanswered"], 1);
  EXPECT_EQ(full["finish_reasons"]["length"], 1);
  EXPECT_EQ(full["finish_reasons"]["stop"], 5);
  EXPECT_DOUBLE_EQ(full["tokens_mean"].get<double>(), 150);
  EXPECT_EQ(full["kv_bytes"], 1001);
  EXPECT_EQ(full["n_evicted"], 0);
  EXPECT_EQ(summaries[1]["n_evicted"], 6);
  EXPECT_EQ(summaries[1]["budget"], 32);
  EXPECT_EQ(full["seeds"], Json::array({7}));
}

TEST(Answers, DifferencesArePairedByCase) {
  const auto differences = answer_differences(lines(), "full");
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences[0].policy, "window");
  EXPECT_NEAR(differences[0].score.mean, -0.5 / 3, 1e-12);  // of 0, -0.5, 0
  EXPECT_NEAR(differences[0].score.standard_error, 0.5 / 3, 1e-12);
  EXPECT_EQ(differences[0].score.n, 3U);
  // 4, 4.0 and 0.5 are full's answers; two missing answers are not one answer.
  EXPECT_DOUBLE_EQ(differences[0].same_answer->mean, 0.5);
}

TEST(Answers, CasesThatOneLacksAreLeftOut) {
  JsonLines some = lines();
  std::erase_if(some.rows, [](const Json& row) { return row["policy"] == "full" && row["case"] == "b"; });
  const auto differences = answer_differences(some, "full");
  EXPECT_EQ(differences[0].score.n, 2U);
  EXPECT_DOUBLE_EQ(differences[0].score.mean, 0);
  EXPECT_TRUE(answer_differences(some, "snapkv").empty());
}

TEST(Answers, TheOrderOfRowsMakesNoDifference) {
  JsonLines turned = lines();
  std::ranges::reverse(turned.rows);
  EXPECT_EQ(answer_summaries(turned), answer_summaries(lines()));
  EXPECT_EQ(report::to_markdown(answer_report(turned, "full", "command")),
            report::to_markdown(answer_report(lines(), "full", "command")));
}

TEST(Answers, TheReferenceIsFullOrTheBest) {
  JsonLines some = lines();
  EXPECT_EQ(default_answer_reference(some), "full");
  std::erase_if(some.rows, [](const Json& row) { return row["policy"] == "full"; });
  EXPECT_EQ(default_answer_reference(some), "window");
  some.rows.clear();
  EXPECT_EQ(default_answer_reference(some), "");
}

TEST(Answers, ReportSaysWhatWasMeasured) {
  const std::string text = report::to_markdown(answer_report(lines(), "full", "kvase eval math -f x"));
  EXPECT_THAT(text, HasSubstr("kvase eval math -f x"));
  EXPECT_THAT(text, HasSubstr("m.gguf"));
  EXPECT_THAT(text, HasSubstr("Differences from full"));
  EXPECT_THAT(text, HasSubstr("| window | 32 | -16.7 ± 16.7 % | 3 | 50.0 ± 22.4 % |"));
}

TEST(Answers, AChartOnlyOfSeveralBudgets) {
  JsonLines some = lines();
  const auto text = [&] { return report::to_markdown(answer_report(some, "full", "command")); };
  EXPECT_THAT(text(), testing::Not(HasSubstr("memory.svg")));
  some.rows.push_back(make_row("window", 64, "a", 0, 1, "4"));
  EXPECT_THAT(text(), HasSubstr("memory.svg"));
}

TEST(Answers, NeedlesAreShownByLengthAndDepth) {
  JsonLines needles;
  needles.definition = {{"kind", "needle"}, {"model", {{"file", "m.gguf"}}}};
  for (const int length : {400, 800}) {
    for (const double depth : {0.1, 0.5}) {
      const std::string name = std::to_string(length) + "/" + std::to_string(depth);
      Json row = make_row("window", 32, name, 0, depth < 0.3 ? 0 : 1, "");
      row["length"] = length;
      row["depth"] = depth;
      needles.rows.push_back(row);
    }
  }
  const auto tables = answer_tables(needles);
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[1].rows,
            (std::vector<std::vector<std::string>>{{"window", "32", "400", "0.0 %", "100.0 %"},
                                                   {"window", "32", "800", "0.0 %", "100.0 %"}}));
  const std::vector<Json> summaries = answer_summaries(needles);
  ASSERT_EQ(summaries.size(), 4U);
  EXPECT_EQ(summaries[3]["length"], 800);
  EXPECT_EQ(summaries[3]["depth"], 0.5);
  EXPECT_EQ(summaries[3]["score"], 1.0);
  EXPECT_THAT(report::to_markdown(answer_report(needles, "window", "command")), HasSubstr("depth-800.svg"));
}

TEST(Answers, ItemsHaveKeysOfTheirOwn) {
  MemoryPlan full, window;
  full.evicts = false;
  window.shape.budget = 32;
  const auto items = answer_items({"full", "window"}, {full, window}, {"a", "b"}, 2);
  ASSERT_EQ(items.size(), 8U);
  std::vector<std::string> keys;
  for (const AnswerItem& item : items) keys.push_back(item.key);
  check_keys(keys);
  EXPECT_EQ(keys.front(), "full - | a | 0");
  EXPECT_EQ(keys.back(), "window 32 | b | 1");
}

}  // namespace
}  // namespace kvase::eval

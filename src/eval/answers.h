// SPDX-License-Identifier: MIT
// Measurements in which a model answers: every policy answers the same cases, each answer gets a score from 0
// to 1, and policies are compared case by case.
//
// One row is one answer: policy, budget (tokens; null for `full`), case, sample, score, finish_reason,
// counts, bytes, the text, and what the kind of measurement adds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "eval/statistics.h"
#include "eval/work.h"
#include "kvase/generate.h"
#include "kvase/options.h"
#include "kvase/plan.h"
#include "report/page.h"
#include "report/table.h"

namespace kvase::eval {

struct AnswerItem {
  std::string key;  // policy, budget, case and sample
  size_t policy = 0;
  size_t number = 0;  // of the case
  uint32_t sample = 0;
};

// Policies first to last, each with all cases, each with all samples. `plans` are the policies' own.
std::vector<AnswerItem> answer_items(const std::vector<std::string>& policies,
                                     const std::vector<MemoryPlan>& plans,
                                     const std::vector<std::string>& cases, uint32_t n_samples);

// What every row holds. `plan` is that of one sequence; of `full`, which has room for the longest of many
// answers, kv_bytes are those of the tokens that this one has seen.
Json answer_row(const std::string& policy, const MemoryPlan& plan, const std::string& case_id,
                uint32_t sample, const GenerateResult& result);

// One row per policy and budget (and, of needles, per length and depth): score, its standard error over cases
// with samples averaged first, counts of finish reasons, means, the most bytes; then the run's settings.
std::vector<Json> answer_summaries(const JsonLines& lines);

// Score of a policy less that of the reference, over the cases that both have answered.
struct AnswerDifference {
  std::string policy, budget;
  Estimate score;
  // Mathematics: share of the answers that are the reference's, right or wrong. It tells policies apart where
  // a model is seldom right.
  std::optional<Estimate> same_answer;
};
std::vector<AnswerDifference> answer_differences(const JsonLines& lines, const std::string& reference);

// Nothing, where no other policy was measured.
std::optional<report::Table> answer_difference_table(const JsonLines& lines, const std::string& reference);

// The measured policies, best first.
std::vector<std::string> answer_policies(const JsonLines& lines);

// `full` if it was measured, else the best. Empty if there are no rows.
std::string default_answer_reference(const JsonLines& lines);

// Of policies and budgets, best first; of needles a second one with every length and depth.
std::vector<report::Table> answer_tables(const JsonLines& lines);

// `command`: how the rows were made. The order of the rows makes no difference.
report::Document answer_report(const JsonLines& lines, const std::string& reference,
                               const std::string& command);

}  // namespace kvase::eval

// SPDX-License-Identifier: MIT
// Rows to groups of one policy and budget, groups to summaries and tables.
#include "eval/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "eval/grader.h"
#include "report/chart.h"

namespace kvase::eval {
namespace {

constexpr double kMiB = 1 << 20;
constexpr std::string_view kNoBudget = "-";

std::string budget_label(const Json& budget) {
  return budget.is_null() ? std::string(kNoBudget) : budget.dump();
}

// Answers of one policy at one budget, in the order of their keys.
struct Group {
  std::string policy, budget;
  std::vector<const Json*> rows;

  double mean(const char* field) const {
    double sum = 0;
    for (const Json* row : rows) sum += row->at(field).get<double>();
    return sum / static_cast<double>(rows.size());
  }
  uint64_t max(const char* field) const {
    uint64_t most = 0;
    for (const Json* row : rows) most = std::max(most, row->at(field).get<uint64_t>());
    return most;
  }
  size_t count(const char* field, const Json& value) const {
    return std::ranges::count_if(rows, [&](const Json* row) { return row->at(field) == value; });
  }
  // Of each case, its samples averaged.
  std::map<std::string, double> scores() const {
    std::map<std::string, std::vector<double>> samples;
    for (const Json* row : rows)
      samples[row->at("case").get<std::string>()].push_back(row->at("score").get<double>());
    std::map<std::string, double> means;
    for (const auto& [name, values] : samples) means[name] = estimate(values).mean;
    return means;
  }
  Estimate score() const {
    std::vector<double> values;
    for (const auto& [name, value] : scores()) values.push_back(value);
    return estimate(values);
  }
};

std::vector<const Json*> sorted_rows(const JsonLines& lines) {
  std::vector<const Json*> rows;
  for (const Json& row : lines.rows) rows.push_back(&row);
  std::ranges::sort(rows, {}, [](const Json* row) { return row->at("key").get<std::string>(); });
  return rows;
}

template <typename KeyOf>
auto grouped(const std::vector<const Json*>& rows, const KeyOf& key_of) {
  std::map<decltype(key_of(*rows.front())), Group> found;
  for (const Json* row : rows) {
    Group& group = found[key_of(*row)];
    group.policy = row->at("policy");
    group.budget = budget_label(row->at("budget"));
    group.rows.push_back(row);
  }
  return found;
}

// Best first.
std::vector<Group> groups_of(const JsonLines& lines) {
  std::vector<Group> groups;
  const auto found = grouped(sorted_rows(lines), [](const Json& row) {
    return std::pair(row.at("policy").get<std::string>(), budget_label(row.at("budget")));
  });
  for (const auto& [key, group] : found) groups.push_back(group);
  std::ranges::stable_sort(groups, {}, [](const Group& group) { return -group.score().mean; });
  return groups;
}

bool is_kind(const JsonLines& lines, std::string_view kind) {
  return lines.definition.at("kind").get<std::string>() == kind;
}

Json finish_reasons(const Group& group) {
  Json counts = Json::object();
  for (const FinishReason reason : {FinishReason::stop, FinishReason::length}) {
    const char* name = finish_reason_name(reason);
    counts[name] = group.count("finish_reason", name);
  }
  return counts;
}

Json summary_of(const Group& group, const JsonLines& lines) {
  const Estimate score = group.score();
  std::vector<uint64_t> seeds;
  for (const Json* row : group.rows) seeds.push_back(row->at("seed").get<uint64_t>());
  std::ranges::sort(seeds);
  seeds.erase(std::unique(seeds.begin(), seeds.end()), seeds.end());
  Json summary = {{"policy", group.policy},
                  {"budget", group.rows.front()->at("budget")},
                  {"score", score.mean},
                  {"score_se", score.standard_error},
                  {"n_cases", score.n},
                  {"n", group.rows.size()},
                  {"finish_reasons", finish_reasons(group)},
                  {"tokens_mean", group.mean("n_generated")},
                  {"prompt_tokens_mean", group.mean("n_prompt")},
                  {"evictions_mean", group.mean("n_evictions")},
                  {"n_evicted", group.rows.size() - group.count("n_evictions", 0)},
                  {"kv_bytes", group.max("kv_bytes")},
                  {"seeds", seeds}};
  if (is_kind(lines, "math")) summary["n_unanswered"] = group.count("answer_source", "none");
  if (is_kind(lines, "loops")) {
    std::vector<double> begins;
    for (const Json* row : group.rows) {
      if (row->at("score") == 0) begins.push_back(row->at("loop_begin").get<double>());
    }
    summary["loop_share"] = 1 - score.mean;
    summary["tokens_until_loop_mean"] = estimate(begins).mean;
  }
  return summary;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string percent(const Estimate& estimate) {
  if (std::isnan(estimate.standard_error)) return percent(estimate.mean);  // one case
  return fmt::format("{:.1f} ± {:.1f} %", 100 * estimate.mean, 100 * estimate.standard_error);
}

report::Table policy_table(const JsonLines& lines) {
  report::Table table{.columns = {{"policy", report::Align::left},
                                  {"budget"},
                                  {"score"},
                                  {"cases"},
                                  {"answers"},
                                  {"cut off"},
                                  {"tokens"},
                                  {"evictions"},
                                  {"K and V"}}};
  const bool math = is_kind(lines, "math");
  const bool loops = is_kind(lines, "loops");
  if (math) table.columns.push_back({"no answer"});
  if (loops) table.columns.push_back({"tokens until the loop"});
  for (const Group& group : groups_of(lines)) {
    const Json summary = summary_of(group, lines);
    std::vector<std::string> cells = {group.policy,
                                      group.budget,
                                      percent(group.score()),
                                      summary.at("n_cases").dump(),
                                      summary.at("n").dump(),
                                      summary.at("finish_reasons").at("length").dump(),
                                      fmt::format("{:.0f}", summary.at("tokens_mean").get<double>()),
                                      fmt::format("{:.1f}", summary.at("evictions_mean").get<double>()),
                                      fmt::format("{:.2f} MiB", summary.at("kv_bytes").get<double>() / kMiB)};
    if (math) cells.push_back(summary.at("n_unanswered").dump());
    if (loops) {
      const auto until = summary.at("tokens_until_loop_mean").get<double>();
      cells.push_back(summary.at("loop_share") == 0 ? "-" : fmt::format("{:.0f}", until));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

// Needles: one line per policy, budget and length, one column per depth.
report::Table grid_table(const JsonLines& lines) {
  const std::vector<const Json*> rows = sorted_rows(lines);
  report::Table table{.columns = {{"policy", report::Align::left}, {"budget"}, {"length"}}};
  std::vector<double> depths;
  for (const Json* row : rows) depths.push_back(row->at("depth").get<double>());
  std::ranges::sort(depths);
  depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
  for (const double depth : depths) table.columns.push_back({fmt::format("depth {}", depth)});
  for (const Group& group : groups_of(lines)) {
    const auto by_length =
        grouped(group.rows, [](const Json& row) { return row.at("length").get<uint64_t>(); });
    for (const auto& [length, of_length] : by_length) {
      std::vector<std::string> cells = {group.policy, group.budget, std::to_string(length)};
      const auto by_depth =
          grouped(of_length.rows, [](const Json& row) { return row.at("depth").get<double>(); });
      for (const double depth : depths) {
        const auto cell = by_depth.find(depth);
        cells.push_back(cell == by_depth.end() ? "-" : percent(cell->second.score().mean));
      }
      table.rows.push_back(std::move(cells));
    }
  }
  return table;
}

// Of answers to the same case and sample.
Estimate agreement(const Group& group, const Group& other) {
  std::map<std::pair<std::string, uint64_t>, std::string> answers;
  const auto key_of = [](const Json* row) {
    return std::pair(row->at("case").get<std::string>(), row->at("sample").get<uint64_t>());
  };
  for (const Json* row : other.rows) answers[key_of(row)] = row->at("answer").get<std::string>();
  std::vector<double> same;
  for (const Json* row : group.rows) {
    const auto found = answers.find(key_of(row));
    if (found != answers.end())
      same.push_back(same_answer(row->at("answer").get<std::string>(), found->second) ? 1 : 0);
  }
  return estimate(same);
}

std::string model_name(const JsonLines& lines) { return lines.definition.at("model").at("file"); }

report::Interval error_bars(const Estimate& score) {
  return {100 * (score.mean - score.standard_error), 100 * (score.mean + score.standard_error)};
}

report::Axis score_axis() { return {.label = "score, %", .scale = report::Scale::linear, .from_zero = true}; }

// Nothing for one budget: its policies would stand above each other.
std::optional<report::Figure> memory_figure(const JsonLines& lines) {
  std::map<std::string, report::Series> by_policy;
  std::set<std::string> budgets;
  for (const Group& group : groups_of(lines)) {
    if (group.budget != kNoBudget) budgets.insert(group.budget);
    const Estimate score = group.score();
    report::Point point{.x = static_cast<double>(group.max("kv_bytes")) / kMiB, .y = 100 * score.mean};
    if (!std::isnan(score.standard_error)) point.spread = error_bars(score);
    report::Series& series = by_policy[group.policy];
    series.name = group.policy;
    series.points.push_back(point);
  }
  if (budgets.size() < 2) return std::nullopt;
  report::Chart chart{.title = "Score against memory",
                      .subtitle = model_name(lines),
                      .x = {.label = "K and V of one answer, MiB", .scale = report::Scale::log},
                      .y = score_axis()};
  for (auto& [policy, series] : by_policy) {
    std::ranges::sort(series.points, {}, &report::Point::x);
    chart.series.push_back(std::move(series));
  }
  return report::Figure{.file = "memory.svg",
                        .caption = "Bars: one standard error over the cases.",
                        .svg = report::to_svg(chart)};
}

// Needles: how the score depends on where the needle lies, at each length that was measured.
std::vector<report::Figure> depth_figures(const JsonLines& lines) {
  std::vector<report::Figure> figures;
  const auto by_length =
      grouped(sorted_rows(lines), [](const Json& row) { return row.at("length").get<uint64_t>(); });
  for (const auto& [length, of_length] : by_length) {
    report::Chart chart{.title = fmt::format("Needles in {} tokens", length),
                        .subtitle = model_name(lines),
                        .x = {.label = "depth: share of the text in front of the needle"},
                        .y = score_axis()};
    const auto by_policy = grouped(of_length.rows, [](const Json& row) {
      return std::pair(row.at("policy").get<std::string>(), budget_label(row.at("budget")));
    });
    for (const auto& [key, group] : by_policy) {
      report::Series series{.name = fmt::format("{} ({})", group.policy, group.budget), .points = {}};
      const auto by_depth =
          grouped(group.rows, [](const Json& row) { return row.at("depth").get<double>(); });
      for (const auto& [depth, cell] : by_depth)
        series.points.push_back({.x = depth, .y = 100 * cell.score().mean});
      chart.series.push_back(std::move(series));
    }
    figures.push_back({.file = fmt::format("depth-{}.svg", length),
                       .caption = "Each point: the needles hidden at this depth.",
                       .svg = report::to_svg(chart)});
  }
  return figures;
}

struct Words {
  std::string_view kind, title, about;
};
constexpr std::array<Words, 3> kWords = {{
    {"math", "Mathematics: right answers",
     "Score: share of the questions that were answered rightly; several samples of one question are averaged "
     "first. Cut off: answers that reached the limit of tokens; only a closed box counts in those."},
    {"needle", "Needles: sentences found again",
     "Score: share of the needles whose number the answer holds. Depth: the share of the text in front of "
     "the "
     "needle. The question comes after the text, so a policy does not know it while it reads."},
    {"loops", "Loops: answers that repeat themselves",
     "Score: share of the answers that do not fall into repetition. A loop is a block of at most 256 tokens, "
     "four times or more in a row, over 64 tokens or more."},
}};

const Words& words_of(const JsonLines& lines) {
  const auto found = std::ranges::find_if(kWords, [&](const Words& row) { return is_kind(lines, row.kind); });
  return found == kWords.end() ? kWords.front() : *found;
}

}  // namespace

std::vector<AnswerItem> answer_items(const std::vector<std::string>& policies,
                                     const std::vector<MemoryPlan>& plans,
                                     const std::vector<std::string>& cases, uint32_t n_samples) {
  std::vector<AnswerItem> items;
  for (size_t policy = 0; policy < policies.size(); ++policy) {
    const std::string budget =
        plans[policy].evicts ? std::to_string(plans[policy].shape.budget) : std::string(kNoBudget);
    for (size_t number = 0; number < cases.size(); ++number) {
      for (uint32_t sample = 0; sample < n_samples; ++sample) {
        items.push_back(
            {.key = fmt::format("{} {} | {} | {}", policies[policy], budget, cases[number], sample),
             .policy = policy,
             .number = number,
             .sample = sample});
      }
    }
  }
  return items;
}

Json answer_row(const std::string& policy, const MemoryPlan& plan, const std::string& case_id,
                uint32_t sample, const GenerateResult& result) {
  return {{"policy", policy},
          {"budget", plan.evicts ? Json(plan.shape.budget) : Json()},
          {"case", case_id},
          {"sample", sample},
          {"seed", result.seed},
          {"score", 0.0},
          {"finish_reason", finish_reason_name(result.finish_reason)},
          {"n_prompt", result.n_prompt},
          {"n_generated", result.tokens.size()},
          {"n_evictions", result.cache.n_evictions},
          {"kv_bytes", plan.evicts ? plan.kv_bytes : plan.bytes_per_token * result.cache.n_seen},
          {"text", result.text},
          {"thinking", result.thinking}};
}

std::vector<Json> answer_summaries(const JsonLines& lines) {
  std::vector<Json> summaries;
  for (const Group& group : groups_of(lines)) {
    if (!is_kind(lines, "needle")) {
      summaries.push_back(summary_of(group, lines));
      continue;
    }
    const auto cells = grouped(group.rows, [](const Json& row) {
      return std::pair(row.at("length").get<uint64_t>(), row.at("depth").get<double>());
    });
    for (const auto& [place, cell] : cells) {
      Json summary = summary_of(cell, lines);
      summary["length"] = place.first;
      summary["depth"] = place.second;
      summaries.push_back(std::move(summary));
    }
  }
  for (Json& summary : summaries) summary["settings"] = lines.definition;
  return summaries;
}

std::vector<AnswerDifference> answer_differences(const JsonLines& lines, const std::string& reference) {
  const std::vector<Group> groups = groups_of(lines);
  std::vector<AnswerDifference> differences;
  for (const Group& group : groups) {
    if (group.policy == reference) continue;
    // The reference at the same budget, or, as `full`, without one.
    const auto other = std::ranges::find_if(groups, [&](const Group& candidate) {
      return candidate.policy == reference &&
             (candidate.budget == group.budget || candidate.budget == kNoBudget);
    });
    if (other == groups.end()) continue;
    const std::map<std::string, double> of_other = other->scores();
    std::vector<double> mine, others;
    for (const auto& [name, score] : group.scores()) {
      const auto found = of_other.find(name);
      if (found == of_other.end()) continue;
      mine.push_back(score);
      others.push_back(found->second);
    }
    if (mine.empty()) continue;
    AnswerDifference difference{.policy = group.policy,
                                .budget = group.budget,
                                .score = paired_difference(mine, others),
                                .same_answer = {}};
    if (is_kind(lines, "math")) difference.same_answer = agreement(group, *other);
    differences.push_back(std::move(difference));
  }
  return differences;
}

std::optional<report::Table> answer_difference_table(const JsonLines& lines, const std::string& reference) {
  const std::vector<AnswerDifference> differences = answer_differences(lines, reference);
  if (differences.empty()) return std::nullopt;
  const bool math = is_kind(lines, "math");
  report::Table table{
      .columns = {{"policy", report::Align::left}, {"budget"}, {"score less the reference's"}, {"cases"}}};
  if (math) table.columns.push_back({"same answer"});
  for (const AnswerDifference& difference : differences) {
    const std::string sign = difference.score.mean > 0 ? "+" : "";
    table.rows.push_back({difference.policy, difference.budget,
                          fmt::format("{}{}", sign, percent(difference.score)),
                          std::to_string(difference.score.n)});
    if (math) table.rows.back().push_back(percent(*difference.same_answer));
  }
  return table;
}

std::vector<std::string> answer_policies(const JsonLines& lines) {
  std::vector<std::string> policies;
  for (const Group& group : groups_of(lines)) {
    if (std::ranges::find(policies, group.policy) == policies.end()) policies.push_back(group.policy);
  }
  return policies;
}

std::string default_answer_reference(const JsonLines& lines) {
  const std::vector<std::string> policies = answer_policies(lines);
  if (policies.empty()) return {};
  return std::ranges::find(policies, "full") == policies.end() ? policies.front() : "full";
}

std::vector<report::Table> answer_tables(const JsonLines& lines) {
  std::vector<report::Table> tables = {policy_table(lines)};
  if (is_kind(lines, "needle")) tables.push_back(grid_table(lines));
  return tables;
}

report::Document answer_report(const JsonLines& lines, const std::string& reference,
                               const std::string& command) {
  const Words& words = words_of(lines);
  report::Document document{.title = std::string(words.title)};
  document.blocks = {report::Paragraph{fmt::format("{}. {}", model_name(lines), words.about)},
                     report::Code{command}};
  if (auto figure = memory_figure(lines)) document.blocks.push_back(std::move(*figure));
  if (is_kind(lines, "needle")) {
    for (report::Figure& figure : depth_figures(lines)) document.blocks.push_back(std::move(figure));
  }
  for (report::Table& table : answer_tables(lines)) document.blocks.push_back(std::move(table));
  if (auto differences = answer_difference_table(lines, reference)) {
    document.blocks.push_back(report::Heading{fmt::format("Differences from {}", reference)});
    document.blocks.push_back(
        report::Paragraph{"Mean ± standard error over the cases that both have answered, each compared with "
                          "the same case under "
                          "the reference. Above zero: better than the reference."});
    document.blocks.push_back(std::move(*differences));
  }
  document.blocks.push_back(report::Heading{"Definition"});
  document.blocks.push_back(
      report::Code{lines.definition.dump(2, ' ', false, Json::error_handler_t::replace)});
  return document;
}

}  // namespace kvase::eval

// SPDX-License-Identifier: MIT
// Rows to groups of seeds, groups to tables and charts.
#include "eval/fidelity_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

#include "report/chart.h"

namespace kvase::eval {
namespace {

constexpr double kMiB = 1 << 20;

// One policy at one budget on one text: its seeds, in the order of the seeds.
struct Group {
  std::string policy, budget, text;
  double kv_bytes = 0;
  std::vector<const Json*> rows;

  template <typename Get>
  double mean(const Get& get) const {
    double sum = 0;
    for (const Json* row : rows) sum += get(*row).template get<double>();
    return sum / static_cast<double>(rows.size());
  }
  double mean(const char* field) const {
    return mean([&](const Json& row) -> const Json& { return row.at(field); });
  }
  double last_quarter(const char* field) const {
    return mean([&](const Json& row) -> const Json& { return row.at("last_quarter").at(field); });
  }
  double block(const char* field, size_t number) const {
    return mean([&](const Json& row) -> const Json& { return row.at("blocks").at(field).at(number); });
  }
  std::vector<double> seeds(const char* field) const {
    std::vector<double> numbers;
    for (const Json* row : rows) numbers.push_back(row->at(field).get<double>());
    return numbers;
  }
};

// By memory, largest first, then by text, then by KL.
std::vector<Group> groups_of(const JsonLines& lines) {
  std::vector<const Json*> rows;
  for (const Json& row : lines.rows) rows.push_back(&row);
  std::ranges::sort(rows, {}, [](const Json* row) { return row->at("key").get<std::string>(); });
  std::map<std::tuple<std::string, std::string, std::string>, Group> found;
  for (const Json* row : rows) {
    const std::string policy = row->at("policy"), budget = row->at("budget_option"), text = row->at("text");
    Group& group = found[{policy, budget, text}];
    group.policy = policy;
    group.budget = budget;
    group.text = text;
    group.kv_bytes = row->at("kv_bytes").get<double>();
    group.rows.push_back(row);
  }
  std::vector<Group> groups;
  for (auto& [key, group] : found) groups.push_back(std::move(group));
  std::ranges::stable_sort(groups, {}, [](const Group& group) {
    return std::tuple(-group.kv_bytes, group.text, group.mean("kl_mean"));
  });
  return groups;
}

std::string budget_text(const Group& group) {
  return fmt::format("{} ({:.2f} MiB)", group.budget, group.kv_bytes / kMiB);
}

std::string seeds_text(const Group& group) {
  if (group.rows.front()->at("seed").is_null()) return "-";
  std::string text;
  for (const Json* row : group.rows)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", row->at("seed").dump());
  return text;
}

const Group* find_group(const std::vector<Group>& groups, const std::string& policy, const Group& like) {
  const auto found = std::ranges::find_if(groups, [&](const Group& group) {
    return group.policy == policy && group.budget == like.budget && group.text == like.text;
  });
  return found == groups.end() ? nullptr : &*found;
}

std::vector<std::string> policies_by_quality(const std::vector<Group>& groups) {
  std::map<std::string, std::vector<double>> by_policy;
  for (const Group& group : groups) by_policy[group.policy].push_back(group.mean("kl_mean"));
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [policy, means] : by_policy) order.emplace_back(estimate(means).mean, policy);
  std::ranges::sort(order);
  std::vector<std::string> policies;
  for (auto& [mean, policy] : order) policies.push_back(policy);
  return policies;
}

std::vector<report::Tick> budget_ticks(const std::vector<Group>& groups) {
  std::map<double, std::string> ticks;
  for (const Group& group : groups)
    ticks.try_emplace(group.kv_bytes / kMiB, fmt::format("{:.1f} ({})", group.kv_bytes / kMiB, group.budget));
  std::vector<report::Tick> list;
  for (auto& [value, label] : ticks) list.push_back({value, label});
  return list;
}

std::string model_name(const Json& definition) { return definition.at("model").at("file"); }

report::Figure quality_figure(const JsonLines& lines, const std::vector<Group>& groups,
                              const std::string& text, size_t number) {
  report::Chart chart{.title = "Divergence from the full cache at equal bytes",
                      .subtitle = fmt::format("{}, {} tokens of {}", model_name(lines.definition),
                                              lines.definition.at("n_tokens").dump(), text),
                      .x = {.label = "K and V over capacity, MiB (share of the full cache)",
                            .scale = report::Scale::log,
                            .ticks = budget_ticks(groups)},
                      .y = {.label = "KL(full || policy), nats per token", .scale = report::Scale::log}};
  for (const std::string& policy : policies_by_quality(groups)) {
    report::Series series{.name = policy, .points = {}};
    for (const Group& group : groups) {
      if (group.policy != policy || group.text != text) continue;
      report::Point point{.x = group.kv_bytes / kMiB, .y = group.mean("kl_mean")};
      const std::vector<double> seeds = group.seeds("kl_mean");
      const auto [low, high] = std::ranges::minmax(seeds);
      if (seeds.size() > 1) point.spread = report::Interval{low, high};
      series.points.push_back(point);
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  return {
      .file = fmt::format("kl-{}.svg", number),
      .caption = fmt::format("Mean KL over the tokens of {}, less is better. Bars: the range over seeds, for "
                             "policies that draw.",
                             text),
      .svg = report::to_svg(chart)};
}

report::Figure cost_figure(const JsonLines& lines, const std::vector<Group>& groups) {
  const double least = groups.back().kv_bytes;
  report::Chart chart{
      .title = "Quality and cost at the smallest budget",
      .subtitle = fmt::format("{}, {:.2f} MiB of K and V", model_name(lines.definition), least / kMiB),
      .x = {.label = "evictions and their statistics, ms per token", .scale = report::Scale::log},
      .y = {.label = "KL(full || policy), nats per token", .scale = report::Scale::log},
      .lines = false};
  for (const std::string& policy : policies_by_quality(groups)) {
    std::vector<double> kl, cost;
    for (const Group& group : groups) {
      if (group.policy != policy || group.kv_bytes != least) continue;
      kl.push_back(group.mean("kl_mean"));
      cost.push_back(group.mean("evict_ms") / group.mean("n_tokens"));
    }
    if (!kl.empty()) chart.series.push_back({policy, {{estimate(cost).mean, estimate(kl).mean}}});
  }
  return {.file = "cost.svg",
          .caption = "Mean over the texts. What the attention kernel gathers on its way is not in the cost.",
          .svg = report::to_svg(chart)};
}

report::Table difference_table(const std::vector<FidelityDifference>& differences) {
  report::Table table{.columns = {{"policy", report::Align::left},
                                  {"budget"},
                                  {"KL less the reference's"},
                                  {"-log p less the reference's"},
                                  {"pairs"}}};
  for (const FidelityDifference& difference : differences) {
    table.rows.push_back({difference.policy, difference.budget, show(difference.kl, 4, true),
                          show(difference.nll, 4, true), std::to_string(difference.kl.n)});
  }
  return table;
}

}  // namespace

std::vector<FidelityDifference> fidelity_differences(const JsonLines& lines, const std::string& reference) {
  const std::vector<Group> groups = groups_of(lines);
  struct Pairs {
    double kv_bytes = 0;
    std::vector<double> kl, reference_kl, nll, reference_nll;
  };
  std::map<std::pair<std::string, std::string>, Pairs> found;
  for (const Group& group : groups) {
    const Group* const other = find_group(groups, reference, group);
    if (group.policy == reference || other == nullptr) continue;
    Pairs& pairs = found[{group.policy, group.budget}];
    pairs.kv_bytes = group.kv_bytes;
    for (size_t block = 0; block < group.rows.front()->at("blocks").at("kl").size(); ++block) {
      pairs.kl.push_back(group.block("kl", block));
      pairs.reference_kl.push_back(other->block("kl", block));
      pairs.nll.push_back(group.block("nll", block));
      pairs.reference_nll.push_back(other->block("nll", block));
    }
  }
  std::vector<std::pair<double, FidelityDifference>> differences;
  for (const auto& [name, pairs] : found) {
    differences.emplace_back(
        pairs.kv_bytes,
        FidelityDifference{name.first, name.second, paired_difference(pairs.kl, pairs.reference_kl),
                           paired_difference(pairs.nll, pairs.reference_nll)});
  }
  std::ranges::stable_sort(differences, {},
                           [](const auto& entry) { return std::pair(-entry.first, entry.second.kl.mean); });
  std::vector<FidelityDifference> sorted;
  for (auto& [bytes, difference] : differences) sorted.push_back(std::move(difference));
  return sorted;
}

std::vector<std::string> fidelity_policies(const JsonLines& lines) {
  return policies_by_quality(groups_of(lines));
}

std::string default_reference(const JsonLines& lines) {
  const std::vector<std::string> policies = fidelity_policies(lines);
  if (policies.empty()) return {};
  return std::ranges::find(policies, "vase-attnv") == policies.end() ? policies.front() : "vase-attnv";
}

report::Table fidelity_table(const JsonLines& lines, const std::string& text) {
  report::Table table{.columns = {{"policy", report::Align::left},
                                  {"budget"},
                                  {"KL"},
                                  {"KL p99"},
                                  {"same top"},
                                  {"-log p less full's"},
                                  {"KL, last quarter"},
                                  {"seeds"},
                                  {"evictions"},
                                  {"ms/token"},
                                  {"of it events"}}};
  for (const Group& group : groups_of(lines)) {
    if (group.text != text) continue;
    table.rows.push_back({group.policy, budget_text(group), fmt::format("{:.4f}", group.mean("kl_mean")),
                          fmt::format("{:.3f}", group.mean("kl_p99")),
                          fmt::format("{:.1f} %", 100 * group.mean("top1_agreement")),
                          fmt::format("{:+.4f}", group.mean("nll") - group.mean("nll_full")),
                          fmt::format("{:.4f}", group.last_quarter("kl_mean")), seeds_text(group),
                          fmt::format("{:.0f}", group.mean("n_evictions")),
                          fmt::format("{:.1f}", group.mean("ms_per_token")),
                          fmt::format("{:.1f} %", 100 * group.mean("evict_share"))});
  }
  return table;
}

std::vector<std::string> fidelity_texts(const JsonLines& lines) {
  std::vector<std::string> texts;
  for (const Json& text : lines.definition.at("texts")) texts.push_back(text.at("name"));
  return texts;
}

report::Document fidelity_report(const JsonLines& lines, const std::string& reference,
                                 const std::string& command) {
  const std::vector<Group> groups = groups_of(lines);
  report::Document document{.title = "Fidelity: what eviction costs"};
  document.blocks = {
      report::Paragraph{fmt::format("{} reads {} tokens of each text with the full cache and with each "
                                    "policy, side by side. Every policy of one "
                                    "budget has the same bytes of keys and values over capacity. KL: how far "
                                    "the policy's distribution over the "
                                    "next token is from the full cache's, in nats; same top: share of tokens "
                                    "where both find the same token "
                                    "likeliest; -log p: of the text's own next token. Times are those of "
                                    "this machine while it did this.",
                                    model_name(lines.definition), lines.definition.at("n_tokens").dump())},
      report::Code{command}};
  const std::vector<std::string> texts = fidelity_texts(lines);
  for (size_t number = 0; number < texts.size(); ++number) {
    if (std::ranges::find(groups, texts[number], &Group::text) == groups.end()) continue;
    document.blocks.push_back(report::Heading{texts[number]});
    document.blocks.push_back(quality_figure(lines, groups, texts[number], number + 1));
    document.blocks.push_back(fidelity_table(lines, texts[number]));
  }
  const std::vector<FidelityDifference> differences = fidelity_differences(lines, reference);
  if (!differences.empty()) {
    document.blocks.push_back(report::Heading{fmt::format("Differences from {}", reference)});
    document.blocks.push_back(
        report::Paragraph{"Mean ± standard error over the pieces of all texts (16 pieces a text, seeds "
                          "averaged first), each piece compared "
                          "with the same piece under the reference. The error takes pieces as independent "
                          "and counts the trend along "
                          "the text as noise, so it is rather too large than too small. Below zero: better "
                          "than the reference."});
    document.blocks.push_back(difference_table(differences));
  }
  if (!groups.empty()) {
    document.blocks.push_back(report::Heading{"Cost"});
    document.blocks.push_back(cost_figure(lines, groups));
  }
  document.blocks.push_back(report::Heading{"Definition"});
  document.blocks.push_back(
      report::Code{lines.definition.dump(2, ' ', false, Json::error_handler_t::replace)});
  return document;
}

}  // namespace kvase::eval

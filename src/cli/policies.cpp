// SPDX-License-Identifier: MIT
// kvase policies: the table of methods, or one of them in detail.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/format.h"
#include "cli/json.h"
#include "kvase/policy.h"

namespace kvase::cli {
namespace {

constexpr const char* kFooter = R"(
A policy is written name[:key=value,...][+modifier[:key=value,...]]. Every name also takes budget=, interval=, window= and
sinks=, which mean the same as --kv-budget, --kv-interval, --kv-window and --kv-sinks; what is given in both must agree.

Examples:
  kvase policies
  kvase policies vase-attnv
  kvase policies pyramid
  kvase run -m model.gguf -p Hello --kv vase-attnv:budget=1024,sinks=8
  kvase run -m model.gguf -p Hello --kv snapkv:smooth=max+pyramid --kv-budget 1024
)";

std::vector<PolicyInfo> chosen_policies(const std::string& name) {
  std::vector<PolicyInfo> policies = list_policies();
  if (name.empty()) return policies;
  const auto found =
      std::find_if(policies.begin(), policies.end(), [&](const auto& info) { return info.name == name; });
  if (found != policies.end()) return {*found};
  std::vector<std::string> names;
  for (const PolicyInfo& info : policies) names.push_back(info.name);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("unknown policy \"{}\", allowed: {}", name, fmt::join(names, ", ")));
}

std::string allowed_values(const ParamInfo& param) {
  if (param.kind == ParamInfo::Kind::choice) return fmt::format("{}", fmt::join(param.choices, "|"));
  if (param.kind == ParamInfo::Kind::real) return fmt::format("{}..{}", param.real_min, param.real_max);
  if (param.kind == ParamInfo::Kind::text) return "text";
  return fmt::format("{}..{}", param.min, param.max);
}

void print_overview(const std::vector<PolicyInfo>& policies) {
  std::vector<std::vector<std::string>> cells = {{"POLICY", "KEEPS"}};
  for (const PolicyInfo& info : policies) cells.push_back({info.name, info.summary});
  cells.push_back({"", ""});
  for (const ModifierInfo& info : list_modifiers()) cells.push_back({"+" + info.name, info.summary});
  fmt::print("{}\n`kvase policies NAME` shows parameters, paper and notes.\n",
             table({Align::left, Align::left}, cells));
}

void print_params(const std::vector<ParamInfo>& params) {
  if (params.empty()) {
    fmt::print("parameters     none of its own\n");
    return;
  }
  std::vector<std::vector<std::string>> cells = {{"PARAMETER", "ALLOWED", "DEFAULT", "MEANING"}};
  for (const ParamInfo& param : params) {
    cells.push_back({param.name, allowed_values(param),
                     param.default_value.empty() ? "-" : param.default_value, param.help});
  }
  fmt::print("\n{}", table({Align::left, Align::left, Align::left, Align::left}, cells));
}

void print_notes(const std::vector<std::string>& notes) {
  if (!notes.empty()) fmt::print("\nnotes\n");
  for (const std::string& note : notes) fmt::print("  - {}\n", note);
}

void print_modifier(const ModifierInfo& info) {
  fmt::print("+{}: {}\n\n", info.name, info.summary);
  fmt::print("paper          {}\n", info.paper);
  print_params(info.params);
  print_notes(info.notes);
}

void print_details(const PolicyInfo& info) {
  fmt::print("{}: {}\n\n", info.name, info.summary);
  fmt::print("paper          {}\n", info.paper.empty() ? "none, a control" : info.paper);
  fmt::print("choices        {}\n", info.deterministic ? "the same for every seed" : "random, from --seed");
  fmt::print("default sinks  {} tokens\n", info.default_sinks);
  std::vector<std::string> needs;
  for (const Statistic statistic : parse_policy(info.name).policy->needs().statistics)
    needs.push_back(statistic_name(statistic));
  fmt::print("statistics     {}\n", needs.empty() ? "none" : fmt::format("{}", fmt::join(needs, ", ")));
  print_params(info.params);
  print_notes(info.notes);
}

}  // namespace

int policies_command(const Arguments& arguments) {
  std::string name;
  bool json = false;
  CLI::App app("List the ways to choose what stays in the cache, or show one of them in detail.",
               "kvase policies");
  app.add_option("name", name, "Policy to show in detail")->type_name("NAME");
  add_json_flag(app, json, "A JSON array on stdout instead of the table");
  finish_help(app, kFooter);
  if (!parse(app, arguments)) return kExitOk;

  const std::vector<ModifierInfo> modifiers = list_modifiers();
  const auto modifier = std::find_if(modifiers.begin(), modifiers.end(),
                                     [&](const ModifierInfo& info) { return info.name == name; });
  if (modifier != modifiers.end() && !json) {
    print_modifier(*modifier);
    return kExitOk;
  }
  const std::vector<PolicyInfo> policies = chosen_policies(name);
  if (json) {
    Json array = Json::array();
    for (const PolicyInfo& info : policies) array.push_back(json_of_policy(info));
    print_json(array);
  } else if (name.empty()) {
    print_overview(policies);
  } else {
    print_details(policies.front());
  }
  return kExitOk;
}

}  // namespace kvase::cli

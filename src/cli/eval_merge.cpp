// SPDX-License-Identifier: MIT
// kvase eval merge: the rows of several folders as one report, whichever measurement they are of.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/eval.h"
#include "cli/flags.h"
#include "eval/answers.h"
#include "eval/fidelity_report.h"
#include "eval/work.h"
#include "kvase/error.h"
#include "report/page.h"

namespace kvase::cli {
namespace {

// What a kind of measurement makes of its rows.
struct Kind {
  std::vector<std::string> (*policies)(const eval::JsonLines&);
  std::string (*default_reference)(const eval::JsonLines&);
  report::Document (*report)(const eval::JsonLines&, const std::string& reference,
                             const std::string& command);
};
constexpr Kind kFidelity = {&eval::fidelity_policies, &eval::default_reference, &eval::fidelity_report};
constexpr Kind kAnswers = {&eval::answer_policies, &eval::default_answer_reference, &eval::answer_report};

const Kind& kind_of(const eval::JsonLines& lines) {
  return lines.definition.at("kind") == "fidelity" ? kFidelity : kAnswers;
}

struct MergeFlags {
  std::vector<std::string> folders;
  std::string out;
  std::vector<std::string> policies;
  std::optional<std::string> reference;
};

constexpr const char* kFooter = R"(
Rows are merged if their first lines agree: same model, texts, lengths. A key that is in several folders is taken from the first.

Examples:
  kvase eval merge part1 part2 --out all
  kvase eval merge all --kv vase-attnv --kv vase-attnv:reserve=none --out ablation
)";

void add_flags(CLI::App& app, MergeFlags& flags) {
  app.add_option("folders", flags.folders, "Folders that --out named")->type_name("DIR...");
  app.add_option("--out", flags.out, "Folder for the merged rows, the report and charts")
      ->type_name("DIR")
      ->group("Output");
  add_policy_list_flag(app, flags.policies);
  app.get_option("--kv")->description("Only rows of this policy; give it again for more (default: all)");
  app.add_option("--reference", flags.reference,
                 "Policy that the report compares others with (default: as in the measurement)")
      ->type_name("POLICY")
      ->group("Output");
  finish_help(app, kFooter);
}

void refuse(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

void check_policy(const std::string& flag, const std::string& policy,
                  const std::vector<std::string>& measured) {
  if (std::ranges::find(measured, policy) == measured.end())
    refuse(fmt::format("{} {}, allowed: {}", flag, policy, fmt::join(measured, ", ")));
}

void keep_policies(eval::JsonLines& lines, const std::vector<std::string>& policies) {
  if (policies.empty()) return;
  std::erase_if(lines.rows, [&](const eval::Json& row) {
    return std::ranges::find(policies, row.at("policy").get<std::string>()) == policies.end();
  });
}

}  // namespace

int eval_merge_command(const Arguments& arguments) {
  MergeFlags flags;
  CLI::App app("Make one report of the folders that shards or earlier runs of a measurement wrote.",
               "kvase eval merge");
  add_flags(app, flags);
  if (!parse(app, arguments)) return kExitOk;
  if (flags.folders.empty()) refuse("no folder given, allowed: one or more that --out named");
  if (flags.out.empty()) refuse("no --out given, allowed: --out DIR");

  eval::JsonLines lines = eval::merge_rows(flags.folders);
  const Kind& kind = kind_of(lines);
  const std::vector<std::string> measured = kind.policies(lines);
  for (const std::string& policy : flags.policies) check_policy("--kv", policy, measured);
  keep_policies(lines, flags.policies);
  const std::string reference = flags.reference.value_or(kind.default_reference(lines));
  if (flags.reference) check_policy("--reference", reference, kind.policies(lines));

  eval::RowStore store(flags.out, lines.definition);
  for (eval::Json& row : lines.rows) {
    const std::string key = row.at("key");
    if (!store.has(key)) store.append(key, row);
  }
  report::write_report(flags.out,
                       kind.report(store.lines(), reference, command_line("kvase eval merge", arguments)));
  return kExitOk;
}

}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// kvase eval: finds the measurement.
#include "cli/eval.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "cli/format.h"
#include "kvase/error.h"

namespace kvase::cli {
namespace {

struct Measurement {
  std::string_view name;
  std::string_view summary;
  int (*run)(const Arguments&);
};

constexpr std::array<Measurement, 5> kMeasurements = {{
    {"fidelity", "a text read with the full cache and with each policy, at equal memory",
     &eval_fidelity_command},
    {"math", "questions with one right answer each", &eval_math_command},
    {"needle", "sentences hidden in long texts", &eval_needle_command},
    {"loops", "long answers that fall into repetition", &eval_loops_command},
    {"merge", "one report of the folders that shards or earlier runs wrote", &eval_merge_command},
}};

std::string names() {
  std::string text;
  for (const Measurement& measurement : kMeasurements)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", measurement.name);
  return text;
}

void print_help() {
  fmt::print(
      "Measure what eviction costs in quality.\n\nUsage: kvase eval MEASUREMENT "
      "[OPTIONS]\n\nMeasurements:\n");
  for (const Measurement& measurement : kMeasurements)
    fmt::print("  {:<10}{}\n", measurement.name, measurement.summary);
  fmt::print(
      "\n`kvase eval MEASUREMENT --help` explains its options.\n\n"
      "With --out DIR every measurement keeps its rows in DIR/rows.jsonl: the same command goes on where a "
      "stopped one\n"
      "ended, and others may add to it. --shard i/n does one part of n of the work, each into a folder of "
      "its own;\n"
      "`kvase eval merge` makes one report of them.\n");
}

}  // namespace

int eval_command(const Arguments& arguments) {
  if (arguments.empty())
    throw Error(ErrorCode::invalid_argument, fmt::format("eval: no measurement given, allowed: {}", names()));
  const std::string& name = arguments.front();
  if (name == "-h" || name == "--help") {
    print_help();
    return kExitOk;
  }
  for (const Measurement& measurement : kMeasurements) {
    if (measurement.name == name) return measurement.run({arguments.begin() + 1, arguments.end()});
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("eval: unknown measurement \"{}\", allowed: {}", name, names()));
}

void add_shard_flag(CLI::App& app, eval::Shard& shard) {
  app.add_option_function<std::string>(
         "--shard", [&shard](const std::string& text) { shard = eval::parse_shard(text); },
         "Do only part i of n, for `kvase eval merge`")
      ->type_name("i/n")
      ->group("Output");
}

void print_table(const report::Table& report_table) {
  std::vector<Align> aligns;
  std::vector<std::vector<std::string>> cells(1);
  for (const report::Column& column : report_table.columns) {
    aligns.push_back(column.align == report::Align::right ? Align::right : Align::left);
    cells.front().push_back(column.name);
  }
  cells.insert(cells.end(), report_table.rows.begin(), report_table.rows.end());
  fmt::print("{}", table(aligns, cells));
}

}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// The measurements of `kvase eval`, and what they share on the command line.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "eval/work.h"
#include "report/table.h"

namespace kvase::cli {

int eval_fidelity_command(const Arguments& arguments);
int eval_math_command(const Arguments& arguments);
int eval_needle_command(const Arguments& arguments);
int eval_loops_command(const Arguments& arguments);
int eval_merge_command(const Arguments& arguments);

void add_shard_flag(CLI::App& app, eval::Shard& shard);

// A table of a report on stdout, in columns.
void print_table(const report::Table& table);

}  // namespace kvase::cli

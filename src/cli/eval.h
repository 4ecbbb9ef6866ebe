// SPDX-License-Identifier: MIT
// The measurements of `kvase eval`, and what they share on the command line.
#pragma once

#include <string>

#include "cli/command.h"
#include "report/table.h"

namespace kvase::cli {

int eval_fidelity_command(const Arguments& arguments);
int eval_math_command(const Arguments& arguments);
int eval_needle_command(const Arguments& arguments);
int eval_loops_command(const Arguments& arguments);
int eval_merge_command(const Arguments& arguments);

// As it could be typed again.
std::string command_line(const std::string& command, const Arguments& arguments);

// A table of a report on stdout, in columns.
void print_table(const report::Table& table);

}  // namespace kvase::cli

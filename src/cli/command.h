// SPDX-License-Identifier: MIT
// The subcommands. Each reads its own arguments, does its work and returns the exit status.
#pragma once

#include <string>
#include <vector>

namespace kvase::cli {

using Arguments = std::vector<std::string>;  // what follows `kvase COMMAND`

// Exit status, also in the help. Failures are thrown as kvase::Error and become kExitRuntime or kExitBadInput
// in main().
inline constexpr int kExitOk = 0;
inline constexpr int kExitRuntime = 1;
inline constexpr int kExitBadInput = 2;
inline constexpr int kExitInterrupted = 130;  // Ctrl-C, as shells count it

int run_command(const Arguments& arguments);
int chat_command(const Arguments& arguments);
int policies_command(const Arguments& arguments);
int plan_command(const Arguments& arguments);
int score_command(const Arguments& arguments);
int bench_command(const Arguments& arguments);
int eval_command(const Arguments& arguments);
int inspect_command(const Arguments& arguments);
int calibrate_command(const Arguments& arguments);

}  // namespace kvase::cli

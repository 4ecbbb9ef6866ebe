// SPDX-License-Identifier: MIT
// kvase: finds the subcommand, and turns every failure into one line and an exit status.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "cli/messages.h"

namespace kvase::cli {
namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const Arguments&);
};

constexpr std::array<Command, 9> kCommands = {{
    {"run", "generate text from a prompt", &run_command},
    {"chat", "talk with a model in the terminal", &chat_command},
    {"policies", "list the ways to choose what stays in the cache", &policies_command},
    {"plan", "show what a cache will take, before loading anything", &plan_command},
    {"score", "run one policy on tensors in a file", &score_command},
    {"bench", "measure speed and memory, and libllama beside them", &bench_command},
    {"eval", "measure what eviction costs in quality", &eval_command},
    {"inspect", "write a page that shows what the cache kept of a text", &inspect_command},
    {"calibrate", "fit the maps that rebuild values from keys", &calibrate_command},
}};

std::string command_names() {
  std::string names;
  for (const Command& command : kCommands)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", command.name);
  return names;
}

void print_help() {
  fmt::print(
      "kvase runs GGUF language models in an amount of KV memory that is fixed before the first token.\n\n"
      "Usage: kvase COMMAND [OPTIONS]\n\nCommands:\n");
  for (const Command& command : kCommands) fmt::print("  {:<10}{}\n", command.name, command.summary);
  fmt::print(
      "\n`kvase COMMAND --help` explains its options, `kvase --version` prints the version.\n\n"
      "Examples:\n"
      "  kvase run -m model.gguf -p \"Once upon a time\" --kv vase-attnv --kv-budget 1024\n"
      "  kvase plan -m model.gguf -c 32768\n");
}

int dispatch(const Arguments& arguments) {
  if (arguments.empty())
    throw Error(ErrorCode::invalid_argument, "no command given, allowed: " + command_names());
  const std::string& name = arguments.front();
  if (name == "-h" || name == "--help" || name == "help") {
    print_help();
    return kExitOk;
  }
  if (name == "--version") {
    fmt::print("kvase {}\n", KVASE_VERSION);
    return kExitOk;
  }
  for (const Command& command : kCommands) {
    if (command.name == name) return command.run({arguments.begin() + 1, arguments.end()});
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("unknown command \"{}\", allowed: {}", name, command_names()));
}

int guarded(const Arguments& arguments) {
  try {
    return dispatch(arguments);
  } catch (const Error& error) {
    print_error(error.what());
    return exit_status(error.code());
  } catch (const std::bad_alloc&) {
    print_error("out of memory, allowed: a smaller model, budget or interval");
    return kExitRuntime;
  } catch (const std::exception& error) {
    print_error(fmt::format("internal: {}, please report it", error.what()));
    return kExitRuntime;
  }
}

}  // namespace
}  // namespace kvase::cli

int main(int argc, char** argv) { return kvase::cli::guarded({argv + 1, argv + argc}); }

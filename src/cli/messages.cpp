// SPDX-License-Identifier: MIT
// Error line and exit status: the one place that maps error codes for the command line.
#include "cli/messages.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"

namespace kvase::cli {

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::bad_model_file:
    case ErrorCode::unsupported:
      return kExitBadInput;
    case ErrorCode::out_of_memory:
    case ErrorCode::device:
    case ErrorCode::internal:
      return kExitRuntime;
  }
  return kExitRuntime;
}

std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& character : line) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7F) character = '?';
  }
  return line;
}

void print_error(std::string_view message) { fmt::print(stderr, "kvase: error: {}\n", one_line(message)); }

void print_warning(std::string_view message) {
  fmt::print(stderr, "kvase: warning: {}\n", one_line(message));
}

}  // namespace kvase::cli

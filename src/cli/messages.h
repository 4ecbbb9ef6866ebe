// SPDX-License-Identifier: MIT
// What goes to stderr: the one error line, and warnings.
#pragma once

#include <string>
#include <string_view>

#include "kvase/error.h"

namespace kvase::cli {

int exit_status(ErrorCode code);

// The text on one line: control characters, which may come from a file name, become '?'.
std::string one_line(std::string_view text);

void print_error(std::string_view message);
void print_warning(std::string_view message);

}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// The prompt: from the command line or from a file, checked.
#pragma once

#include <optional>
#include <string>

namespace kvase::cli {

// The text of -p, or the contents of -f without one trailing newline.
// Throws Error(invalid_argument): neither or both given, unreadable, empty, too large, or not UTF-8 (with the
// byte offset).
std::string read_prompt(const std::optional<std::string>& text, const std::optional<std::string>& path);

// A whole text file; `flag` is named in errors. Throws Error(invalid_argument): unreadable, too large.
std::string read_text(const std::string& path, const std::string& flag);

}  // namespace kvase::cli

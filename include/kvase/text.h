// SPDX-License-Identifier: MIT
// Checks on text that callers hand in, and the marks around a model's thinking.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kvase {

// The byte offset of the first sequence that is not UTF-8 (overlong forms, surrogates and a cut tail
// included), or nothing.
std::optional<size_t> find_invalid_utf8(std::string_view text);

// What stands around the thinking of a reasoning model, at the start of its answer. Both marks, and
// whitespace next to them, belong to neither thinking nor answer. Not empty, not beginning with whitespace.
struct ReasoningMarks {
  std::string open = "<think>";
  std::string close = "</think>";
};

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Checks on text that callers hand in.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace kvase {

// The byte offset of the first sequence that is not UTF-8 (overlong forms, surrogates and a cut tail
// included), or nothing.
std::optional<size_t> find_invalid_utf8(std::string_view text);

}  // namespace kvase

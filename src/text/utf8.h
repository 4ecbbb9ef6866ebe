// SPDX-License-Identifier: MIT
// UTF-8: where it breaks, and how to stream bytes as whole characters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kvase/text.h"

namespace kvase {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// What lies at one place of a byte string.
struct Utf8Unit {
  enum class Kind { valid, invalid, cut };
  Kind kind = Kind::valid;
  // valid: the character's bytes. invalid: the longest start of a character that went wrong, at least 1, to
  // be shown as one U+FFFD (Unicode's "maximal subpart", as browsers do). cut: a good start that the end of
  // the string cuts off, 1..3.
  size_t n_bytes = 0;
};

// REQUIRES: offset < bytes.size().
Utf8Unit utf8_unit(std::string_view bytes, size_t offset);

// Turns a stream of bytes, cut anywhere, into valid UTF-8. The sum of all outputs does not depend on the
// cuts.
class Utf8Assembler {
 public:
  // Whole characters that are certain now; invalid bytes become U+FFFD; the start of a character waits (at
  // most 3 bytes).
  std::string push(std::string_view bytes);
  // What waits can no longer become a character: U+FFFD, or nothing if nothing waits.
  std::string flush();

 private:
  std::string waiting_;
};

}  // namespace kvase

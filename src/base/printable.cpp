// SPDX-License-Identifier: MIT
// One line, whatever came in.
#include "base/printable.h"

namespace kvase {

std::string printable(std::string_view text) {
  constexpr size_t kMost = 80;
  std::string line(text.substr(0, kMost));
  for (char& c : line) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  return text.size() > kMost ? line + "..." : line;
}

}  // namespace kvase

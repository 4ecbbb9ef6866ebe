// SPDX-License-Identifier: MIT
// Stop strings in a stream of text: found wherever the stream is cut, and no part of one is ever shown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/mark_matcher.h"

namespace kvase {

// Throws Error(invalid_argument) for a stop string that is empty or not UTF-8.
void check_stops(const std::vector<std::string>& stops);

// The sum of all outputs does not depend on the cuts. Where several stop strings occur, the one that ends
// first ends the text; of those that end together, the longest. Text in whole UTF-8 characters comes out in
// whole characters.
class StopFinder {
 public:
  // Throws as check_stops().
  explicit StopFinder(std::vector<std::string> stops);

  // The text that is certain to come before any stop string. What may still become one waits: at most the
  // longest stop string less one byte. Nothing once stopped.
  std::string push(std::string_view text);

  bool stopped() const { return stopped_; }

  // The end of the text: what waited, or nothing if stopped.
  std::string flush();

 private:
  std::vector<MarkMatcher> matchers_;
  std::string waiting_;
  bool stopped_ = false;
};

}  // namespace kvase

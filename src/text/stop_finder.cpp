// SPDX-License-Identifier: MIT
// Stop strings in a stream of text.
#include "text/stop_finder.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/printable.h"
#include "kvase/text.h"

namespace kvase {

void check_stops(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (stop.empty()) invalid("stop string \"\", allowed: at least one character");
    if (find_invalid_utf8(stop))
      invalid("stop string \"{}\" is not UTF-8, allowed: UTF-8 text", printable(stop));
  }
}

StopFinder::StopFinder(std::vector<std::string> stops) {
  check_stops(stops);
  for (std::string& stop : stops) matchers_.emplace_back(std::move(stop));
}

std::string StopFinder::push(std::string_view text) {
  if (stopped_) return {};
  for (const char byte : text) {
    waiting_ += byte;
    size_t n_stop = 0;  // bytes of the longest stop string that ends here
    for (MarkMatcher& matcher : matchers_) {
      if (matcher.push(byte)) n_stop = std::max(n_stop, matcher.matched());
    }
    if (n_stop > 0) {
      stopped_ = true;
      waiting_.resize(waiting_.size() - n_stop);
      return std::exchange(waiting_, {});
    }
  }
  size_t n_held = 0;
  for (const MarkMatcher& matcher : matchers_) n_held = std::max(n_held, matcher.matched());
  std::string certain = waiting_.substr(0, waiting_.size() - n_held);
  waiting_.erase(0, certain.size());
  return certain;
}

std::string StopFinder::flush() { return std::exchange(waiting_, {}); }

}  // namespace kvase

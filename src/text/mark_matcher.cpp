// SPDX-License-Identifier: MIT
// Follows one string through a stream.
#include "text/mark_matcher.h"

#include "base/check.h"

namespace kvase {

MarkMatcher::MarkMatcher(std::string mark) : mark_(std::move(mark)), border_(mark_.size(), 0) {
  KVASE_CHECK(!mark_.empty(), "a mark of no bytes is everywhere");
  size_t border = 0;
  for (size_t n = 1; n < mark_.size(); ++n) {
    while (border > 0 && mark_[n] != mark_[border]) border = border_[border - 1];
    if (mark_[n] == mark_[border]) ++border;
    border_[n] = border;
  }
}

bool MarkMatcher::push(char byte) {
  while (matched_ > 0 && mark_[matched_] != byte) matched_ = border_[matched_ - 1];
  if (mark_[matched_] == byte) ++matched_;
  return matched_ == mark_.size();
}

}  // namespace kvase

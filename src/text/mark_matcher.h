// SPDX-License-Identifier: MIT
// Follows one string through a stream: how much of it the newest bytes spell.
//
// Knuth, Morris, Pratt 1977: constant work per byte, whatever the string and the stream.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kvase {

class MarkMatcher {
 public:
  // REQUIRES: mark is not empty.
  explicit MarkMatcher(std::string mark);

  // True: the newest mark().size() bytes are the mark. Do not push after that.
  bool push(char byte);

  // The longest proper prefix of the mark that the stream ends in, bytes; the whole mark after push() said
  // true.
  size_t matched() const { return matched_; }
  const std::string& mark() const { return mark_; }

 private:
  std::string mark_;
  std::vector<size_t> border_;  // [n]: longest proper prefix of mark_[0..n] that is also its suffix, bytes
  size_t matched_ = 0;
};

}  // namespace kvase

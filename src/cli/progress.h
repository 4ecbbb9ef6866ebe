// SPDX-License-Identifier: MIT
// A line on stderr that is overwritten while long work goes on; nothing where stderr is no terminal.
#pragma once

#include <chrono>
#include <string>

namespace kvase::cli {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows the text, a few times a second at most. With a share of all work that is done, the time that is
  // left too.
  void update(const std::string& text, double share_done = 0);
  void clear();  // before something else is written

 private:
  using Clock = std::chrono::steady_clock;
  bool shown_;
  bool dirty_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = {};
};

}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// The line, its rate, and the time that is left.
#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/format.h"

namespace kvase::cli {

ProgressLine::ProgressLine() : shown_(isatty(STDERR_FILENO) == 1) {}

void ProgressLine::update(const std::string& text, double share_done) {
  const Clock::time_point now = Clock::now();
  if (!shown_ || now - last_ < std::chrono::milliseconds(200)) return;
  last_ = now;
  dirty_ = true;
  fmt::print(stderr, "\r\033[K{}", text);
  if (share_done <= 0.01 || share_done >= 1) return;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  fmt::print(stderr, ", about {} left", human_seconds(elapsed * (1 - share_done) / share_done));
}

void ProgressLine::clear() {
  if (dirty_) fmt::print(stderr, "\r\033[K");
  dirty_ = false;
}

}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// Ctrl-C as a wish: the first one asks the work to stop where it can, the second one kills.
#pragma once

#include <csignal>

namespace kvase::cli {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();  // puts the previous handling back
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static bool requested();

 private:
  struct sigaction saved_ = {};
};

}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// Ctrl-C as a wish.
#include "cli/interrupt.h"

#include <atomic>

namespace kvase::cli {
namespace {

std::atomic<bool> g_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch nothing else");

void on_signal(int) { g_requested = true; }

}  // namespace

Interrupt::Interrupt() {
  g_requested = false;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  // SA_RESETHAND: the second Ctrl-C ends the process, whatever it is doing.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, &saved_);
}

Interrupt::~Interrupt() { sigaction(SIGINT, &saved_, nullptr); }

bool Interrupt::requested() { return g_requested; }

}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// Submits everything, steps until done, says how far it is.
#include "cli/many.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "cli/interrupt.h"

namespace kvase::cli {
namespace {

// A line on a terminal that is overwritten a few times a second.
class Progress {
 public:
  void update(size_t n_done, size_t n_jobs, size_t n_running) {
    const auto now = std::chrono::steady_clock::now();
    if (!shown_ || now - last_ < std::chrono::milliseconds(200)) return;
    last_ = now;
    fmt::print(stderr, "\r\033[K{} of {} answered, {} running", n_done, n_jobs, n_running);
    dirty_ = true;
  }
  void clear() {
    if (dirty_) fmt::print(stderr, "\r\033[K");
    dirty_ = false;
  }

 private:
  bool shown_ = isatty(STDERR_FILENO) == 1;
  bool dirty_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace

bool answer_many(Engine& engine, const std::vector<Job>& jobs, const MakeRequest& make_request,
                 const OnAnswer& on_answer) {
  const Interrupt interrupt;
  Progress progress;
  Batch batch(engine);
  size_t n_done = 0;
  for (const Job& job : jobs) {
    batch.submit(make_request(job), {}, [&](const GenerateResult& result) {
      ++n_done;
      progress.clear();
      on_answer(job, result);
    });
  }
  while (batch.step()) {
    if (Interrupt::requested()) {
      progress.clear();
      return false;
    }
    progress.update(n_done, jobs.size(), batch.n_running());
  }
  progress.clear();
  return true;
}

}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// Submits everything, steps until done, says how far it is.
#include "cli/many.h"

#include <fmt/format.h>

#include "cli/interrupt.h"
#include "cli/progress.h"

namespace kvase::cli {

bool answer_many(Engine& engine, const std::vector<Job>& jobs, const MakeRequest& make_request,
                 const OnAnswer& on_answer) {
  const Interrupt interrupt;
  ProgressLine progress;
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
    progress.update(fmt::format("{} of {} answered, {} running", n_done, jobs.size(), batch.n_running()));
  }
  progress.clear();
  return true;
}

}  // namespace kvase::cli

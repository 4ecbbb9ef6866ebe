// SPDX-License-Identifier: MIT
// Answers to many jobs on one engine, side by side, shown or written as they are done.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/jobs.h"
#include "kvase/generate.h"

namespace kvase::cli {

// What a job asks of the model; the seed is filled in here.
using MakeRequest = std::function<GenerateRequest(const Job&)>;
// Called in the order in which answers are done.
using OnAnswer = std::function<void(const Job&, const GenerateResult&)>;

// Progress goes to stderr where that is a terminal. Returns false if Ctrl-C ended it; answers that were
// running are dropped. Throws what make_request and Batch throw, before anything runs if a request is bad.
bool answer_many(Engine& engine, const std::vector<Job>& jobs, const MakeRequest& make_request,
                 const OnAnswer& on_answer);

}  // namespace kvase::cli

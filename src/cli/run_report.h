// SPDX-License-Identifier: MIT
// What `run` and `chat` say about their cache, on stderr.
#pragma once

#include <string>

#include "kvase/options.h"
#include "kvase/plan.h"

namespace kvase::cli {

// "256 slots per head: budget 192 + interval 64, window 64, sinks 4".
std::string shape_text(const MemoryPlan& plan);

// The promise: so many bytes, for any length.
void print_memory_line(const MemoryPlan& plan);

// Options that were given and do nothing.
void warn_about_options(const CacheOptions& cache, const MemoryPlan& plan);

}  // namespace kvase::cli

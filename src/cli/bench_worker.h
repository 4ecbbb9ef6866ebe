// SPDX-License-Identifier: MIT
// The process that measures one engine: answers `start`, `clear`, `fill`, `decode` and `peak`.
#pragma once

namespace kvase::cli {

inline constexpr const char* kBenchWorkerFlag =
    "--worker";  // not in the help: only `kvase bench` itself gives it

// Returns the exit status.
int run_bench_worker();

}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// libllama on the same file, as the peer in benchmarks, through its public C API.
#pragma once

#include <memory>

#include "cli/bench_engine.h"

namespace kvase::cli {

// Its defaults, but for: the processor alone, the same threads and step size as ours, keys and values in f16,
// one thread pool for the process's life (it would otherwise start threads for every step). Throws Error:
// unsupported if libllama cannot load the model, out_of_memory if it cannot make the context.
std::unique_ptr<BenchEngine> make_peer(const BenchSetup& setup);

}  // namespace kvase::cli

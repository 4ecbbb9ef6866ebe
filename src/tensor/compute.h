// SPDX-License-Identifier: MIT
// The one backend and the one thread pool: runs graphs, and host loops on the same threads.
#pragma once

#include <cstdint>
#include <functional>

#include "tensor/handles.h"

namespace kvase {

class Compute {
 public:
  // REQUIRES: n_threads >= 1. Throws Error(device) if the backend or its threads cannot be made.
  explicit Compute(uint32_t n_threads);

  ggml_backend_t backend() const { return backend_.get(); }
  uint32_t n_threads() const { return n_threads_; }

  // Throws Error(device) if the backend reports failure.
  void run(ggml_cgraph* graph);

  // Calls body(index, thread) for index 0..n - 1, each once, on the pool's threads; thread is 0..n_threads
  // - 1. Indices are handed out as threads become free, so results must not depend on which thread ran what.
  // Rethrows the first exception.
  void parallel_for(uint32_t n, const std::function<void(uint32_t index, uint32_t thread)>& body);

 private:
  uint32_t n_threads_;
  GgmlThreadpool threadpool_;  // outlives the backend, which holds a pointer to it
  GgmlBackend backend_;
};

}  // namespace kvase

// SPDX-License-Identifier: MIT
// CPU backend with a thread pool of its own; parallel_for is a graph of one custom node.
#include "tensor/compute.h"

#include <array>
#include <atomic>
#include <exception>
#include <mutex>

#include "base/errors.h"

namespace kvase {
namespace {

struct Loop {
  const std::function<void(uint32_t, uint32_t)>* body = nullptr;
  uint32_t n = 0;
  std::atomic<uint32_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;  // guarded by mutex
};

// No exception may cross ggml's C frames.
void run_loop(ggml_tensor*, int ith, int, void* userdata) {
  Loop& loop = *static_cast<Loop*>(userdata);
  try {
    for (uint32_t index = loop.next++; index < loop.n; index = loop.next++) {
      (*loop.body)(index, static_cast<uint32_t>(ith));
    }
  } catch (...) {
    const std::lock_guard lock(loop.mutex);
    if (!loop.error) loop.error = std::current_exception();
    loop.next = loop.n;
  }
}

}  // namespace

Compute::Compute(uint32_t n_threads) : n_threads_(n_threads) {
  ggml_threadpool_params params = ggml_threadpool_params_default(static_cast<int>(n_threads));
  threadpool_.reset(ggml_threadpool_new(&params));
  backend_.reset(ggml_backend_cpu_init());
  if (!threadpool_ || !backend_)
    fail(ErrorCode::device, "cannot start ggml's CPU backend with {} threads", n_threads);
  ggml_backend_cpu_set_n_threads(backend_.get(), static_cast<int>(n_threads));
  ggml_backend_cpu_set_threadpool(backend_.get(), threadpool_.get());
}

void Compute::run(ggml_cgraph* graph) {
  const ggml_status status = ggml_backend_graph_compute(backend_.get(), graph);
  if (status != GGML_STATUS_SUCCESS) {
    fail(ErrorCode::device, "ggml failed to compute a graph: {}", ggml_status_to_string(status));
  }
}

void Compute::parallel_for(uint32_t n, const std::function<void(uint32_t, uint32_t)>& body) {
  Loop loop;
  loop.body = &body;
  loop.n = n;
  // One node and its graph; the node's own four bytes are never read.
  alignas(GGML_MEM_ALIGN) std::array<std::byte, 4096> memory;
  const GgmlContext context(
      ggml_init({.mem_size = memory.size(), .mem_buffer = memory.data(), .no_alloc = true}));
  ggml_tensor* node =
      ggml_custom_4d(context.get(), GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, run_loop, GGML_N_TASKS_MAX, &loop);
  float unused = 0;
  node->data = &unused;
  ggml_cgraph* graph = ggml_new_graph_custom(context.get(), 8, false);
  ggml_build_forward_expand(graph, node);
  run(graph);
  if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace kvase

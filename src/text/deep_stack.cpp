// SPDX-License-Identifier: MIT
// std::thread cannot choose its stack, pthreads can.
#include "text/deep_stack.h"

#include <pthread.h>

#include <exception>

#include "base/errors.h"

namespace kvase {
namespace {

struct Job {
  const std::function<void()>* work = nullptr;
  std::exception_ptr failure;
};

void* run(void* data) {
  Job& job = *static_cast<Job*>(data);
  try {
    (*job.work)();
  } catch (...) {
    job.failure = std::current_exception();
  }
  return nullptr;
}

}  // namespace

void run_on_deep_stack(size_t stack_bytes, const std::function<void()>& work) {
  constexpr size_t kBase = size_t{1} << 20;  // for what is not recursion
  constexpr size_t kPage = size_t{1} << 16;  // a multiple of every system's page
  const size_t bytes = (stack_bytes / kPage + 1) * kPage + kBase;
  Job job{&work, nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_t thread{};
  const bool started = pthread_attr_setstacksize(&attributes, bytes) == 0 &&
                       pthread_create(&thread, &attributes, &run, &job) == 0;
  pthread_attr_destroy(&attributes);
  if (!started)
    fail(ErrorCode::out_of_memory, "no memory for a stack of {} bytes, use a shorter text", bytes);
  pthread_join(thread, nullptr);
  if (job.failure) std::rethrow_exception(job.failure);
}

}  // namespace kvase

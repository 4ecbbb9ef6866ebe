// SPDX-License-Identifier: MIT
// Owning handles of ggml's C objects.
#pragma once

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <memory>

namespace kvase {

template <auto Free>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

using GgmlContext = std::unique_ptr<ggml_context, FreeWith<ggml_free>>;
using GgmlBuffer = std::unique_ptr<ggml_backend_buffer, FreeWith<ggml_backend_buffer_free>>;
using GgmlBackend = std::unique_ptr<ggml_backend, FreeWith<ggml_backend_free>>;
using GgmlThreadpool = std::unique_ptr<ggml_threadpool, FreeWith<ggml_threadpool_free>>;
using GgmlGraphAllocator = std::unique_ptr<ggml_gallocr, FreeWith<ggml_gallocr_free>>;

}  // namespace kvase

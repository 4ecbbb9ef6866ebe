// SPDX-License-Identifier: MIT
// Tensors that are declared first and then allocated together, in one buffer, once.
//
// A plan declares the same tensors and stops before allocate(): that is why both give the same bytes.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>

#include "tensor/handles.h"

namespace kvase {

class Arena {
 public:
  explicit Arena(size_t max_tensors);

  // Declares a tensor, fastest dimension first. REQUIRES: not allocated yet, dimensions >= 1.
  // Throws Error(invalid_argument) if its bytes do not fit into a size_t.
  ggml_tensor* add(ggml_type type, std::initializer_list<int64_t> shape, const std::string& name);

  // Allocates and zeroes every declared tensor, so that each page is resident from now on. Throws
  // Error(out_of_memory).
  void allocate(ggml_backend_t backend);

  // Sum of the declared tensors' bytes, without alignment between them.
  size_t bytes() const { return bytes_; }

 private:
  GgmlContext context_;
  GgmlBuffer buffer_;
  size_t bytes_ = 0;
};

}  // namespace kvase

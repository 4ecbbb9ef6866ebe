// SPDX-License-Identifier: MIT
// The check behind every shape comment.
#pragma once

#include <ggml.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>

#include "base/check.h"

namespace kvase {

// REQUIRES: `tensor` is contiguous, of this type and of exactly these dimensions, fastest first; missing ones
// are 1.
inline void check_shape(const ggml_tensor* tensor, ggml_type type, std::initializer_list<int64_t> shape,
                        const char* name) {
  std::array<int64_t, GGML_MAX_DIMS> expected = {1, 1, 1, 1};
  size_t dim = 0;
  for (const int64_t extent : shape) expected[dim++] = extent;
  const bool same = std::equal(expected.begin(), expected.end(), tensor->ne);
  KVASE_CHECK(same && tensor->type == type && ggml_is_contiguous(tensor),
              "{} is {} [{}, {}, {}, {}], must be contiguous {} [{}, {}, {}, {}]", name,
              ggml_type_name(tensor->type), tensor->ne[0], tensor->ne[1], tensor->ne[2], tensor->ne[3],
              ggml_type_name(type), expected[0], expected[1], expected[2], expected[3]);
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Products and sums of sizes that say so when they do not fit.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "base/errors.h"

namespace kvase {

// The product in bytes, or Error(invalid_argument) naming `what`.
inline size_t checked_product(std::initializer_list<size_t> factors, const char* what) {
  size_t product = 1;
  for (const size_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) {
      invalid("{}: more bytes than this machine can address, use a smaller budget", what);
    }
  }
  return product;
}

inline size_t checked_sum(size_t a, size_t b, const char* what) {
  size_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    invalid("{}: more bytes than this machine can address, use a smaller budget", what);
  }
  return sum;
}

}  // namespace kvase

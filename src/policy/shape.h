// SPDX-License-Identifier: MIT
// Whether a cache's numbers fit together, and fit a policy.
#pragma once

#include "kvase/policy.h"

namespace kvase {

inline constexpr uint32_t kMaxInterval = 65536;    // tokens
inline constexpr uint32_t kMaxSlots = 2147483647;  // capacity; positions are int32

// Below it more slots would be protected than may stay.
inline uint64_t min_budget(const CacheShape& shape) { return uint64_t{shape.window} + shape.n_sink + 1; }

// The rules of every method, then the method's own (Policy::check). Nothing is asked of a policy that never
// evicts. Throws Error(invalid_argument) naming the flag, what was found and what is allowed. With
// +pyramid, `shape` is the average; pyramid_budgets() checks the layers.
void check_shape(const ParsedPolicy& policy, const CacheShape& shape);

}  // namespace kvase

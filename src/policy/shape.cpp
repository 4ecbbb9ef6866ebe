// SPDX-License-Identifier: MIT
// The rules that budget, interval, window and sinks obey.
#include "policy/shape.h"

#include <algorithm>

#include "base/errors.h"
#include "policy/tier.h"

namespace kvase {

void check_shape(const ParsedPolicy& policy, const CacheShape& shape) {
  if (!policy.policy->evicts()) return;
  const std::vector<Statistic> statistics = policy.policy->needs().statistics;
  const bool needs_mass = std::ranges::find(statistics, Statistic::mass) != statistics.end();

  if (shape.interval < 1 || shape.interval > kMaxInterval) {
    invalid("--kv-interval {}, allowed: 1..{}", shape.interval, kMaxInterval);
  }
  // Mass comes from the queries of this very interval, so the window cannot be longer (nor empty: a mean over
  // nothing).
  const uint32_t min_window = needs_mass ? 1 : 0;
  if (shape.window < min_window || shape.window > shape.interval) {
    invalid("--kv-window {}, allowed: {}..{} (interval {})", shape.window, min_window, shape.interval,
            shape.interval);
  }
  if (shape.budget < min_budget(shape)) {
    invalid("--kv-budget {}, allowed: at least {} (window {} + sinks {} + 1)", shape.budget,
            min_budget(shape), shape.window, shape.n_sink);
  }
  if (uint64_t{shape.budget} + shape.interval > kMaxSlots) {
    invalid("--kv-budget {}, allowed: at most {}", shape.budget, kMaxSlots - shape.interval);
  }
  policy.policy->check(shape);
  if (policy.tier) most_recruits(policy, shape);
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// What holds in every cache between two steps, whatever the policy.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kvase/kvase.h"

namespace kvase {

// Invariants of a cache between two steps.
inline void expect_invariants(const Engine& engine, SequenceId sequence, int64_t n_seen,
                              const std::string& when) {
  SCOPED_TRACE(when);
  const MemoryPlan& plan = engine.plan();
  const CacheState state = engine.state(sequence);
  EXPECT_EQ(state.n_seen, n_seen) << "the count of tokens seen, never of rows kept";
  const bool has_tier = parse_policy(engine.options().cache.policy).tier.has_value();
  EXPECT_LE(state.n_kept, plan.capacity + (has_tier ? (plan.capacity - plan.shape.interval) / 2 : 0));
  const ModelInfo& model = engine.model().info();
  for (uint32_t layer = 0; layer < model.n_layers; ++layer) {
    for (uint32_t kv_head = 0; kv_head < model.n_kv_heads; ++kv_head) {
      const std::vector<int32_t> kept = engine.kept_positions(sequence, layer, kv_head);
      ASSERT_LE(kept.size(), state.n_kept) << "n_kept is the largest over layers";
      EXPECT_EQ(std::ranges::adjacent_find(kept), kept.end()) << "a position twice";
      EXPECT_GE(kept.front(), 0);
      EXPECT_LT(kept.back(), n_seen);
      const auto window = std::min<int64_t>(plan.shape.window, n_seen);
      EXPECT_EQ(kept[kept.size() - static_cast<size_t>(window)], n_seen - window) << "the window is whole";
      const auto n_sink = std::min<int64_t>(plan.shape.n_sink, n_seen);
      for (int32_t pos = 0; pos < n_sink; ++pos)
        EXPECT_EQ(kept[static_cast<size_t>(pos)], pos) << "sinks are tokens of the whole text";
    }
  }
}

}  // namespace kvase

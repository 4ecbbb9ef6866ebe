// SPDX-License-Identifier: MIT
// knorm on five slots: the two smallest norms stay with the window.
#include <gtest/gtest.h>

#include "kvase/policy.h"

namespace kvase {
namespace {

TEST(Knorm, KeepsTheSmallestNorms) {
  const std::vector<int32_t> pos = {3, 0, 4, 1, 2};  // slots lie in no order
  const std::vector<float> norms = {2.0f, 9.0f, 7.0f, 1.0f, 5.0f};
  HeadView head;
  head.pos = pos;
  head.columns[static_cast<size_t>(Statistic::k_l2)] = norms;
  const LayerView layer{.heads = {&head, 1}, .budget = 3, .n_mass_rows = 1};
  EventContext event;
  event.n_seen = 5;
  event.window = 1;  // pos 4, slot 2

  const ParsedPolicy parsed = parse_policy("knorm");
  const Verdict verdict = parsed.policy->decide(layer, event);

  EXPECT_EQ(verdict.heads[0].drop, (std::vector<uint32_t>{1, 4}));
}

}  // namespace
}  // namespace kvase

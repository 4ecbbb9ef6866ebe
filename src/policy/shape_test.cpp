// SPDX-License-Identifier: MIT
// Budget, interval, window and sinks: what fits together.
#include "policy/shape.h"

#include <gtest/gtest.h>

namespace kvase {
namespace {

std::string message_of(const char* policy, const CacheShape& shape) {
  try {
    check_shape(parse_policy(policy), shape);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

TEST(CheckShape, TheSmallestBudgetIsWindowPlusSinksPlusOne) {
  const CacheShape shape = {.budget = 69, .interval = 64, .window = 64, .n_sink = 4};
  for (const PolicyInfo& info : list_policies()) EXPECT_EQ(message_of(info.name.c_str(), shape), "accepted");

  CacheShape smaller = shape;
  smaller.budget = 68;
  EXPECT_EQ(message_of("streaming-llm", smaller),
            "--kv-budget 68, allowed: at least 69 (window 64 + sinks 4 + 1)");
  smaller.budget = 0;
  EXPECT_EQ(message_of("snapkv", smaller), "--kv-budget 0, allowed: at least 69 (window 64 + sinks 4 + 1)");
  smaller.n_sink = 4294967295;
  EXPECT_EQ(message_of("snapkv", smaller),
            "--kv-budget 0, allowed: at least 4294967360 (window 64 + sinks 4294967295 + 1)");
}

TEST(CheckShape, WindowLiesInsideTheInterval) {
  EXPECT_EQ(message_of("snapkv", {.budget = 512, .interval = 64, .window = 65, .n_sink = 0}),
            "--kv-window 65, allowed: 1..64 (interval 64)");
  EXPECT_EQ(message_of("vase-attnv", {.budget = 512, .interval = 64, .window = 0, .n_sink = 0}),
            "--kv-window 0, allowed: 1..64 (interval 64)");
  EXPECT_EQ(message_of("cur-norms", {.budget = 512, .interval = 64, .window = 65, .n_sink = 0}),
            "--kv-window 65, allowed: 0..64 (interval 64)");
  EXPECT_EQ(message_of("cur-norms", {.budget = 512, .interval = 64, .window = 0, .n_sink = 0}), "accepted");
}

TEST(CheckShape, IntervalAndCapacityHaveLimits) {
  EXPECT_EQ(message_of("window", {.budget = 512, .interval = 0, .window = 0, .n_sink = 0}),
            "--kv-interval 0, allowed: 1..65536");
  EXPECT_EQ(message_of("window", {.budget = 512, .interval = 65537, .window = 0, .n_sink = 0}),
            "--kv-interval 65537, allowed: 1..65536");
  EXPECT_EQ(message_of("window", {.budget = 2147483584, .interval = 64, .window = 0, .n_sink = 0}),
            "--kv-budget 2147483584, allowed: at most 2147483583");
}

TEST(CheckShape, AsksTheMethodToo) {
  const CacheShape shape = {.budget = 512, .interval = 64, .window = 64, .n_sink = 4};
  EXPECT_EQ(message_of("vase-attnv:n_large=449", shape),
            "vase-attnv: n_large=449, allowed: 0..448 (budget 512 - window 64)");
  EXPECT_EQ(message_of("vase-attnv:n_large=448", shape), "accepted");
}

TEST(CheckShape, FullHasNoShape) { EXPECT_EQ(message_of("full", {}), "accepted"); }

}  // namespace
}  // namespace kvase

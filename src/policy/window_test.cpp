// SPDX-License-Identifier: MIT
// window and streaming-llm: age and sink-ness come from `pos` alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/synthetic.h"

namespace kvase {
namespace {

using testing::ElementsAre;

std::vector<std::set<int32_t>> kept(const char* policy, oracle::Layer& layer, const EventContext& event) {
  return synthetic::kept_positions(layer, parse_policy(policy).policy->decide(layer.view(), event));
}

TEST(Window, KeepsTheNewest) {
  oracle::Layer layer = synthetic::small_layer(std::vector<float>(10), {}, 5);
  EXPECT_THAT(kept("window", layer, synthetic::small_event(10, 2))[0], ElementsAre(5, 6, 7, 8, 9));
}

TEST(StreamingLlm, KeepsSinksAndTheNewest) {
  oracle::Layer layer = synthetic::small_layer(std::vector<float>(10), {}, 5);
  EXPECT_THAT(kept("streaming-llm", layer, synthetic::small_event(10, 2, 2))[0], ElementsAre(0, 1, 7, 8, 9));
}

// After events slots lie in no order: the first slots are no sinks and the last are not the newest.
TEST(StreamingLlm, SlotsInAnyOrder) {
  oracle::Layer layer = synthetic::small_layer(std::vector<float>(6), {}, 4);
  layer.heads[0].pos = {41, 0, 99, 57, 100, 1};
  EventContext event = synthetic::small_event(101, 1, 2);
  EXPECT_THAT(kept("streaming-llm", layer, event)[0], ElementsAre(0, 1, 99, 100));
  event.n_sink = 0;
  EXPECT_THAT(kept("window", layer, event)[0], ElementsAre(41, 57, 99, 100));
}

// Sinks are the first tokens of the text, not of what is left of it.
TEST(StreamingLlm, AnEvictedSinkHasNoHeir) {
  oracle::Layer layer = synthetic::small_layer(std::vector<float>(5), {}, 3);
  layer.heads[0].pos = {10, 11, 12, 13, 14};
  EXPECT_THAT(kept("streaming-llm", layer, synthetic::small_event(15, 1, 2))[0], ElementsAre(12, 13, 14));
}

}  // namespace
}  // namespace kvase

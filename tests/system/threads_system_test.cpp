// SPDX-License-Identifier: MIT
// Two threads give the text that one gives. Apart from the other tests, since two threads want two
// processors.
#include <gtest/gtest.h>

#include "system/policies.h"

namespace kvase {
namespace {

class EveryPolicy : public testing::TestWithParam<std::string> {};

TEST_P(EveryPolicy, AnyNumberOfThreadsGivesTheSameText) {
  const std::vector<Token> prompt = random_tokens(90, toy_model().info().n_vocab, 6);
  EngineOptions options = options_for(GetParam(), {40, 16});
  Engine one(toy_model(), options);
  options.n_threads = 2;
  Engine two(toy_model(), options);
  EXPECT_EQ(greedy(one, prompt, 40, {.seed = 5}), greedy(two, prompt, 40, {.seed = 5}));
}

INSTANTIATE_TEST_SUITE_P(Table, EveryPolicy, testing::ValuesIn(evicting_policies()), test_name);

}  // namespace
}  // namespace kvase

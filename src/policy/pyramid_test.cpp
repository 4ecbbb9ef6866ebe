// SPDX-License-Identifier: MIT
// +pyramid: exact totals, the reference's progression, and what cannot be had.
#include "policy/pyramid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "golden/golden_file.h"
#include "policy/shape.h"

namespace kvase {
namespace {

CacheShape shape_of(uint32_t budget, uint32_t window, uint32_t n_sink = 0) {
  return {.budget = budget, .interval = 64, .window = window, .n_sink = n_sink};
}

// 100 slots outside the window on average: the last layer has a fifth, the first the rest of 200.
TEST(Pyramid, IsAnArithmeticProgression) {
  EXPECT_THAT(pyramid_budgets(5, shape_of(108, 8), {.beta = 5}), testing::ElementsAre(188, 148, 108, 68, 28));
  EXPECT_THAT(pyramid_budgets(4, shape_of(108, 8), {.beta = 5}), testing::ElementsAre(188, 135, 81, 28));
  EXPECT_THAT(pyramid_budgets(3, shape_of(108, 8), {.beta = 1}), testing::ElementsAre(108, 108, 108));
  EXPECT_THAT(pyramid_budgets(1, shape_of(108, 8), {.beta = 5}), testing::ElementsAre(108));
}

TEST(Pyramid, TotalIsExactAndLayersNeverGrow) {
  for (const uint32_t n_layers : {2U, 3U, 28U, 36U, 61U}) {
    for (uint32_t budget = 200; budget < 320; ++budget) {
      const CacheShape shape = shape_of(budget, 64, 4);
      const std::vector<uint32_t> budgets = pyramid_budgets(n_layers, shape, {.beta = 20});
      EXPECT_EQ(std::accumulate(budgets.begin(), budgets.end(), 0U), n_layers * budget);
      EXPECT_TRUE(std::ranges::is_sorted(budgets, std::greater{}));
      EXPECT_GE(budgets.back(), min_budget(shape));
    }
  }
}

// The reference spreads what rounding leaves from the first layer on, so a layer may differ by one slot.
TEST(Pyramid, AgreesWithTheReference) {
  const golden::File file(golden::folder() + "/pyramid.gguf");
  uint32_t n_cases = 0;
  for (; file.has("case_" + std::to_string(n_cases)); ++n_cases) {
    const std::vector<int32_t> numbers = file.tensor<int32_t>("case_" + std::to_string(n_cases));
    const std::span<const int32_t> expected = std::span(numbers).subspan(4);
    const auto number = [&](size_t index) { return static_cast<uint32_t>(numbers[index]); };
    const std::vector<uint32_t> budgets =
        pyramid_budgets(static_cast<uint32_t>(expected.size()), shape_of(number(0), number(1), number(2)),
                        {.beta = number(3)});
    for (size_t layer = 0; layer < budgets.size(); ++layer)
      EXPECT_NEAR(budgets[layer], expected[layer], 1) << "case " << n_cases << " layer " << layer;
  }
  EXPECT_EQ(n_cases, 8U);
}

TEST(Pyramid, RefusesALayerThatCannotHoldWhatIsProtected) {
  EXPECT_NO_THROW(pyramid_budgets(28, shape_of(164, 64, 4), {.beta = 20}));
  try {
    pyramid_budgets(28, shape_of(163, 64, 4), {.beta = 20});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_STREQ(
        error.what(),
        "--kv-budget 163 with +pyramid:beta=20: found 68 slots for the last layer, allowed: at least "
        "69 (window 64 + sinks 4 + 1), so a budget of at least 164");
  }
}

TEST(Pyramid, IsListedWithItsOption) {
  const std::vector<ModifierInfo> modifiers = list_modifiers();
  ASSERT_FALSE(modifiers.empty());
  EXPECT_EQ(modifiers[0].name, "pyramid");
  EXPECT_FALSE(modifiers[0].summary.empty() || modifiers[0].paper.empty());
  EXPECT_EQ(modifiers[0].params.at(0).name, "beta");
}

}  // namespace
}  // namespace kvase

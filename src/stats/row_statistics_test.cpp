// SPDX-License-Identifier: MIT
// Row statistics against numbers worked out by hand.
#include "stats/row_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace kvase {
namespace {

TEST(RowStatistics, OfOneRow) {
  const std::vector<float> key = {3, 0, -4, 0};
  const std::vector<float> value = {1, -2, 5, 0};
  EXPECT_FLOAT_EQ(row_statistic(Statistic::k_l2, key, value), 5);
  EXPECT_FLOAT_EQ(row_statistic(Statistic::v_range, key, value), 7);
  EXPECT_FLOAT_EQ(row_statistic(Statistic::v_absmax, key, value), 5);
  EXPECT_FLOAT_EQ(row_statistic(Statistic::v_l2, key, value), std::sqrt(30.0F));
  EXPECT_FLOAT_EQ(row_statistic(Statistic::v_var, key, value), 26.0F / 3) << "unbiased, mean 1";
}

TEST(RowStatistics, OfAConstantOrSingleChannel) {
  const std::vector<float> constant(8, -2.5F);
  EXPECT_EQ(row_statistic(Statistic::v_range, constant, constant), 0);
  EXPECT_EQ(row_statistic(Statistic::v_var, constant, constant), 0);
  const std::vector<float> single = {7};
  EXPECT_EQ(row_statistic(Statistic::v_var, single, single), 0);
}

}  // namespace
}  // namespace kvase

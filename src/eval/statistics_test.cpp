// SPDX-License-Identifier: MIT
// Against numbers worked out by hand.
#include "eval/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kvase/error.h"

namespace kvase::eval {
namespace {

TEST(Statistics, MeanAndItsError) {
  const Estimate result = estimate(std::vector<double>{1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(result.mean, 2.5);
  EXPECT_NEAR(result.standard_error, std::sqrt(5.0 / 3 / 4), 1e-15);
  EXPECT_EQ(result.n, 4U);
  EXPECT_TRUE(std::isnan(estimate(std::vector<double>{1}).standard_error));
  EXPECT_TRUE(std::isnan(estimate({}).mean));
}

TEST(Statistics, WhatPairsShareCancels) {
  const std::vector<double> a = {101, 202, 303}, b = {100, 200, 300};
  const Estimate result = paired_difference(a, b);
  EXPECT_DOUBLE_EQ(result.mean, 2);
  EXPECT_NEAR(result.standard_error, 1 / std::sqrt(3.0), 1e-15);
  EXPECT_THROW(paired_difference(a, std::vector<double>{1}), Error);
}

TEST(Statistics, Quantile) {
  std::vector<double> samples;
  for (int value = 100; value >= 1; --value) samples.push_back(value);
  EXPECT_EQ(quantile(samples, 0.99), 99);
  EXPECT_EQ(quantile(samples, 1), 100);
  EXPECT_EQ(quantile(samples, 0.001), 1);
  EXPECT_EQ(quantile(std::vector<double>{5}, 0.99), 5);
}

TEST(Statistics, Shown) {
  EXPECT_EQ(show({0.01234, 0.00056, 9}, 4), "0.0123 ± 0.0006");
  EXPECT_EQ(show({0.01234, std::nan(""), 1}, 3, true), "+0.012");
  EXPECT_EQ(show({std::nan(""), std::nan(""), 0}, 3), "-");
}

}  // namespace
}  // namespace kvase::eval

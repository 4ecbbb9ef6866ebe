// SPDX-License-Identifier: MIT
// Streaming and merged moments against direct sums; the fit against normal equations solved another way.
#include "value_map/moments.h"

#include <ggml-cpu.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kvase/error.h"
#include "value_map/solve.h"

namespace kvase {
namespace {

struct Rows {
  uint32_t n_x = 0, n_y = 0, n = 0;
  std::vector<float> x, y;  // [channels, n]
};

// y = A x + 0.3 noise + offset, x with a mean far larger than its spread.
Rows some_rows(uint32_t n_x, uint32_t n_y, uint32_t n, float mean) {
  std::mt19937 random(n_x * 1000 + n);
  std::normal_distribution<float> normal;
  std::vector<float> mixing(size_t{n_x} * n_y);
  for (float& value : mixing) value = normal(random);
  Rows rows{n_x, n_y, n, {}, {}};
  for (uint32_t row = 0; row < n; ++row) {
    for (uint32_t channel = 0; channel < n_x; ++channel) rows.x.push_back(mean + normal(random));
    const float* x = rows.x.data() + size_t{row} * n_x;
    for (uint32_t out = 0; out < n_y; ++out) {
      float y = 0.3F * normal(random) - 5.0F;
      for (uint32_t in = 0; in < n_x; ++in) y += mixing[size_t{out} * n_x + in] * (x[in] - mean);
      rows.y.push_back(y);
    }
  }
  return rows;
}

Moments gathered(const Rows& rows, uint32_t first, uint32_t n) {
  Moments moments(rows.n_x, rows.n_y);
  MomentBlock block(rows.n_x, rows.n_y);
  for (uint32_t row = first; row < first + n; ++row)
    block.add(rows.x.data() + size_t{row} * rows.n_x, rows.y.data() + size_t{row} * rows.n_y, moments);
  block.flush(moments);
  return moments;
}

Moments direct(const Rows& rows) {
  Moments moments(rows.n_x, rows.n_y);
  moments.n = rows.n;
  const auto x = [&](size_t row, size_t channel) { return double{rows.x[row * rows.n_x + channel]}; };
  const auto y = [&](size_t row, size_t channel) { return double{rows.y[row * rows.n_y + channel]}; };
  for (size_t row = 0; row < rows.n; ++row) {
    for (size_t in = 0; in < rows.n_x; ++in) moments.mean_x[in] += x(row, in) / rows.n;
    for (size_t out = 0; out < rows.n_y; ++out) moments.mean_y[out] += y(row, out) / rows.n;
  }
  for (size_t row = 0; row < rows.n; ++row) {
    for (size_t in = 0; in < rows.n_x; ++in) {
      const double dx = x(row, in) - moments.mean_x[in];
      for (size_t other = 0; other < rows.n_x; ++other)
        moments.xx[in * rows.n_x + other] += dx * (x(row, other) - moments.mean_x[other]);
      for (size_t out = 0; out < rows.n_y; ++out)
        moments.xy[in * rows.n_y + out] += dx * (y(row, out) - moments.mean_y[out]);
    }
    for (size_t out = 0; out < rows.n_y; ++out)
      moments.yy[out] += std::pow(y(row, out) - moments.mean_y[out], 2);
  }
  return moments;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double bound) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t index = 0; index < found.size(); ++index)
    ASSERT_NEAR(found[index], expected[index], bound * (1 + std::abs(expected[index]))) << index;
}

void expect_same(const Moments& found, const Moments& expected) {
  EXPECT_EQ(found.n, expected.n);
  expect_near(found.mean_x, expected.mean_x, 1e-12);
  expect_near(found.mean_y, expected.mean_y, 1e-12);
  expect_near(found.xx, expected.xx, 1e-9);
  expect_near(found.xy, expected.xy, 1e-9);
  expect_near(found.yy, expected.yy, 1e-9);
}

TEST(Moments, StreamingEqualsDirect) {
  for (const auto& [n_x, n_y, n] :
       {std::array{5U, 3U, 900U}, {64U, 64U, 300U}, {33U, 17U, 128U}, {1U, 1U, 2U}})
    expect_same(gathered(some_rows(n_x, n_y, n, 1000.0F), 0, n), direct(some_rows(n_x, n_y, n, 1000.0F)));
}

TEST(Moments, MergedPartsEqualTheWhole) {
  const Rows rows = some_rows(20, 20, 700, 300.0F);
  Moments merged(20, 20);
  merged.merge(gathered(rows, 500, 200));
  merged.merge(Moments(20, 20));
  merged.merge(gathered(rows, 0, 13));
  merged.merge(gathered(rows, 13, 487));
  expect_same(merged, direct(rows));
}

TEST(Moments, PartIsThatOfTheChannels) {
  const Rows rows = some_rows(12, 12, 200, 2.0F);
  Rows head{4, 4, 200, {}, {}};
  for (size_t row = 0; row < rows.n; ++row) {
    for (size_t channel = 8; channel < 12; ++channel) {
      head.x.push_back(rows.x[row * 12 + channel]);
      head.y.push_back(rows.y[row * 12 + channel]);
    }
  }
  expect_same(gathered(rows, 0, 200).part(8, 4), direct(head));
}

TEST(Moments, NotANumberIsSeen) {
  Rows rows = some_rows(3, 3, 5, 0.0F);
  EXPECT_TRUE(gathered(rows, 0, 5).is_finite());
  rows.x[7] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(gathered(rows, 0, 5).is_finite());
}

class FitMap : public testing::Test {
 protected:
  FitMap() { ggml_cpu_init(); }
};

// The normal equations hold for the solution before rounding; f16 leaves a relative 2^-11 of each weight.
TEST_F(FitMap, SolvesTheNormalEquations) {
  const Rows rows = some_rows(24, 10, 3000, 1000.0F);
  const Moments moments = gathered(rows, 0, rows.n);
  const Fit fit = fit_map(moments, 0.01);
  double trace = 0;
  for (size_t in = 0; in < 24; ++in) trace += moments.xx[in * 24 + in];
  EXPECT_NEAR(fit.lambda, 0.01 * trace / 24, 1e-9 * trace);
  for (size_t in = 0; in < 24; ++in) {
    for (size_t out = 0; out < 10; ++out) {
      double left = fit.lambda * fit.weight[out * 24 + in], bound = 0;
      for (size_t other = 0; other < 24; ++other) {
        left += moments.xx[in * 24 + other] * fit.weight[out * 24 + other];
        bound += std::abs(moments.xx[in * 24 + other] * fit.weight[out * 24 + other]);
      }
      EXPECT_NEAR(left, moments.xy[in * 10 + out], bound * std::ldexp(1, -11)) << in << " " << out;
    }
  }
}

TEST_F(FitMap, ErrorsEqualThoseOfTheRows) {
  const Rows rows = some_rows(24, 10, 3000, 3.0F);
  const Fit fit = fit_map(gathered(rows, 0, 2500), 1e-4);
  const Moments held_out = gathered(rows, 2500, 500);
  FitErrors expected;
  for (size_t row = 2500; row < 3000; ++row) {
    for (size_t out = 4; out < 9; ++out) {
      const double y = rows.y[row * 10 + out];
      double predicted = fit.bias[out];
      for (size_t in = 0; in < 24; ++in)
        predicted += double{fit.weight[out * 24 + in]} * rows.x[row * 24 + in];
      expected.residual += std::pow(y - predicted, 2);
      expected.centred += std::pow(y - held_out.mean_y[out], 2);
      expected.uncentred += y * y;
    }
  }
  const FitErrors found = errors_of(fit, held_out, 4, 5);
  EXPECT_NEAR(found.residual, expected.residual, 1e-8 * expected.residual);
  EXPECT_NEAR(found.centred, expected.centred, 1e-8 * expected.centred);
  EXPECT_NEAR(found.uncentred, expected.uncentred, 1e-8 * expected.uncentred);
  EXPECT_GT(found.r2(), 0.98);
  EXPECT_LT(found.r2(), 1.0);
}

// x has three dimensions in twelve channels: only the ridge makes it solvable.
TEST_F(FitMap, DependentChannelsAreSolved) {
  const Rows base = some_rows(3, 3, 400, 0.0F);
  Rows rows{12, 12, 400, {}, {}};
  for (size_t row = 0; row < rows.n; ++row) {
    for (size_t channel = 0; channel < 12; ++channel) rows.x.push_back(base.x[row * 3 + channel / 4]);
  }
  rows.y = rows.x;
  const Moments moments = gathered(rows, 0, rows.n);
  const Fit fit = fit_map(moments, 0.0);
  EXPECT_GT(fit.lambda, 0.0);
  EXPECT_GT(errors_of(fit, moments, 0, 12).r2(), 0.9999);
}

TEST_F(FitMap, KeysThatAreNotNumbersAreRefused) {
  Moments moments(2, 2);
  moments.n = 10;
  moments.xx = {std::nan(""), 0, 0, 1};
  EXPECT_THROW(fit_map(moments, 1e-4), Error);
}

}  // namespace
}  // namespace kvase

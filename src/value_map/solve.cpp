// SPDX-License-Identifier: MIT
// Cholesky in f64, rounding, and sums of squares from moments.
#include "value_map/solve.h"

#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/errors.h"

namespace kvase {
namespace {

constexpr int kMostRetries = 24;

// The lower triangle L with L L^T = matrix + lambda I, or nothing if that is not positive definite.
std::optional<std::vector<double>> cholesky(const std::vector<double>& matrix, size_t n, double lambda) {
  std::vector<double> lower(n * n, 0.0);
  for (size_t row = 0; row < n; ++row) {
    for (size_t column = 0; column <= row; ++column) {
      double sum = matrix[row * n + column] + (row == column ? lambda : 0.0);
      for (size_t inner = 0; inner < column; ++inner)
        sum -= lower[row * n + inner] * lower[column * n + inner];
      if (row != column) {
        lower[row * n + column] = sum / lower[column * n + column];
      } else if (sum > 0 && std::isfinite(sum)) {
        lower[row * n + row] = std::sqrt(sum);
      } else {
        return std::nullopt;
      }
    }
  }
  return lower;
}

// Replaces right by (L L^T)^-1 right.
//   lower [n, n], right [n_columns, n]
void solve_triangles(const std::vector<double>& lower, size_t n, std::vector<double>& right,
                     size_t n_columns) {
  const auto subtract = [&](size_t row, size_t other, double factor) {
    for (size_t column = 0; column < n_columns; ++column)
      right[row * n_columns + column] -= factor * right[other * n_columns + column];
  };
  const auto divide = [&](size_t row) {
    for (size_t column = 0; column < n_columns; ++column)
      right[row * n_columns + column] /= lower[row * n + row];
  };
  for (size_t row = 0; row < n; ++row) {
    for (size_t other = 0; other < row; ++other) subtract(row, other, lower[row * n + other]);
    divide(row);
  }
  for (size_t row = n; row-- > 0;) {
    for (size_t other = row + 1; other < n; ++other) subtract(row, other, lower[other * n + row]);
    divide(row);
  }
}

float rounded_to_f16(double value) { return ggml_fp16_to_fp32(ggml_fp32_to_fp16(static_cast<float>(value))); }

}  // namespace

Fit fit_map(const Moments& moments, double ridge) {
  const size_t n_x = moments.n_x, n_y = moments.n_y;
  double trace = 0;
  for (size_t channel = 0; channel < n_x; ++channel) trace += moments.xx[channel * n_x + channel];
  const double scale = std::max(trace / static_cast<double>(n_x), std::numeric_limits<double>::min());
  Fit fit{.n_x = moments.n_x, .n_y = moments.n_y, .lambda = ridge * scale};
  auto lower = cholesky(moments.xx, n_x, fit.lambda);
  for (int retry = 0; !lower && retry < kMostRetries; ++retry) {
    fit.lambda = std::max(fit.lambda * 10, 1e-12 * scale);
    lower = cholesky(moments.xx, n_x, fit.lambda);
  }
  if (!lower) invalid("found keys that no ridge makes solvable, allowed: keys that are numbers and vary");
  std::vector<double> solution = moments.xy;
  solve_triangles(*lower, n_x, solution, n_y);
  fit.weight.resize(n_x * n_y);
  fit.bias.resize(n_y);
  for (size_t out = 0; out < n_y; ++out) {
    double predicted = 0;
    for (size_t in = 0; in < n_x; ++in) {
      const float weight = rounded_to_f16(solution[in * n_y + out]);
      if (!std::isfinite(weight)) {
        invalid("found weight {} in a map, allowed: the range of f16; use a larger --ridge",
                solution[in * n_y + out]);
      }
      fit.weight[out * n_x + in] = weight;
      predicted += double{weight} * moments.mean_x[in];
    }
    fit.bias[out] = static_cast<float>(moments.mean_y[out] - predicted);
  }
  return fit;
}

void FitErrors::add(const FitErrors& other) {
  residual += other.residual;
  centred += other.centred;
  uncentred += other.uncentred;
}

// Per channel: yy - 2 (W xy) + (W xx W^T) + n (mean_y - W mean_x - b)^2.
FitErrors errors_of(const Fit& fit, const Moments& moments, uint32_t first, uint32_t n) {
  const size_t n_x = fit.n_x, n_y = fit.n_y;
  const auto n_rows = static_cast<double>(moments.n);
  FitErrors errors;
  std::vector<double> product(n_x);  // xx w
  for (size_t out = first; out < first + n; ++out) {
    const float* weight = fit.weight.data() + out * n_x;
    std::ranges::fill(product, 0.0);
    double cross = 0, mean = 0, square = 0;
    for (size_t in = 0; in < n_x; ++in) {
      cross += double{weight[in]} * moments.xy[in * n_y + out];
      mean += double{weight[in]} * moments.mean_x[in];
      for (size_t other = 0; other < n_x; ++other)
        product[other] += weight[in] * moments.xx[in * n_x + other];
    }
    for (size_t in = 0; in < n_x; ++in) square += weight[in] * product[in];
    const double offset = moments.mean_y[out] - mean - double{fit.bias[out]};
    errors.residual += moments.yy[out] - 2 * cross + square + n_rows * offset * offset;
    errors.centred += moments.yy[out];
    errors.uncentred += moments.yy[out] + n_rows * moments.mean_y[out] * moments.mean_y[out];
  }
  return errors;
}

}  // namespace kvase

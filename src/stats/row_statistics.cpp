// SPDX-License-Identifier: MIT
// Range, variance and norms of a row; sums in f64.
#include "stats/row_statistics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace kvase {
namespace {

double l2(std::span<const float> row) {
  double sum = 0;
  for (const double x : row) sum += x * x;
  return std::sqrt(sum);
}

double range(std::span<const float> row) {
  const auto [low, high] = std::minmax_element(row.begin(), row.end());
  return double{*high} - double{*low};
}

// Unbiased: divided by head_dim - 1.
double variance(std::span<const float> row) {
  double mean = 0;
  for (const double x : row) mean += x;
  mean /= static_cast<double>(row.size());
  double sum = 0;
  for (const double x : row) sum += (x - mean) * (x - mean);
  return row.size() > 1 ? sum / static_cast<double>(row.size() - 1) : 0.0;
}

double absmax(std::span<const float> row) {
  double largest = 0;
  for (const float x : row) largest = std::max(largest, std::abs(double{x}));
  return largest;
}

}  // namespace

bool is_row_statistic(Statistic statistic) {
  switch (statistic) {
    case Statistic::v_range:
    case Statistic::v_var:
    case Statistic::v_l2:
    case Statistic::v_absmax:
    case Statistic::k_l2:
      return true;
    case Statistic::mass:
    case Statistic::k_sketch:
    case Statistic::v_sketch:
    case Statistic::k_mean_cos:
    case Statistic::k_mean_cos_all:
    case Statistic::k_leverage:
    case Statistic::v_leverage:
    case Statistic::k_redundancy:
    case Statistic::k_lag:
    case Statistic::v_lag:
    case Statistic::residual:
    case Statistic::mean_residual:
      return false;
  }
  return false;
}

bool is_event_statistic(Statistic statistic) {
  return statistic != Statistic::mass && statistic != Statistic::residual && !is_row_statistic(statistic);
}

float row_statistic(Statistic statistic, std::span<const float> key, std::span<const float> value) {
  switch (statistic) {
    case Statistic::v_range:
      return static_cast<float>(range(value));
    case Statistic::v_var:
      return static_cast<float>(variance(value));
    case Statistic::v_l2:
      return static_cast<float>(l2(value));
    case Statistic::v_absmax:
      return static_cast<float>(absmax(value));
    case Statistic::k_l2:
      return static_cast<float>(l2(key));
    default:
      break;
  }
  KVASE_CHECK(false, "statistic {} is not of one row", static_cast<int>(statistic));
  return 0;
}

}  // namespace kvase

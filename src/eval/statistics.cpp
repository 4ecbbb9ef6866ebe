// SPDX-License-Identifier: MIT
// Textbook formulas, in double.
#include "eval/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kvase/error.h"

namespace kvase::eval {

Estimate estimate(std::span<const double> samples) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  const auto n = static_cast<double>(samples.size());
  if (samples.empty()) return {kUnknown, kUnknown, 0};
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  if (samples.size() == 1) return {mean, kUnknown, 1};
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  return {mean, std::sqrt(squares / (n - 1) / n), samples.size()};
}

Estimate paired_difference(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size())
    throw Error(ErrorCode::internal,
                fmt::format("pairs of {} and {} samples, allowed: as many", a.size(), b.size()));
  std::vector<double> differences(a.size());
  std::ranges::transform(a, b, differences.begin(), std::minus<>());
  return estimate(differences);
}

double quantile(std::span<const double> samples, double share) {
  std::vector<double> sorted(samples.begin(), samples.end());
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size()) - 1e-9));
  const auto place = sorted.begin() + static_cast<ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::ranges::nth_element(sorted, place);
  return *place;
}

std::string show(const Estimate& estimate, int n_decimals, bool with_sign) {
  if (std::isnan(estimate.mean)) return "-";
  const std::string mean = with_sign ? fmt::format("{:+.{}f}", estimate.mean, n_decimals)
                                     : fmt::format("{:.{}f}", estimate.mean, n_decimals);
  return std::isnan(estimate.standard_error)
             ? mean
             : fmt::format("{} ± {:.{}f}", mean, estimate.standard_error, n_decimals);
}

}  // namespace kvase::eval

// SPDX-License-Identifier: MIT
// Means with their standard errors, paired where the same questions were put to both.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kvase::eval {

struct Estimate {
  double mean = 0;
  double standard_error = 0;  // of the mean, samples taken as independent; NaN for fewer than two
  size_t n = 0;
};

// NaN for no samples.
Estimate estimate(std::span<const double> samples);

// Of a - b, pair by pair: what both share, such as a hard passage or question, cancels.
// REQUIRES: a.size() == b.size().
Estimate paired_difference(std::span<const double> a, std::span<const double> b);

// The smallest sample that at least `share` of all samples do not exceed. REQUIRES: not empty, 0 < share
// <= 1.
double quantile(std::span<const double> samples, double share);

// "0.0123 ± 0.0004"; the sign always for a difference. "-" for NaN.
std::string show(const Estimate& estimate, int n_decimals, bool with_sign = false);

}  // namespace kvase::eval

// SPDX-License-Identifier: MIT
// The ridge regression of y on x from moments alone, and how well it does on other moments.
#pragma once

#include <cstdint>
#include <vector>

#include "value_map/moments.h"

namespace kvase {

struct Fit {
  uint32_t n_x = 0, n_y = 0;
  std::vector<float> weight = {};  // [n_x in, n_y out], rounded to f16, as the file stores it
  std::vector<float> bias = {};    // [n_y], of the rounded weights
  double lambda = 0;               // added to the diagonal of xx
};

// W^T = (xx + lambda I)^-1 xy with lambda = ridge * mean(diag xx), ten times that as often as xx + lambda I
// is not positive definite. Throws Error(invalid_argument) where no lambda helps or a weight leaves f16's
// range: rows that are not numbers, or that hardly vary.
Fit fit_map(const Moments& moments, double ridge);

// Sums over rows and over output channels first .. first + n - 1.
struct FitErrors {
  double residual = 0;   // of (y - W x - b)^2
  double centred = 0;    // of (y - mean)^2
  double uncentred = 0;  // of y^2
  void add(const FitErrors& other);
  double r2() const { return 1 - residual / centred; }
  double r2_uncentred() const { return 1 - residual / uncentred; }
};
FitErrors errors_of(const Fit& fit, const Moments& moments, uint32_t first, uint32_t n);

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Statistics of one exact row, taken when its token is appended.
#pragma once

#include <span>

#include "kvase/policy.h"

namespace kvase {

// True for the statistics that row_statistic() computes.
bool is_row_statistic(Statistic statistic);

// True for the statistics that are taken at an event, from the rows in use: all others but mass and residual.
bool is_event_statistic(Statistic statistic);

// REQUIRES: is_row_statistic(statistic).
//   key f32 [head_dim] after RoPE, value f32 [head_dim]; before they are rounded to the cache's types
float row_statistic(Statistic statistic, std::span<const float> key, std::span<const float> value);

}  // namespace kvase

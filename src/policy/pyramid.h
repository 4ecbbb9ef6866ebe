// SPDX-License-Identifier: MIT
// +pyramid: budgets per layer, in arithmetic progression, more for lower layers.
//
// Paper: Cai et al. 2024 (PyramidKV), arXiv:2406.02069. With c = budget - window slots outside the window on
// average, the last layer has c / beta of them, the first 2c less that, and those between lie on a line.
// Differs from the paper: fixed before the first token, as for a text without end. The paper's code, which
// runs once after the prompt, caps the first layer by the prompt's length; done again at every event from
// each layer's own length, the budgets drift upwards and the memory with them. Rounded so that layers l and
// n_layers - 1 - l have 2c together: the total is exactly n_layers * budget, which the paper's integer
// division misses.
#pragma once

#include <vector>

#include "kvase/policy.h"

namespace kvase {

ModifierInfo pyramid_info();
PyramidOptions make_pyramid(const Params& params);

// Slots per KV head left by an event, window included, per layer; never growing from one layer to the next.
//   shape  that of the cache; its budget is the average
// Throws Error(invalid_argument) if the last layer would get less than the smallest budget of check_shape().
// REQUIRES: shape.budget >= min_budget(shape).
std::vector<uint32_t> pyramid_budgets(uint32_t n_layers, const CacheShape& shape,
                                      const PyramidOptions& options);

}  // namespace kvase

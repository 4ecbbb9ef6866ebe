// SPDX-License-Identifier: MIT
// The progression in whole slots.
#include "policy/pyramid.h"

#include "base/errors.h"
#include "policy/params.h"
#include "policy/shape.h"

namespace kvase {

ModifierInfo pyramid_info() {
  ModifierInfo info;
  info.name = "pyramid";
  info.summary = "more slots for lower layers, fewer for higher ones, the same in all";
  info.paper = "Cai et al. 2024, arXiv:2406.02069";
  info.params = {integer_param(
      "beta", "20", 1, 1000, "the last layer keeps 1/beta of the average outside the window; 1: all alike")};
  info.notes = {
      "budgets are fixed before the first token, from the average alone; their sum is exact",
      "the budget must be at least window + beta * (sinks + 1)",
  };
  return info;
}

PyramidOptions make_pyramid(const Params& params) {
  return {.beta = static_cast<uint32_t>(params.integer("beta"))};
}

std::vector<uint32_t> pyramid_budgets(uint32_t n_layers, const CacheShape& shape,
                                      const PyramidOptions& options) {
  std::vector<uint32_t> budgets(n_layers, shape.budget);
  if (n_layers < 2) return budgets;
  const uint64_t average = shape.budget - shape.window;
  const uint64_t least = average / options.beta, most = 2 * average - least;
  if (shape.window + least < min_budget(shape)) {
    invalid(
        "--kv-budget {} with +pyramid:beta={}: found {} slots for the last layer, allowed: at least {} "
        "(window {} + sinks {} + 1), so a budget of at least {}",
        shape.budget, options.beta, shape.window + least, min_budget(shape), shape.window, shape.n_sink,
        shape.window + options.beta * (uint64_t{shape.n_sink} + 1));
  }
  const uint64_t n_steps = n_layers - 1;
  for (uint64_t layer = 0; layer < n_layers / 2; ++layer) {
    const uint64_t below = (2 * layer * (most - least) + n_steps) / (2 * n_steps);  // nearest whole number
    budgets[layer] = static_cast<uint32_t>(shape.window + most - below);
    budgets[n_steps - layer] = static_cast<uint32_t>(shape.window + 2 * average - (most - below));
  }
  return budgets;
}

}  // namespace kvase

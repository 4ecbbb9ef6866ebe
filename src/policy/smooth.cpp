// SPDX-License-Identifier: MIT
// Mean and maximum filters over candidates, by position or by rank.
#include "policy/smooth.h"

#include <algorithm>
#include <limits>

#include "base/errors.h"
#include "policy/params.h"
#include "policy/select.h"

namespace kvase {
namespace {

constexpr int64_t kMaxKernel = 63;

// Candidates in the order in which they are neighbours; any order if nothing is smoothed.
std::vector<uint32_t> neighbour_order(const HeadView& head, const EventContext& event,
                                      const Smoothing& smoothing) {
  std::vector<uint32_t> slots = candidate_slots(head, event);
  if (smoothing.kind == Smoothing::Kind::none) return slots;
  const std::span<const int32_t> place = smoothing.axis == Smoothing::Axis::slot ? head.rank : head.pos;
  std::ranges::sort(slots, {}, [&](uint32_t slot) { return place[slot]; });
  return slots;
}

// Summed afresh for every element: a running sum would carry a NaN, or a large value's rounding, to the end.
double mean_around(std::span<const double> values, size_t centre, uint32_t kernel) {
  const size_t half = kernel / 2;
  const size_t first = centre < half ? 0 : centre - half;
  const size_t last = std::min(values.size(), centre + half + 1);
  double sum = 0;
  for (size_t place = first; place < last; ++place) sum += values[place];
  return sum / kernel;
}

double max_around(std::span<const double> values, size_t centre, uint32_t kernel) {
  const size_t half = kernel / 2;
  const size_t first = centre < half ? 0 : centre - half;
  const size_t last = std::min(values.size(), centre + half + 1);
  double largest = -std::numeric_limits<double>::infinity();
  for (size_t place = first; place < last; ++place) {
    if (values[place] > largest) largest = values[place];  // false for NaN, which counts as -inf
  }
  return largest;
}

}  // namespace

std::vector<ParamInfo> smoothing_params(std::string smooth, std::string kernel) {
  return {
      choice_param("smooth", std::move(smooth), {"none", "avg", "max"},
                   "filter over neighbouring candidates before selection"),
      integer_param("kernel", std::move(kernel), 1, kMaxKernel, "width of the filter, slots, odd"),
      choice_param("axis", "position", {"position", "slot"},
                   "neighbours in the text, or in the rank order in which the papers' code stores survivors"),
  };
}

ParamInfo smooth_on_param() {
  return choice_param("smooth_on", "heads", {"heads", "group"},
                      "with smooth=max: filter each query head before the mean, or the mean");
}

Smoothing make_smoothing(std::string_view method, const Params& params) {
  Smoothing smoothing;
  const std::string& kind = params.text("smooth");
  if (kind == "avg") smoothing.kind = Smoothing::Kind::avg;
  if (kind == "max") smoothing.kind = Smoothing::Kind::max;
  if (params.text("axis") == "slot") smoothing.axis = Smoothing::Axis::slot;
  smoothing.kernel = static_cast<uint32_t>(params.integer("kernel"));

  const bool smooths = smoothing.kind != Smoothing::Kind::none;
  require_effect(method, params, "kernel", smooths, "smooth=avg or smooth=max");
  require_effect(method, params, "axis", smooths, "smooth=avg or smooth=max");
  if (smoothing.kernel % 2 == 0) {
    invalid("{}: kernel={}, allowed: odd numbers 1..{}", method, smoothing.kernel, kMaxKernel);
  }
  return smoothing;
}

std::vector<double> smoothed_mass(const HeadView& head, uint32_t n_rows, const EventContext& event,
                                  const Smoothing& smoothing) {
  const size_t length = head.length();
  const std::span<const float> mass = head[Statistic::mass];
  const std::vector<uint32_t> order = neighbour_order(head, event, smoothing);
  std::vector<double> result(length, 0.0);
  std::vector<double> row(order.size());
  for (uint32_t row_index = 0; row_index < n_rows; ++row_index) {
    for (size_t place = 0; place < order.size(); ++place) {
      row[place] = mass[row_index * length + order[place]];
    }
    for (size_t place = 0; place < order.size(); ++place) {
      double value = row[place];
      if (smoothing.kind == Smoothing::Kind::avg) value = mean_around(row, place, smoothing.kernel);
      if (smoothing.kind == Smoothing::Kind::max) value = max_around(row, place, smoothing.kernel);
      result[order[place]] += value / n_rows;
    }
  }
  return result;
}

}  // namespace kvase

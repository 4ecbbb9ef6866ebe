// SPDX-License-Identifier: MIT
// Smoothing of attention mass over neighbouring candidates, and its options `smooth`, `kernel`, `axis`.
//
// Neighbours are candidates only: the window lends no mass to the text before it, nor the other way round.
// At the ends `avg` pads with zeros and still divides by the kernel, `max` pads with -inf, as published.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kvase/policy.h"

namespace kvase {

struct Smoothing {
  enum class Kind : uint8_t { none, avg, max };
  enum class Axis : uint8_t {
    position,  // neighbours in the text
    slot,  // neighbours in the published code's layout (HeadView::rank): survivors by score, then the newest
           // tokens
  };
  Kind kind = Kind::none;
  uint32_t kernel = 5;  // odd
  Axis axis = Axis::position;

  bool needs_rank() const { return kind != Kind::none && axis == Axis::slot; }
};

// The three options, for a method's table row, with that method's defaults.
std::vector<ParamInfo> smoothing_params(std::string smooth = "none", std::string kernel = "5");

// Option `smooth_on`, for methods whose mass may be smoothed per query head.
ParamInfo smooth_on_param();

// Throws Error(invalid_argument): even kernel, or an option without effect.
Smoothing make_smoothing(std::string_view method, const Params& params);

// The mass of one head, smoothed, mean over its rows. f64 [length]; 0 in the window.
//   n_rows  rows of the mass column, [length, n_rows]; each is smoothed on its own
std::vector<double> smoothed_mass(const HeadView& head, uint32_t n_rows, const EventContext& event,
                                  const Smoothing& smoothing);

}  // namespace kvase

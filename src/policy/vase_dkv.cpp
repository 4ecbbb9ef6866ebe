// SPDX-License-Identifier: MIT
// vase-dkv: curdkv with a new sketch at every event, so that no direction stays out of favour.
//
// Paper: VaSE 2026, arXiv:2606.03928. s = |k G|^2 |v G|^2, the best stay.
// Differs from the paper: G is not rounded to 16 bits.
// Needs: k_sketch, v_sketch. Cost: O(length) here, the sketch is the statistic's. Deterministic given the
// seed.
#include "policy/methods.h"
#include "policy/sketch_score.h"

namespace kvase {

PolicyInfo vase_dkv_info() {
  PolicyInfo info;
  info.name = "vase-dkv";
  info.summary = "keep by the product of sketched key and value lengths, a new sketch at every event";
  info.paper = "VaSE 2026, arXiv:2606.03928";
  info.deterministic = false;
  info.default_sinks = 4;
  info.params = {sketch_rank_param()};
  info.notes = {"large values win by their length; no slots are reserved for them"};
  info.make = [](const Params& params) {
    return std::make_unique<SketchProduct>(
        SketchSpec{.rank = static_cast<uint32_t>(params.integer("rank")), .redraw = true});
  };
  return info;
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// curdkv: approximate CUR leverage, a product of sketched key and value lengths, with one fixed sketch.
//
// Paper: Sengupta et al. 2025, arXiv:2509.15038, as VaSE's comparison runs it: s = |k G|^2 |v G|^2.
// Differs from the paper: no length is made relative to a block of neighbours; sinks and window stay; one G
// for all KV heads of a layer, fixed for a sequence's whole life.
// Needs: k_sketch, v_sketch. Cost: O(length) here, the sketch is the statistic's. Deterministic given the
// seed.
#include "policy/methods.h"
#include "policy/sketch_score.h"

namespace kvase {

PolicyInfo curdkv_info() {
  PolicyInfo info;
  info.name = "curdkv";
  info.summary = "keep by the product of sketched key and value lengths, one sketch for the whole text";
  info.paper = "Sengupta et al. 2025, arXiv:2509.15038";
  info.deterministic = false;
  info.default_sinks = 4;
  info.params = {sketch_rank_param()};
  info.notes = {"the fixed sketch favours the same directions at every event; vase-dkv redraws it"};
  info.make = [](const Params& params) {
    return std::make_unique<SketchProduct>(
        SketchSpec{.rank = static_cast<uint32_t>(params.integer("rank")), .redraw = false});
  };
  return info;
}

}  // namespace kvase

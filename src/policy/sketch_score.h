// SPDX-License-Identifier: MIT
// Score by a product of a key's and a value's squared length: what curdkv, vase-dkv and cur-norms share.
#pragma once

#include <string_view>
#include <vector>

#include "kvase/policy.h"

namespace kvase {

// Option `rank` of the two methods with a sketch.
ParamInfo sketch_rank_param();

// key * value, made to sum to 1 over candidates; sinks and window +inf. f64 [length].
//   key_squares, value_squares  f64 [length], not negative
// A NaN stays NaN and does not touch the others; a sum of 0 leaves all scores 0.
std::vector<double> product_score(const std::vector<double>& key_squares,
                                  const std::vector<double>& value_squares, const HeadView& head,
                                  const EventContext& event);

// Keeps the best by |k G|^2 |v G|^2.
class SketchProduct final : public Policy {
 public:
  explicit SketchProduct(const SketchSpec& sketch) : sketch_(sketch) {}
  Needs needs() const override;
  Scores score(const LayerView& layer, const EventContext& event) const override;

 private:
  SketchSpec sketch_;
};

}  // namespace kvase

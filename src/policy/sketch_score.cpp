// SPDX-License-Identifier: MIT
// Products of squared lengths, sketched or not.
#include "policy/sketch_score.h"

#include <cmath>

#include "policy/params.h"
#include "policy/select.h"

namespace kvase {

ParamInfo sketch_rank_param() {
  return integer_param("rank", "20", 1, 256, "columns of the Gaussian sketch; more cost more and blur less");
}

std::vector<double> product_score(const std::vector<double>& key_squares,
                                  const std::vector<double>& value_squares, const HeadView& head,
                                  const EventContext& event) {
  std::vector<double> score(head.length(), 0.0);
  double sum = 0;
  for (const uint32_t slot : candidate_slots(head, event)) {
    score[slot] = key_squares[slot] * value_squares[slot];
    if (std::isfinite(score[slot])) sum += score[slot];
  }
  if (sum > 0) {
    for (double& value : score) value /= sum;
  }
  protect(score, head, event);
  return score;
}

Needs SketchProduct::needs() const {
  return {
      .statistics = {Statistic::k_sketch, Statistic::v_sketch}, .mass = {}, .sketch = sketch_, .rank = false};
}

Scores SketchProduct::score(const LayerView& layer, const EventContext& event) const {
  Scores scores;
  for (const HeadView& head : layer.heads) {
    const std::span<const float> key = head[Statistic::k_sketch];
    const std::span<const float> value = head[Statistic::v_sketch];
    scores.push_back(product_score({key.begin(), key.end()}, {value.begin(), value.end()}, head, event));
  }
  return scores;
}

}  // namespace kvase

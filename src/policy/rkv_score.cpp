// SPDX-License-Identifier: MIT
// Importance against redundancy.
#include "policy/rkv_score.h"

#include <numeric>

#include "policy/params.h"
#include "policy/select.h"

namespace kvase {

ParamInfo lambda_param(std::string default_value) {
  return real_param("lambda", std::move(default_value), 0, 1,
                    "weight of attention; the rest, 1 - lambda, is that of redundancy");
}

Needs Rkv::needs() const {
  return {.statistics = {Statistic::mass, options_.redundancy},
          .mass = options_.mass,
          .sketch = {},
          .rank = options_.smoothing.needs_rank()};
}

Scores Rkv::score(const LayerView& layer, const EventContext& event) const {
  Scores scores;
  for (const HeadView& head : layer.heads) {
    std::vector<uint32_t> domain(head.length());
    std::iota(domain.begin(), domain.end(), 0U);
    if (!options_.over_all) domain = candidate_slots(head, event);
    const std::vector<double> redundancy = softmax(head[options_.redundancy], domain);
    std::vector<double> score = smoothed_mass(head, layer.n_mass_rows, event, options_.smoothing);
    for (double& of_slot : score) of_slot *= options_.lambda;
    for (size_t place = 0; place < domain.size(); ++place)
      score[domain[place]] -= (1 - options_.lambda) * redundancy[place];
    protect(score, head, event);
    scores.push_back(std::move(score));
  }
  return scores;
}

Verdict Rkv::decide(const LayerView& layer, const EventContext& event) const {
  return best_in_order(score(layer, event), layer, event, options_.smoothing.needs_rank());
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// keydiff: keep the keys that point away from the mean key.
//
// Paper: Park et al. 2025, arXiv:2504.15364: score -cos(k_j, a), a = mean_i k_i / |k_i| over all slots.
// With the mean cosine m_j = u_j . a of the unit key u_j, a . a = mean_j m_j, so cos(k_j, a) = m_j / |a|.
// Differs from the paper: runs at every event, and the window stays; the anchor is that of the slots in use.
// Needs: k_mean_cos_all. Cost: O(length) here; the statistic reads the keys twice. Deterministic.
#include <cmath>

#include "policy/methods.h"
#include "policy/select.h"

namespace kvase {
namespace {

// |a|, or 1 where it is not known: the order of the scores does not depend on it. A NaN does not touch it.
double anchor_length(std::span<const float> mean_cosines) {
  double square = 0;
  for (const float mean : mean_cosines) {
    if (std::isfinite(mean)) square += double{mean} / static_cast<double>(mean_cosines.size());
  }
  return square > 0 ? std::sqrt(square) : 1.0;
}

class Keydiff final : public Policy {
 public:
  Needs needs() const override {
    return {.statistics = {Statistic::k_mean_cos_all}, .mass = {}, .sketch = {}, .rank = false};
  }

  Scores score(const LayerView& layer, const EventContext& event) const override {
    Scores scores;
    for (const HeadView& head : layer.heads) {
      const std::span<const float> mean_cosines = head[Statistic::k_mean_cos_all];
      const double length = anchor_length(mean_cosines);
      std::vector<double> score;
      for (const float mean : mean_cosines) score.push_back(-double{mean} / length);
      protect(score, head, event);
      scores.push_back(std::move(score));
    }
    return scores;
  }
};

}  // namespace

PolicyInfo keydiff_info() {
  PolicyInfo info;
  info.name = "keydiff";
  info.summary = "keep the keys that point away from the mean key";
  info.paper = "Park et al. 2025, arXiv:2504.15364";
  info.notes = {"the paper protects nothing; here the window stays and takes part in the mean"};
  info.make = [](const Params&) { return std::make_unique<Keydiff>(); };
  return info;
}

}  // namespace kvase

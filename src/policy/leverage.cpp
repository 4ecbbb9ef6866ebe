// SPDX-License-Identifier: MIT
// leverage: keep the keys whose direction few other keys have.
//
// Paper: the leverage half of Compactor, Chari et al. 2025, arXiv:2507.08143.
// Differs from the paper: it takes keys before RoPE, less their mean, through a Gaussian sketch of 48
// columns; here the leverage is exact, of the keys as they lie in the cache, after RoPE, and not centred,
// among candidates. Keys before RoPE would have to be stored or rotated back, and attention sees them
// rotated. Needs: k_leverage. Cost: that of the statistic, 2 head_dim^2 per slot. Deterministic.
#include "policy/methods.h"
#include "policy/select.h"

namespace kvase {
namespace {

class LeverageOfKeys final : public Policy {
 public:
  Needs needs() const override {
    return {.statistics = {Statistic::k_leverage}, .mass = {}, .sketch = {}, .rank = false};
  }

  Scores score(const LayerView& layer, const EventContext& event) const override {
    Scores scores;
    for (const HeadView& head : layer.heads) {
      const std::span<const float> leverage = head[Statistic::k_leverage];
      std::vector<double> score(leverage.begin(), leverage.end());
      protect(score, head, event);
      scores.push_back(std::move(score));
    }
    return scores;
  }
};

}  // namespace

PolicyInfo leverage_info() {
  PolicyInfo info;
  info.name = "leverage";
  info.summary = "keep the keys whose direction few other keys have";
  info.paper = "Chari et al. 2025, arXiv:2507.08143";
  info.notes = {
      "exact leverage of keys after RoPE; the paper sketches centred keys before RoPE, and adds attention"};
  info.make = [](const Params&) { return std::make_unique<LeverageOfKeys>(); };
  return info;
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// cur-exact: keep by the product of the exact leverages of key and value. What CUR's theory asks for.
//
// Paper: Sengupta et al. 2025, arXiv:2509.15038, which approximates leverage by sketched lengths; no
// published code computes the exact one. A control: shows what the sketch of curdkv and vase-dkv is worth.
// Differs from the paper: leverage is exact, among candidates; sinks and window stay.
// Needs: k_leverage, v_leverage. Cost: that of the statistics, 2 head_dim^2 per slot for K and for V.
// Deterministic.
#include "policy/methods.h"
#include "policy/sketch_score.h"

namespace kvase {
namespace {

class CurExact final : public Policy {
 public:
  Needs needs() const override {
    return {.statistics = {Statistic::k_leverage, Statistic::v_leverage},
            .mass = {},
            .sketch = {},
            .rank = false};
  }

  Scores score(const LayerView& layer, const EventContext& event) const override {
    Scores scores;
    for (const HeadView& head : layer.heads) {
      const std::span<const float> key = head[Statistic::k_leverage], value = head[Statistic::v_leverage];
      scores.push_back(product_score({key.begin(), key.end()}, {value.begin(), value.end()}, head, event));
    }
    return scores;
  }
};

}  // namespace

PolicyInfo cur_exact_info() {
  PolicyInfo info;
  info.name = "cur-exact";
  info.summary = "keep by the product of exact key and value leverages";
  info.paper = "Sengupta et al. 2025, arXiv:2509.15038";
  info.default_sinks = 4;
  info.notes = {"a control of ours: the paper and its code approximate leverage, see curdkv and cur-norms"};
  info.make = [](const Params&) { return std::make_unique<CurExact>(); };
  return info;
}

}  // namespace kvase

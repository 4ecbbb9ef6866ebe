// SPDX-License-Identifier: MIT
// evict-large: keep the values of smallest range. VaSE's reserve upside down.
//
// Paper: VaSE 2026, arXiv:2606.03928, ablation: losing large values should hurt more than losing random ones.
// Differs from the paper: nothing; no sinks there either.
// Needs: v_range. Cost: O(length) per KV head and event. Deterministic.
#include "policy/methods.h"
#include "policy/select.h"

namespace kvase {
namespace {

class EvictLarge final : public Policy {
 public:
  Needs needs() const override {
    return {.statistics = {Statistic::v_range}, .mass = {}, .sketch = {}, .rank = false};
  }

  Scores score(const LayerView& layer, const EventContext& event) const override {
    Scores scores;
    for (const HeadView& head : layer.heads) {
      std::vector<double> score;
      for (const float range : head[Statistic::v_range]) score.push_back(-static_cast<double>(range));
      protect(score, head, event);
      scores.push_back(std::move(score));
    }
    return scores;
  }
};

}  // namespace

PolicyInfo evict_large_info() {
  PolicyInfo info;
  info.name = "evict-large";
  info.summary = "keep the values of smallest range: a control that should do badly";
  info.paper = "VaSE 2026, arXiv:2606.03928";
  info.notes = {"a control: shows what the values of largest range are worth"};
  info.make = [](const Params&) { return std::make_unique<EvictLarge>(); };
  return info;
}

}  // namespace kvase

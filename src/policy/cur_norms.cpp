// SPDX-License-Identifier: MIT
// cur-norms: keep by the product of key and value lengths. What curdkv is without its sketch.
//
// Paper: Sengupta et al. 2025, arXiv:2509.15038, without projection; VaSE's "no Gaussian" ablation.
// Differs from the paper: lengths are not made relative to a block of neighbours; sinks and window stay.
// Needs: k_l2, v_l2. Cost: O(length) per KV head and event. Deterministic.
#include "policy/methods.h"
#include "policy/sketch_score.h"

namespace kvase {
namespace {

std::vector<double> squares(std::span<const float> lengths) {
  std::vector<double> result;
  for (const float length : lengths) result.push_back(static_cast<double>(length) * length);
  return result;
}

class CurNorms final : public Policy {
 public:
  Needs needs() const override {
    return {.statistics = {Statistic::k_l2, Statistic::v_l2}, .mass = {}, .sketch = {}, .rank = false};
  }

  Scores score(const LayerView& layer, const EventContext& event) const override {
    Scores scores;
    for (const HeadView& head : layer.heads) {
      scores.push_back(
          product_score(squares(head[Statistic::k_l2]), squares(head[Statistic::v_l2]), head, event));
    }
    return scores;
  }
};

}  // namespace

PolicyInfo cur_norms_info() {
  PolicyInfo info;
  info.name = "cur-norms";
  info.summary = "keep by the product of key and value lengths";
  info.paper = "Sengupta et al. 2025, arXiv:2509.15038";
  info.default_sinks = 4;
  info.notes = {"no random sketch, so deterministic"};
  info.make = [](const Params&) { return std::make_unique<CurNorms>(); };
  return info;
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// knorm: keep the keys of smallest norm.
//
// Paper: Devoto et al. 2024, arXiv:2406.11430, section 4.
// Differs from the paper: runs at every event, not once after the prompt. Needs: k_l2. Cost: O(length) per
// KV head and event. Deterministic.
#include "policy/methods.h"
#include "policy/select.h"

namespace kvase {
namespace {

class Knorm final : public Policy {
 public:
  Needs needs() const override {
    return {.statistics = {Statistic::k_l2}, .mass = {}, .sketch = {}, .rank = false};
  }

  Scores score(const LayerView& layer, const EventContext& event) const override {
    Scores scores;
    for (const HeadView& head : layer.heads) {
      std::vector<double> score;
      for (const float norm : head[Statistic::k_l2]) score.push_back(-static_cast<double>(norm));
      protect(score, head, event);  // the window and the sinks get +inf
      scores.push_back(std::move(score));
    }
    return scores;
  }
};

}  // namespace

PolicyInfo knorm_info() {
  PolicyInfo info;
  info.name = "knorm";
  info.summary = "keep the keys of smallest norm";
  info.paper = "Devoto et al. 2024, arXiv:2406.11430";
  info.notes = {"models that normalise keys (Qwen3) make all norms nearly equal: expect little there"};
  info.make = [](const Params&) { return std::make_unique<Knorm>(); };
  return info;
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// full: keep everything. The reference for memory and accuracy.
//
// Needs: nothing. Cost: none, no event ever comes; the cache holds the whole context. Deterministic.
#include <limits>

#include "policy/methods.h"

namespace kvase {
namespace {

class Full final : public Policy {
 public:
  bool evicts() const override { return false; }

  Scores score(const LayerView& layer, const EventContext&) const override {
    Scores scores;
    for (const HeadView& head : layer.heads) {
      scores.emplace_back(head.length(), std::numeric_limits<double>::infinity());
    }
    return scores;
  }

  Verdict decide(const LayerView& layer, const EventContext&) const override {
    return {std::vector<HeadVerdict>(layer.heads.size())};
  }
};

}  // namespace

PolicyInfo full_info() {
  PolicyInfo info;
  info.name = "full";
  info.summary = "keep everything";
  info.notes = {"ignores budget, interval, window and sinks; the cache holds the whole context"};
  info.make = [](const Params&) { return std::make_unique<Full>(); };
  return info;
}

}  // namespace kvase

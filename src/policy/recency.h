// SPDX-License-Identifier: MIT
// Newest first, sinks and window protected: what window and streaming-llm share.
#pragma once

#include "policy/select.h"

namespace kvase {

class Recency final : public Policy {
 public:
  Scores score(const LayerView& layer, const EventContext& event) const override {
    Scores scores;
    for (const HeadView& head : layer.heads) {
      std::vector<double> score(head.pos.begin(), head.pos.end());
      protect(score, head, event);
      scores.push_back(std::move(score));
    }
    return scores;
  }
};

}  // namespace kvase

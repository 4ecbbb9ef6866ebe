// SPDX-License-Identifier: MIT
// random: every candidate is as good as any other. The control of every method that looks at content.
//
// Differs from published random baselines: the window stays, and the draw is keyed by position and event, so
// that it is new at every event and in every layer, and does not depend on slots. Needs: positions. Cost: one
// Philox block per slot, KV head and event. Deterministic given the seed.
#include "policy/methods.h"
#include "policy/select.h"

namespace kvase {
namespace {

class Random final : public Policy {
 public:
  Scores score(const LayerView& layer, const EventContext& event) const override {
    Scores scores;
    for (uint32_t kv_head = 0; kv_head < layer.heads.size(); ++kv_head) {
      const HeadView& head = layer.heads[kv_head];
      std::vector<double> score;
      for (const int32_t pos : head.pos) {
        score.push_back(
            noise_uniform(noise_key(event, kv_head), NoiseStream::race, static_cast<uint32_t>(pos)));
      }
      protect(score, head, event);
      scores.push_back(std::move(score));
    }
    return scores;
  }
};

}  // namespace

PolicyInfo random_info() {
  PolicyInfo info;
  info.name = "random";
  info.summary = "keep tokens at random, and the newest";
  info.deterministic = false;
  info.notes = {"a control: a method that does not beat it does nothing"};
  info.make = [](const Params&) { return std::make_unique<Random>(); };
  return info;
}

}  // namespace kvase

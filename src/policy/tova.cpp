// SPDX-License-Identifier: MIT
// tova: keep the tokens that the newest query attends to, the same in all heads.
//
// Paper: Oren et al. 2024, arXiv:2401.06104: softmax(q K) of the newest query over all slots, mean over all
// query heads of the layer.
// Differs from the paper: runs at every event, not at every token, so one query decides for a whole interval;
// the window stays. Needs: mass of the last query. Cost: O(length log length) per layer and event.
// Deterministic.
#include <algorithm>

#include "policy/methods.h"
#include "policy/select.h"

namespace kvase {
namespace {

class Tova final : public Policy {
 public:
  Needs needs() const override {
    return {.statistics = {Statistic::mass},
            .mass = {.queries = MassSpec::Queries::last, .domain = MassSpec::Domain::all},
            .sketch = {}};
  }

  // Equal scores keep the same tokens in all KV heads, so a token is its place in the order of pos.
  Scores score(const LayerView& layer, const EventContext& event) const override {
    const std::vector<std::vector<uint32_t>> orders = token_orders(layer);
    const std::vector<double> means = mean_masses(layer, orders);
    Scores scores;
    for (size_t kv_head = 0; kv_head < layer.heads.size(); ++kv_head) {
      std::vector<double> score(means.size());
      for (size_t place = 0; place < means.size(); ++place) score[orders[kv_head][place]] = means[place];
      protect(score, layer.heads[kv_head], event);
      scores.push_back(std::move(score));
    }
    return scores;
  }

 private:
  // Per KV head, slots from the oldest to the newest. Heads that drop alike move alike, so one sort is the
  // rule.
  static std::vector<std::vector<uint32_t>> token_orders(const LayerView& layer) {
    std::vector<std::vector<uint32_t>> orders;
    for (size_t kv_head = 0; kv_head < layer.heads.size(); ++kv_head) {
      const std::span<const int32_t> pos = layer.heads[kv_head].pos;
      const bool as_before = kv_head > 0 && std::ranges::equal(pos, layer.heads[kv_head - 1].pos);
      orders.push_back(as_before ? orders.back() : by_position(pos, 0));
    }
    return orders;
  }

  // Of each token, over KV heads: that over all query heads, since every KV head has as many.
  static std::vector<double> mean_masses(const LayerView& layer,
                                         const std::vector<std::vector<uint32_t>>& orders) {
    std::vector<double> means(layer.heads[0].length(), 0.0);
    for (size_t kv_head = 0; kv_head < layer.heads.size(); ++kv_head) {
      const std::span<const float> mass = layer.heads[kv_head][Statistic::mass];
      for (size_t place = 0; place < means.size(); ++place)
        means[place] += double{mass[orders[kv_head][place]]} / static_cast<double>(layer.heads.size());
    }
    return means;
  }
};

}  // namespace

PolicyInfo tova_info() {
  PolicyInfo info;
  info.name = "tova";
  info.summary = "keep what the newest query attends to, the same tokens in all heads";
  info.paper = "Oren et al. 2024, arXiv:2401.06104";
  info.notes = {
      "score: the newest query's softmax over all slots, mean over all query heads of the layer",
      "evicts at events, not at every token: one query decides for a whole interval",
      "the paper protects nothing, not even the newest token; here the window stays",
  };
  info.make = [](const Params&) { return std::make_unique<Tova>(); };
  return info;
}

}  // namespace kvase

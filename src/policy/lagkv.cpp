// SPDX-License-Identifier: MIT
// lagkv: keep the tokens whose keys and values stand out from the partition of text that follows.
//
// Paper: Liang et al. 2025, arXiv:2504.04704. Slots in order of position, without the sinks, in partitions of
// `lag`; per partition but the last, softmax of the deviations of keys and of values, their mean, and its
// rank within the partition over lag. The last whole partition and what follows it score 1: nothing is known
// of them yet. With fewer than two partitions, the newest are kept. Differs from the paper: partitions are
// cut anew at every event from what is left, by position (the published code's slots are in score order after
// its first event); the window stays; no sinks unless asked for, where the paper has 4. Equal ranks of
// different partitions go to the older token. Needs: k_lag, v_lag. Cost: O(length log length) here; the
// statistic reads K and V twice. Deterministic.
#include <algorithm>

#include "policy/methods.h"
#include "policy/params.h"
#include "policy/select.h"

namespace kvase {
namespace {

class Lagkv final : public Policy {
 public:
  Lagkv(uint32_t lag, bool cross) : lag_(lag), cross_(cross) {}

  Needs needs() const override {
    return {.statistics = {Statistic::k_lag, Statistic::v_lag},
            .mass = {},
            .sketch = {},
            .rank = false,
            .lag = {.lag = lag_}};
  }

  Scores score(const LayerView& layer, const EventContext& event) const override {
    Scores scores;
    for (const HeadView& head : layer.heads) {
      std::vector<double> score(head.length(), 1.0);
      const std::vector<uint32_t> slots = by_position(head.pos, event.n_sink);
      if (slots.size() < 2 * size_t{lag_}) {
        for (size_t place = 0; place < slots.size(); ++place)
          score[slots[place]] = static_cast<double>(place) / static_cast<double>(slots.size());
      }
      for (size_t first = 0; first + 2 * size_t{lag_} <= slots.size(); first += lag_)
        score_partition(head, std::span(slots).subspan(first, lag_), score);
      protect(score, head, event);
      scores.push_back(std::move(score));
    }
    return scores;
  }

 private:
  void score_partition(const HeadView& head, std::span<const uint32_t> slots,
                       std::vector<double>& score) const {
    const std::vector<double> key = softmax(head[Statistic::k_lag], slots);
    const std::vector<double> value = softmax(head[Statistic::v_lag], slots);
    for (size_t place = 0; place < slots.size(); ++place)
      score[slots[place]] = (key[place] + value[place]) / 2;
    if (cross_) return;
    // Best first, so the rank, 0 for the least, counts from the end. A NaN stays one.
    const std::vector<uint32_t> best =
        best_first({slots.begin(), slots.end()}, score, head.pos, slots.size());
    for (size_t place = 0; place < best.size(); ++place) {
      double& of_slot = score[best[place]];
      if (of_slot == of_slot) of_slot = static_cast<double>(best.size() - 1 - place) / lag_;
    }
  }

  uint32_t lag_;
  bool cross_;
};

}  // namespace

PolicyInfo lagkv_info() {
  PolicyInfo info;
  info.name = "lagkv";
  info.summary = "keep what stands out from the text that follows it";
  info.paper = "Liang et al. 2025, arXiv:2504.04704";
  info.params = {
      integer_param("lag", "128", 2, 65536,
                    "slots of a partition; a cache of fewer than two keeps the newest"),
      choice_param("cross", "no", {"no", "yes"},
                   "compare the scores themselves across partitions, not the ranks within each"),
  };
  info.notes = {
      "protects no sinks unless asked to; the paper has sinks=4",
      "one to two partitions of the newest text always stay, so the budget should be several times lag",
  };
  info.make = [](const Params& params) {
    return std::make_unique<Lagkv>(static_cast<uint32_t>(params.integer("lag")),
                                   params.text("cross") == "yes");
  };
  return info;
}

}  // namespace kvase

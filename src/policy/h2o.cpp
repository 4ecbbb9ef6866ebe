// SPDX-License-Identifier: MIT
// h2o: keep the heavy hitters, which all queries so far attended to, and a recent half.
//
// Paper: Zhang et al. 2023, arXiv:2306.14048: score_j = sum over queries t of softmax(q_t K)_j over all
// slots. Differs from the paper: runs at every event, not at every token; one set per KV head, not per query
// head, with the mean over the group, which ranks like a sum. Probabilities come from the cache as it was at
// each query, as in the published code; a slot's sum moves with it and does not decay. Needs: mass of all
// queries. Cost: O(length) per KV head and event. Deterministic.
#include <algorithm>

#include "base/errors.h"
#include "policy/methods.h"
#include "policy/params.h"
#include "policy/select.h"
#include "policy/shape.h"

namespace kvase {
namespace {

class H2o final : public Policy {
 public:
  explicit H2o(std::optional<uint32_t> recent) : recent_(recent) {}

  Needs needs() const override {
    return {.statistics = {Statistic::mass},
            .mass = {.queries = MassSpec::Queries::all, .domain = MassSpec::Domain::all},
            .sketch = {}};
  }

  void check(const CacheShape& shape) const override {
    const uint32_t most = shape.budget - shape.n_sink - 1;
    if (recent_ && (*recent_ < shape.window || *recent_ > most)) {
      invalid("h2o: recent={}, allowed: {}..{} (window {}, budget {} less {} sinks and one heavy hitter)",
              *recent_, shape.window, most, shape.window, shape.budget, shape.n_sink);
    }
  }

  uint32_t n_protected(const CacheShape& shape) const override {
    return shape.n_sink + n_recent(shape.budget, shape.n_sink, shape.window) - shape.window;
  }

  Scores score(const LayerView& layer, const EventContext& event) const override {
    EventContext recent = event;
    recent.window = n_recent(layer.budget, event.n_sink, event.window);
    Scores scores;
    for (const HeadView& head : layer.heads) {
      const std::span<const float> mass = head[Statistic::mass];
      std::vector<double> score(mass.begin(), mass.end());
      protect(score, head, recent);
      scores.push_back(std::move(score));
    }
    return scores;
  }

 private:
  uint32_t n_recent(uint32_t budget, uint32_t n_sink, uint32_t window) const {
    return std::max(window, recent_.value_or((budget - n_sink) / 2));
  }

  std::optional<uint32_t> recent_;  // newest tokens that stay
};

}  // namespace

PolicyInfo h2o_info() {
  PolicyInfo info;
  info.name = "h2o";
  info.summary = "keep what all queries so far attended to most, and the newer half";
  info.paper = "Zhang et al. 2023, arXiv:2306.14048";
  info.params = {integer_param("recent", "", 0, kMaxSlots,
                               "newest tokens that stay, the window among them; default: half of the budget "
                               "without sinks")};
  info.notes = {
      "score: the sum over all queries, of prompt and answer, of the softmax over all slots; mean over the "
      "query heads of a KV head, where the paper keeps a set per query head",
      "evicts at events, not at every token",
      "sums never decay: what came early has had more queries",
  };
  info.make = [](const Params& params) {
    return std::make_unique<H2o>(
        params.has("recent") ? std::optional(static_cast<uint32_t>(params.integer("recent"))) : std::nullopt);
  };
  return info;
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Which slots lose their value.
#include "policy/tier.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/errors.h"
#include "policy/params.h"
#include "policy/select.h"

namespace kvase {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool takes_mass(const Policy& policy) {
  const std::vector<Statistic> statistics = policy.needs().statistics;
  return std::ranges::find(statistics, Statistic::mass) != statistics.end();
}

// Sorted after all slots whose cost counts.
double cost_or_largest(double cost) {
  return cost <= std::numeric_limits<double>::max() ? cost : std::numeric_limits<double>::max();
}

// Multiplies each slot's cost by its squared attention mass, the mean over mass rows.
void multiply_by_attention(std::span<const float> mass, uint32_t n_mass_rows, std::vector<double>& cost) {
  for (size_t slot = 0; slot < cost.size(); ++slot) {
    double square = 0;
    for (size_t row = 0; row < n_mass_rows; ++row) {
      const double attention = mass[row * cost.size() + slot];
      square += attention * attention / n_mass_rows;
    }
    cost[slot] *= square;
  }
}

class Tiered final : public Policy {
 public:
  Tiered(std::shared_ptr<const Policy> base, Statistic residual, bool weighted)
      : base_(std::move(base)), residual_(residual), weighted_(weighted) {}

  Needs needs() const override {
    Needs needs = base_->needs();
    needs.statistics.push_back(residual_);
    return needs;
  }
  void check(const CacheShape& shape) const override { base_->check(shape); }
  uint32_t n_protected(const CacheShape& shape) const override { return base_->n_protected(shape); }
  Scores score(const LayerView& layer, const EventContext& event) const override {
    return base_->score(layer, event);
  }

  Verdict decide(const LayerView& layer, const EventContext& event) const override {
    if (layer.n_recruits == 0) return base_->decide(layer, event);
    const Scores scores = base_->score(layer, event);
    const bool ordered = base_->needs().rank;
    Verdict verdict;
    for (size_t kv_head = 0; kv_head < layer.heads.size(); ++kv_head) {
      const HeadView& head = layer.heads[kv_head];
      HeadVerdict routed =
          route(scores[kv_head], cost(head, layer.n_mass_rows), head, event, layer.budget, layer.n_recruits);
      if (ordered) routed.order = layout_order(scores[kv_head], head, event, routed.drop, {});
      verdict.heads.push_back(std::move(routed));
    }
    return verdict;
  }

 private:
  std::vector<double> cost(const HeadView& head, uint32_t n_mass_rows) const {
    std::vector<double> cost(head[residual_].begin(), head[residual_].end());
    if (weighted_) multiply_by_attention(head[Statistic::mass], n_mass_rows, cost);
    for (size_t slot = 0; slot < cost.size(); ++slot) {
      if (head.pos[slot] < static_cast<int32_t>(kAttentionSinks)) cost[slot] = kInfinity;
    }
    return cost;
  }

  std::shared_ptr<const Policy> base_;
  Statistic residual_;
  bool weighted_;  // by the squared attention mass
};

ParamInfo route_param() {
  return choice_param("route", "", {"plain", "weighted"},
                      "which values go: those of smallest error, or of smallest error times squared "
                      "attention; default weighted if the method takes attention mass");
}

const std::string kPaper = "Lin et al. 2026, arXiv:2605.23258";

}  // namespace

ModifierInfo zero_info() {
  ModifierInfo info;
  info.name = "zero";
  info.summary = "more keys for the same bytes: values that matter least become the mean of those that went";
  info.paper = kPaper + " (a control of ours)";
  info.params = {route_param()};
  info.notes = {
      "budget + r keys and budget - r values stay, r = half of what was seen beyond the budget, at most half "
      "the budget",
      "the first 4 tokens, the window and what the method protects keep their values; r is smaller where "
      "these need the room",
      "keys and values must have one cache type",
      "methods that read values at an event see the mean for the slots that lost theirs",
  };
  return info;
}

ModifierInfo vector_info() {
  ModifierInfo info;
  info.name = "vector";
  info.summary = "more keys for the same bytes: values that a linear map rebuilds well from keys go";
  info.paper = kPaper;
  info.params = {text_param("map", "file of the maps, made by `kvase calibrate` for this model; required"),
                 route_param()};
  info.notes = zero_info().notes;
  info.notes.back() = "methods that read values at an event see rebuilt ones for the slots that lost theirs";
  info.notes.push_back("the paper routes by error alone (route=plain) and once, after the prompt");
  info.notes.push_back("layers that the file marks as zero or off do as +zero does, or keep all values");
  return info;
}

TierOptions make_tier(const ModifierInfo& info, const Params& params) {
  if (info.name == "zero") return {};
  if (!params.has("map")) invalid("+vector: found no map, allowed: map=FILE, made by `kvase calibrate`");
  return {.map = params.text("map")};
}

std::shared_ptr<const Policy> make_tiered(std::shared_ptr<const Policy> base, const ModifierInfo& info,
                                          const Params& params) {
  const bool has_mass = takes_mass(*base);
  const bool weighted = params.has("route") ? params.text("route") == "weighted" : has_mass;
  if (weighted) {
    require_effect(info.name, params, "route", has_mass, "a method that takes attention mass");
  }
  return std::make_shared<Tiered>(
      std::move(base), params.has("map") ? Statistic::residual : Statistic::mean_residual, weighted);
}

HeadVerdict route(std::span<const double> scores, std::span<const double> cost, const HeadView& head,
                  const EventContext& event, uint32_t budget, uint32_t n_recruits) {
  KVASE_CHECK(head.n_approximate <= 2 * n_recruits && 2 * n_recruits <= budget,
              "{} approximate slots, {} recruits, budget {}", head.n_approximate, n_recruits, budget);
  HeadVerdict verdict = keep_best(scores, head, event, budget + n_recruits);

  struct Entry {
    double cost;
    int32_t pos;
    uint32_t slot;
  };
  std::vector<Entry> owners;  // of a value that may go; protected slots come last
  size_t n_values = 0;
  auto dropped = verdict.drop.begin();
  for (uint32_t slot = 0; slot < head.length(); ++slot) {
    if (dropped != verdict.drop.end() && *dropped == slot) {
      ++dropped;
      continue;
    }
    if (slot < head.n_approximate) continue;
    ++n_values;
    if (in_window(head.pos[slot], event)) continue;
    owners.push_back(
        {scores[slot] == kInfinity ? kInfinity : cost_or_largest(cost[slot]), head.pos[slot], slot});
  }
  const size_t n_demote = n_values - std::min<size_t>(n_values, budget - n_recruits);
  KVASE_CHECK(n_demote <= owners.size(), "{} values to drop, {} outside the window", n_demote, owners.size());
  std::nth_element(
      owners.begin(), owners.begin() + static_cast<ptrdiff_t>(n_demote), owners.end(),
      [](const Entry& a, const Entry& b) { return a.cost != b.cost ? a.cost < b.cost : a.pos < b.pos; });
  for (size_t index = 0; index < n_demote; ++index) verdict.demote.push_back(owners[index].slot);
  std::ranges::sort(verdict.demote);
  return verdict;
}

uint32_t most_recruits(const ParsedPolicy& policy, const CacheShape& shape) {
  const uint32_t n_sink = kAttentionSinks - std::min(kAttentionSinks, shape.n_sink);
  const uint32_t n_protected = policy.policy->n_protected(shape) + n_sink;
  const uint64_t exact = uint64_t{shape.window} + n_protected;
  if (exact >= shape.budget || shape.budget < 2) {
    invalid(
        "--kv-budget {} with {}: found {} slots that keep their value (window {} + {} protected), allowed: "
        "fewer "
        "than the budget, and a budget of at least 2",
        shape.budget, policy.text, exact, shape.window, n_protected);
  }
  return static_cast<uint32_t>(std::min<uint64_t>(shape.budget / 2, shape.budget - exact));
}

}  // namespace kvase

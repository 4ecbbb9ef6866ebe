// SPDX-License-Identifier: MIT
// snapkv: keep the tokens that the most recent queries attend to.
//
// Paper: Li et al. 2024, arXiv:2404.14469, section 4.
// Differs from the paper: runs at every event, not once after the prompt; one set per KV head, not per query
// head; mass is the mean over the window, which ranks like the paper's sum; no smoothing unless asked for.
// Published variants, as options:
// - VaSE's comparison: domain=candidates,smooth=avg,axis=slot;
// - kvpress: domain=all,smooth=avg;
// - SnapKV's own code: domain=all with smooth=avg, or with smooth=max,kernel=7,smooth_on=group;
// - R-KV's comparison: group=max-logit,smooth=max,kernel=7 with a window of 8.
// Needs: mass. Cost: O(length * kernel) per row of mass and event. Deterministic.
#include "policy/methods.h"
#include "policy/params.h"
#include "policy/select.h"
#include "policy/smooth.h"

namespace kvase {
namespace {

class Snapkv final : public Policy {
 public:
  Snapkv(const MassSpec& mass, const Smoothing& smoothing) : mass_(mass), smoothing_(smoothing) {}

  Needs needs() const override {
    return {.statistics = {Statistic::mass}, .mass = mass_, .sketch = {}, .rank = smoothing_.needs_rank()};
  }

  Scores score(const LayerView& layer, const EventContext& event) const override {
    Scores scores;
    for (const HeadView& head : layer.heads) {
      std::vector<double> score = smoothed_mass(head, layer.n_mass_rows, event, smoothing_);
      protect(score, head, event);
      scores.push_back(std::move(score));
    }
    return scores;
  }

  Verdict decide(const LayerView& layer, const EventContext& event) const override {
    return best_in_order(score(layer, event), layer, event, smoothing_.needs_rank());
  }

 private:
  MassSpec mass_;
  Smoothing smoothing_;
};

std::unique_ptr<Policy> make_snapkv(const Params& params) {
  const Smoothing smoothing = make_smoothing("snapkv", params);
  const bool max_logit = params.text("group") == "max-logit";
  const bool by_head_matters = smoothing.kind == Smoothing::Kind::max && !max_logit;
  require_effect("snapkv", params, "smooth_on", by_head_matters, "smooth=max and group=mean");

  MassSpec mass;
  if (params.text("domain") == "all") mass.domain = MassSpec::Domain::all;
  if (max_logit) mass.group = MassSpec::Group::max_logit;
  // The mean filter commutes with the mean over the group; the maximum does not, and then needs a row per
  // query head.
  if (by_head_matters && params.text("smooth_on") == "heads") mass.group = MassSpec::Group::per_head;
  return std::make_unique<Snapkv>(mass, smoothing);
}

}  // namespace

PolicyInfo snapkv_info() {
  PolicyInfo info;
  info.name = "snapkv";
  info.summary = "keep the tokens that the newest queries attend to";
  info.paper = "Li et al. 2024, arXiv:2404.14469";
  info.params = {
      choice_param("domain", "candidates", {"candidates", "all"},
                   "slots that a query's softmax runs over: those outside the window, or all"),
      choice_param("group", "mean", {"mean", "max-logit"},
                   "query heads of one KV head: mean of probabilities, or softmax of the largest logit"),
  };
  for (ParamInfo& param : smoothing_params()) info.params.push_back(std::move(param));
  info.params.push_back(smooth_on_param());
  info.notes = {
      "protects no sinks unless asked to",
      "candidates and all rank differently: over all slots a query that looks at its own window abstains",
      "smooth=avg,axis=slot is the variant that VaSE's paper compares with",
  };
  info.make = make_snapkv;
  return info;
}

}  // namespace kvase

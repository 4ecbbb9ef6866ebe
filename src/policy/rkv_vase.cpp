// SPDX-License-Identifier: MIT
// rkv-vase: R-KV as VaSE's comparison runs it. All "R-KV" figures of VaSE's tables are this.
//
// Papers: Cai et al. 2025, arXiv:2505.24133; VaSE 2026, arXiv:2606.03928. Z = lambda * I - (1 - lambda) * R,
// I the mass over candidates, R the softmax over candidates of the mean cosine to the other candidates,
// nothing spared. The mean cosine here includes the key itself, a constant that the softmax ignores. Differs
// from the comparison: no smoothing unless asked for, smooth=avg,axis=slot gives its filter; the mean cosine
// is taken in its linear form, without the n x n matrix that the published speed pays for. Needs: mass,
// k_mean_cos. Cost: O(length * kernel) here. Deterministic.
#include "policy/methods.h"
#include "policy/params.h"
#include "policy/rkv_score.h"

namespace kvase {
namespace {

std::unique_ptr<Policy> make_rkv_vase(const Params& params) {
  RkvOptions options;
  options.lambda = params.real("lambda");
  options.smoothing = make_smoothing("rkv-vase", params);
  options.redundancy = Statistic::k_mean_cos;
  options.over_all = false;
  const bool by_head_matters = options.smoothing.kind == Smoothing::Kind::max;
  require_effect("rkv-vase", params, "smooth_on", by_head_matters, "smooth=max");
  if (by_head_matters && params.text("smooth_on") == "heads") options.mass.group = MassSpec::Group::per_head;
  return std::make_unique<Rkv>(options);
}

}  // namespace

PolicyInfo rkv_vase_info() {
  PolicyInfo info;
  info.name = "rkv-vase";
  info.summary = "keep what is attended to and not redundant, as VaSE's comparison has it";
  info.paper = "Cai et al. 2025, arXiv:2505.24133";
  info.params = {lambda_param("0.5")};
  for (ParamInfo& param : smoothing_params()) info.params.push_back(std::move(param));
  info.params.push_back(smooth_on_param());
  info.notes = {
      "smooth=avg,axis=slot is the variant that VaSE's paper compares with",
      "lambda=0 ranks as keydiff does, but for the window, which takes no part in the mean here",
  };
  info.make = make_rkv_vase;
  return info;
}

}  // namespace kvase

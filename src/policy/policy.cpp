// SPDX-License-Identifier: MIT
// What every policy has: names of statistics, and the default decision.
#include "kvase/policy.h"

#include "base/errors.h"
#include "policy/select.h"

namespace kvase {

const char* statistic_name(Statistic statistic) noexcept {
  switch (statistic) {
    case Statistic::mass:
      return "mass";
    case Statistic::v_range:
      return "v_range";
    case Statistic::v_var:
      return "v_var";
    case Statistic::v_l2:
      return "v_l2";
    case Statistic::v_absmax:
      return "v_absmax";
    case Statistic::k_l2:
      return "k_l2";
    case Statistic::k_sketch:
      return "k_sketch";
    case Statistic::v_sketch:
      return "v_sketch";
    case Statistic::k_mean_cos:
      return "k_mean_cos";
    case Statistic::k_mean_cos_all:
      return "k_mean_cos_all";
    case Statistic::k_leverage:
      return "k_leverage";
    case Statistic::v_leverage:
      return "v_leverage";
    case Statistic::k_redundancy:
      return "k_redundancy";
    case Statistic::k_lag:
      return "k_lag";
    case Statistic::v_lag:
      return "v_lag";
    case Statistic::residual:
      return "residual";
    case Statistic::mean_residual:
      return "mean_residual";
  }
  return "unknown";
}

Verdict Policy::decide(const LayerView& layer, const EventContext& event) const {
  const Scores scores = score(layer, event);
  if (scores.size() != layer.heads.size()) {
    fail(ErrorCode::internal, "policy: score() gave {} heads, allowed: {}", scores.size(),
         layer.heads.size());
  }
  Verdict verdict;
  for (size_t kv_head = 0; kv_head < scores.size(); ++kv_head) {
    const HeadView& head = layer.heads[kv_head];
    if (scores[kv_head].size() != head.length()) {
      fail(ErrorCode::internal, "policy: score() gave {} slots, allowed: {}", scores[kv_head].size(),
           head.length());
    }
    verdict.heads.push_back(keep_best(scores[kv_head], head, event, layer.budget));
  }
  return verdict;
}

}  // namespace kvase

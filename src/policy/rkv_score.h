// SPDX-License-Identifier: MIT
// lambda * importance - (1 - lambda) * redundancy: what rkv and rkv-vase share.
#pragma once

#include "policy/smooth.h"

namespace kvase {

struct RkvOptions {
  double lambda = 0.1;  // 0..1
  Smoothing smoothing;  // of the mass
  MassSpec mass;
  Statistic redundancy = Statistic::k_redundancy;  // a mean cosine per slot, made a softmax here
  bool over_all = true;                            // the softmax runs over all slots, else over candidates
};

// Option `lambda`.
ParamInfo lambda_param(std::string default_value);

class Rkv final : public Policy {
 public:
  explicit Rkv(const RkvOptions& options) : options_(options) {}
  Needs needs() const override;
  Scores score(const LayerView& layer, const EventContext& event) const override;
  Verdict decide(const LayerView& layer, const EventContext& event) const override;

 private:
  RkvOptions options_;
};

}  // namespace kvase

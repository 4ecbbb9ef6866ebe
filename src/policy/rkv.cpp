// SPDX-License-Identifier: MIT
// rkv: keep what the newest queries attend to and what is not said again later. R-KV as released.
//
// Paper: Cai et al. 2025, arXiv:2505.24133: Z = lambda * I - (1 - lambda) * R.
// I: largest logit of the query heads of a KV head, softmax over candidates, mean over the window, 7-tap
// maximum. R: softmax over all slots of the mean cosine to the other keys, where each key spares the newest
// key that is similar to it (src/stats/redundancy.h). Differs from the released code: "newest" and the
// filter's neighbours are by position, not by slot (axis=slot gives its filter); the window is the cache's,
// not 8, and events come every interval, not every 128 tokens. Needs: mass, k_redundancy. Cost: that of
// k_redundancy, up to length^2 * head_dim. Deterministic.
#include "policy/methods.h"
#include "policy/rkv_score.h"

namespace kvase {

PolicyInfo rkv_info() {
  PolicyInfo info;
  info.name = "rkv";
  info.summary = "keep what is attended to and not redundant, as R-KV's code has it";
  info.paper = "Cai et al. 2025, arXiv:2505.24133";
  info.params = {lambda_param("0.1")};
  for (ParamInfo& param : smoothing_params("max", "7")) info.params.push_back(std::move(param));
  info.notes = {
      "the paper's window is 8 and its interval 128: window=8,interval=128",
      "axis=slot smooths in the order in which the released code stores survivors",
      "a key with nothing similar spares the oldest token, as in the released code",
      "slow: looks for a similar key among all slots; rkv-vase needs no such search",
  };
  info.make = [](const Params& params) {
    RkvOptions options;
    options.lambda = params.real("lambda");
    options.smoothing = make_smoothing("rkv", params);
    options.mass.group = MassSpec::Group::max_logit;
    return std::make_unique<Rkv>(options);
  };
  return info;
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// streaming-llm: keep the first tokens, on which attention rests when it has nowhere to go, and the newest.
//
// Paper: Xiao et al. 2023, arXiv:2309.17453, section 3.2.
// Differs from the paper: keys keep their rotation (the paper rotates by cache index, which lets a stream
// outlive the trained context), and eviction is periodic, so up to `interval` more tokens are seen. Needs:
// positions. Cost: O(length) per KV head and event. Deterministic.
#include "policy/methods.h"
#include "policy/recency.h"

namespace kvase {

PolicyInfo streaming_llm_info() {
  PolicyInfo info;
  info.name = "streaming-llm";
  info.summary = "keep the first tokens (sinks) and the newest";
  info.paper = "Xiao et al. 2023, arXiv:2309.17453";
  info.default_sinks = 4;
  info.notes = {
      "keys keep the rotation of their position in the text; the paper rotates by place in the cache"};
  info.make = [](const Params&) { return std::make_unique<Recency>(); };
  return info;
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// window: keep the newest tokens and nothing else. The control of every other method.
//
// Differs from streaming-llm by its sinks: none by default. Expected to collapse once the first tokens are
// gone. Needs: positions. Cost: O(length) per KV head and event. Deterministic.
#include "policy/methods.h"
#include "policy/recency.h"

namespace kvase {

PolicyInfo window_info() {
  PolicyInfo info;
  info.name = "window";
  info.summary = "keep the newest tokens";
  info.notes = {"protects no sinks unless asked to; then it is streaming-llm"};
  info.make = [](const Params&) { return std::make_unique<Recency>(); };
  return info;
}

}  // namespace kvase

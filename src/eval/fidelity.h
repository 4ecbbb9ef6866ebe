// SPDX-License-Identifier: MIT
// Text read by a model with the full cache and with each policy, side by side: how much is lost by evicting.
//
// Equal memory: a budget is bytes of K and V rows over capacity, the same for every policy. Token by token
// and in steps of several tokens a policy reads the same cache, so blocks give the numbers of decoding.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "eval/work.h"
#include "kvase/engine.h"
#include "kvase/model.h"
#include "kvase/options.h"

namespace kvase::eval {

// A row holds means over this many pieces of the text too, so that differences get standard errors. A quarter
// of them is the last quarter.
inline constexpr uint32_t kBlocks = 16;

struct FidelityText {
  std::string name;
  std::vector<Token> tokens;  // n_tokens that are read, and the one after them
};

// Throws Error(invalid_argument) if the text has fewer than n_tokens + 1 tokens.
FidelityText make_fidelity_text(const Model& model, const std::string& name, const std::string& text,
                                uint32_t n_tokens);

// What is asked for, before it is multiplied out.
struct FidelityPlan {
  EngineOptions engine;               // threads, interval, window, sinks, row types
  std::vector<std::string> policies;  // all evict
  std::vector<std::string>
      budgets;  // "1/4" of the full cache's bytes, "512MiB", or tokens at the plan's interval
  std::vector<uint64_t> seeds = {0};
  uint32_t n_tokens = 4096;
};

struct FidelityItem {
  std::string key;
  size_t text = 0;  // number of the text
  std::string policy;
  std::string budget;            // as given
  std::optional<uint64_t> seed;  // none: the policy draws nothing
  CacheOptions cache;
};

// Policies first to last, each at all budgets, on all texts, with all seeds where they matter.
// Throws Error(invalid_argument): n_tokens below kBlocks; a policy, a budget or a pair of them that cannot
// be; two texts of one name, a policy or a budget twice.
std::vector<FidelityItem> fidelity_items(const FidelityPlan& plan, const ModelInfo& info,
                                         const std::vector<std::string>& text_names);

Json fidelity_definition(const FidelityPlan& plan, const ModelInfo& info,
                         const std::vector<FidelityText>& texts);

struct FidelityHooks {
  std::function<bool()> should_stop = {};
  // Tokens of the text that all have read.
  std::function<void(size_t n_done, size_t n_total)> on_progress = {};
};

// One pass over one text: the full cache once, and an engine for every item, all of which name this text.
// One row per item, in order; none if should_stop ended it. Throws as Engine, and Error(device) for logits
// that are not finite.
std::vector<Json> measure_fidelity(const Model& model, const EngineOptions& options, const FidelityText& text,
                                   const std::vector<FidelityItem>& items, const FidelityHooks& hooks);

}  // namespace kvase::eval

// SPDX-License-Identifier: MIT
// +zero and +vector: some slots keep their key and lose their value, so that more keys stay for the same
// bytes.
//
// Paper: VECTOR, Lin et al. 2026, arXiv:2605.23258. The base method ranks the slots, and the best budget +
// n_recruits stay. Of those that still have a value, the ones whose loss costs least give it up, until budget
// - n_recruits are left. The cost of a slot is e, or a^2 e with route=weighted: e = |v - what would stand for
// it|^2, a = its attention mass. The window, the first 4 tokens of the text (as far as the base keeps them)
// and what the base protects (a score of +inf) stay exact.
// Differs from the paper: runs at every event, not once after the prompt; protects; may weight by attention;
// with +zero a value is replaced by the mean of those that the head lost, with no map.
// States only move down: a slot without a value never gets one again.
// Cost: one selection among the slots that stay, per KV head and event. Deterministic if the base is.
#pragma once

#include <memory>

#include "kvase/policy.h"

namespace kvase {

// First tokens of the text, whose keys and attention are huge and whose values are tiny: anything else in a
// value's place would weigh heavily. They stay out of the tier and out of the fit of maps.
inline constexpr uint32_t kAttentionSinks = 4;

ModifierInfo zero_info();
ModifierInfo vector_info();

// What a modifier's options ask of the cache. Throws Error(invalid_argument) if +vector has no map.
TierOptions make_tier(const ModifierInfo& info, const Params& params);

// `base` with the walk above. Throws Error(invalid_argument) if route=weighted is given and the base takes no
// mass.
std::shared_ptr<const Policy> make_tiered(std::shared_ptr<const Policy> base, const ModifierInfo& info,
                                          const Params& params);

// The walk, for one KV head.
//   scores  of the base, one per slot; cost  of losing the value, one per slot, read for exact slots alone. A
//           NaN counts as the largest cost
// REQUIRES: n_approximate <= 2 n_recruits <= budget; the window fits budget - n_recruits; length >= budget +
// n_recruits.
HeadVerdict route(std::span<const double> scores, std::span<const double> cost, const HeadView& head,
                  const EventContext& event, uint32_t budget, uint32_t n_recruits);

// Most recruits that a layer of this shape may have: half its budget, less if the values of the protected
// slots need the room. Throws Error(invalid_argument) if that leaves none.
uint32_t most_recruits(const ParsedPolicy& policy, const CacheShape& shape);

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Shared selection: who is protected, who is best, and the race that samples without replacement.
//
// One order everywhere: higher score first, ties to the smaller pos, NaN counts as minus infinity. Slots lie
// in any order; only `pos` says what is old. Scores f64 [length], one per slot of one KV head.
#pragma once

#include <span>
#include <vector>

#include "base/random.h"
#include "kvase/policy.h"

namespace kvase {

inline bool in_window(int32_t pos, const EventContext& event) {
  return pos >= event.n_seen - static_cast<int64_t>(event.window);
}
inline bool is_sink(int32_t pos, const EventContext& event) {
  return pos < static_cast<int64_t>(event.n_sink);
}

// Slots with pos >= n_sink, oldest first.
std::vector<uint32_t> by_position(std::span<const int32_t> pos, uint32_t n_sink);

// Slots outside the window, ascending.
std::vector<uint32_t> candidate_slots(const HeadView& head, const EventContext& event);

// Set to +inf: the window, which no event touches; the sinks, pos < n_sink.
void protect_window(std::span<double> scores, const HeadView& head, const EventContext& event);
void protect_sinks(std::span<double> scores, const HeadView& head, const EventContext& event);
void protect(std::span<double> scores, const HeadView& head, const EventContext& event);

// The `count` best of `slots` (all if there are fewer), best first.
std::vector<uint32_t> best_first(const std::vector<uint32_t>& slots, std::span<const double> scores,
                                 std::span<const int32_t> pos, size_t count);

// Drops all but the window and the best of the rest, so that `budget` slots stay; nothing if no more are in
// use. The window stays whatever its scores are.
// REQUIRES: the window fits the budget; check_shape() sees to it.
HeadVerdict keep_best(std::span<const double> scores, const HeadView& head, const EventContext& event,
                      uint32_t budget);

// Kept slots in the order in which the published code lays them out: `reserved` as given, the other
// candidates by score, the window by pos. `drop` ascending.
std::vector<uint32_t> layout_order(std::span<const double> scores, const HeadView& head,
                                   const EventContext& event, std::span<const uint32_t> drop,
                                   std::span<const uint32_t> reserved);

// What decide() answers for methods that report their layout, if `ordered`, with nothing reserved.
Verdict best_in_order(const Scores& scores, const LayerView& layer, const EventContext& event, bool ordered);

// The column's softmax over `slots`, in their order. A NaN stays NaN and does not touch the others.
std::vector<double> softmax(std::span<const float> column, std::span<const uint32_t> slots);

NoiseKey noise_key(const EventContext& event, uint32_t kv_head);

// ln weight + Gumbel noise of the uniform `u`: the k largest keys are a draw of k slots without replacement,
// each time in proportion to weight (Gumbel-top-k, the same law as the exponential race weight / Exp(1)).
// Keys of positive weights lie above -800. A weight of 0 gives kZeroWeightKey + pos, which loses to all of
// them and fills a shortfall most recent first; a NaN weight gives -inf, which loses to that.
inline constexpr double kZeroWeightKey = -1e12;
double race_key(double weight, double u, int32_t pos);

}  // namespace kvase

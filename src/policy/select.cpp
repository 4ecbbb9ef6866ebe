// SPDX-License-Identifier: MIT
// Shared selection: top-k with stated ties, protection, layout order, race keys.
#include "policy/select.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace kvase {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A strict total order over slots of one head, since positions are distinct.
class Better {
 public:
  Better(std::span<const double> scores, std::span<const int32_t> pos) : scores_(scores), pos_(pos) {}
  bool operator()(uint32_t a, uint32_t b) const {
    const double score_a = rankable(scores_[a]);
    const double score_b = rankable(scores_[b]);
    return score_a != score_b ? score_a > score_b : pos_[a] < pos_[b];
  }

 private:
  static double rankable(double score) { return std::isnan(score) ? -kInfinity : score; }
  std::span<const double> scores_;
  std::span<const int32_t> pos_;
};

// Leaves the `count` best of `slots`, unordered. Linear time: at an event all but `interval` slots stay.
void leave_best(std::vector<uint32_t>& slots, std::span<const double> scores, std::span<const int32_t> pos,
                size_t count) {
  if (count >= slots.size()) return;
  std::nth_element(slots.begin(), slots.begin() + static_cast<ptrdiff_t>(count), slots.end(),
                   Better(scores, pos));
  slots.resize(count);
}

}  // namespace

std::vector<uint32_t> candidate_slots(const HeadView& head, const EventContext& event) {
  std::vector<uint32_t> slots;
  slots.reserve(head.length());
  for (uint32_t slot = 0; slot < head.length(); ++slot) {
    if (!in_window(head.pos[slot], event)) slots.push_back(slot);
  }
  return slots;
}

void protect_window(std::span<double> scores, const HeadView& head, const EventContext& event) {
  for (size_t slot = 0; slot < head.length(); ++slot) {
    if (in_window(head.pos[slot], event)) scores[slot] = kInfinity;
  }
}

void protect_sinks(std::span<double> scores, const HeadView& head, const EventContext& event) {
  for (size_t slot = 0; slot < head.length(); ++slot) {
    if (is_sink(head.pos[slot], event)) scores[slot] = kInfinity;
  }
}

void protect(std::span<double> scores, const HeadView& head, const EventContext& event) {
  protect_window(scores, head, event);
  protect_sinks(scores, head, event);
}

std::vector<uint32_t> best_first(std::vector<uint32_t> slots, std::span<const double> scores,
                                 std::span<const int32_t> pos, size_t count) {
  leave_best(slots, scores, pos, count);
  std::ranges::sort(slots, Better(scores, pos));
  return slots;
}

HeadVerdict keep_best(std::span<const double> scores, const HeadView& head, const EventContext& event,
                      uint32_t budget) {
  HeadVerdict verdict;
  if (head.length() <= budget) return verdict;

  std::vector<uint32_t> kept = candidate_slots(head, event);
  const size_t n_window = head.length() - kept.size();
  KVASE_CHECK(n_window <= budget, "window of {} slots, budget {}", n_window, budget);
  leave_best(kept, scores, head.pos, budget - n_window);

  std::vector<bool> stays(head.length(), false);
  for (const uint32_t slot : kept) stays[slot] = true;
  verdict.drop.reserve(head.length() - budget);
  for (uint32_t slot = 0; slot < head.length(); ++slot) {
    if (!stays[slot] && !in_window(head.pos[slot], event)) verdict.drop.push_back(slot);
  }
  return verdict;
}

std::vector<uint32_t> layout_order(std::span<const double> scores, const HeadView& head,
                                   const EventContext& event, std::span<const uint32_t> drop,
                                   std::span<const uint32_t> reserved) {
  std::vector<bool> placed(head.length(), false);
  for (const uint32_t slot : drop) placed[slot] = true;
  for (const uint32_t slot : reserved) placed[slot] = true;

  std::vector<uint32_t> by_score, by_pos;
  for (uint32_t slot = 0; slot < head.length(); ++slot) {
    if (placed[slot]) continue;
    (in_window(head.pos[slot], event) ? by_pos : by_score).push_back(slot);
  }
  std::ranges::sort(by_score, Better(scores, head.pos));
  std::ranges::sort(by_pos, {}, [&](uint32_t slot) { return head.pos[slot]; });

  std::vector<uint32_t> order(reserved.begin(), reserved.end());
  order.insert(order.end(), by_score.begin(), by_score.end());
  order.insert(order.end(), by_pos.begin(), by_pos.end());
  return order;
}

NoiseKey noise_key(const EventContext& event, uint32_t kv_head) {
  return {.seed = event.seed,
          .sequence = event.sequence,
          .layer = event.layer,
          .head = kv_head,
          .event = event.event};
}

double race_key(double weight, double u, int32_t pos) {
  if (!(weight >= 0)) return -kInfinity;  // NaN
  if (weight == 0) return kZeroWeightKey + pos;
  return std::log(weight) - std::log(-std::log(u));
}

}  // namespace kvase

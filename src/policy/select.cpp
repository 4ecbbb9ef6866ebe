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

// What the order needs of one slot, side by side, since sorting is most of an event's time.
struct Entry {
  double score;
  int32_t pos;
  uint32_t slot;
};

// A strict total order, since positions are distinct.
bool better(const Entry& a, const Entry& b) { return a.score != b.score ? a.score > b.score : a.pos < b.pos; }

std::vector<Entry> entries_of(const std::vector<uint32_t>& slots, std::span<const double> scores,
                              std::span<const int32_t> pos) {
  std::vector<Entry> entries;
  entries.reserve(slots.size());
  for (const uint32_t slot : slots) {
    const double score = std::isnan(scores[slot]) ? -kInfinity : scores[slot];
    entries.push_back({score, pos[slot], slot});
  }
  return entries;
}

// Leaves the `count` best, unordered. Linear time: at an event all but `interval` slots stay.
void leave_best(std::vector<Entry>& entries, size_t count) {
  if (count >= entries.size()) return;
  std::nth_element(entries.begin(), entries.begin() + static_cast<ptrdiff_t>(count), entries.end(), better);
  entries.resize(count);
}

}  // namespace

std::vector<uint32_t> by_position(std::span<const int32_t> pos, uint32_t n_sink) {
  // Position and slot in one number: sorting then looks nowhere else.
  std::vector<uint64_t> tokens;
  tokens.reserve(pos.size());
  for (uint32_t slot = 0; slot < pos.size(); ++slot) {
    if (pos[slot] >= int64_t{n_sink}) tokens.push_back(static_cast<uint64_t>(pos[slot]) << 32 | slot);
  }
  std::ranges::sort(tokens);
  std::vector<uint32_t> slots;
  slots.reserve(tokens.size());
  for (const uint64_t token : tokens) slots.push_back(static_cast<uint32_t>(token));
  return slots;
}

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

std::vector<uint32_t> best_first(const std::vector<uint32_t>& slots, std::span<const double> scores,
                                 std::span<const int32_t> pos, size_t count) {
  std::vector<Entry> entries = entries_of(slots, scores, pos);
  leave_best(entries, count);
  std::ranges::sort(entries, better);
  std::vector<uint32_t> best;
  best.reserve(entries.size());
  for (const Entry& entry : entries) best.push_back(entry.slot);
  return best;
}

HeadVerdict keep_best(std::span<const double> scores, const HeadView& head, const EventContext& event,
                      uint32_t budget) {
  HeadVerdict verdict;
  if (head.length() <= budget) return verdict;

  std::vector<Entry> kept = entries_of(candidate_slots(head, event), scores, head.pos);
  const size_t n_window = head.length() - kept.size();
  KVASE_CHECK(n_window <= budget, "window of {} slots, budget {}", n_window, budget);
  leave_best(kept, budget - n_window);

  std::vector<bool> stays(head.length(), false);
  for (const Entry& entry : kept) stays[entry.slot] = true;
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
  by_score = best_first(by_score, scores, head.pos, by_score.size());
  std::ranges::sort(by_pos, {}, [&](uint32_t slot) { return head.pos[slot]; });

  std::vector<uint32_t> order(reserved.begin(), reserved.end());
  order.insert(order.end(), by_score.begin(), by_score.end());
  order.insert(order.end(), by_pos.begin(), by_pos.end());
  return order;
}

Verdict best_in_order(const Scores& scores, const LayerView& layer, const EventContext& event, bool ordered) {
  Verdict verdict;
  for (size_t kv_head = 0; kv_head < layer.heads.size(); ++kv_head) {
    const HeadView& head = layer.heads[kv_head];
    HeadVerdict keep = keep_best(scores[kv_head], head, event, layer.budget);
    if (ordered) keep.order = layout_order(scores[kv_head], head, event, keep.drop, {});
    verdict.heads.push_back(std::move(keep));
  }
  return verdict;
}

std::vector<double> softmax(std::span<const float> column, std::span<const uint32_t> slots) {
  double most = -kInfinity, sum = 0;
  for (const uint32_t slot : slots)
    most = std::max(most, std::isnan(column[slot]) ? most : double{column[slot]});
  std::vector<double> result;
  result.reserve(slots.size());
  for (const uint32_t slot : slots) {
    result.push_back(std::exp(double{column[slot]} - most));
    if (!std::isnan(result.back())) sum += result.back();
  }
  for (double& value : result) value /= sum;
  return result;
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

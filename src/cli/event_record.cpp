// SPDX-License-Identifier: MIT
// From verdicts to columns per position.
#include "cli/event_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvase/error.h"

namespace kvase::cli {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

void make_longer(HeadRecord& head, size_t n) {
  if (n <= head.left.size()) return;
  head.left.resize(n, kNoEvent);
  head.demoted.resize(n, kNoEvent);
  head.range.resize(n, kUnknown);
  head.score.resize(n, kUnknown);
}

Quantiles quantiles(std::vector<float>& values) {
  constexpr std::array<double, 5> kShares = {0.05, 0.25, 0.5, 0.75, 0.95};
  Quantiles result;
  result.fill(kUnknown);
  if (values.empty()) return result;
  std::ranges::sort(values);
  for (size_t place = 0; place < result.size(); ++place) {
    const double rank = kShares[place] * static_cast<double>(values.size() - 1);
    result[place] = values[static_cast<size_t>(std::lround(rank))];
  }
  return result;
}

void record_scores(HeadRecord& record, const HeadView& head, std::span<const double> scores,
                   std::span<const uint32_t> drop, const EventContext& event) {
  std::vector<float> kept, dropped;
  for (uint32_t slot = 0; slot < head.length(); ++slot) {
    const auto score = static_cast<float>(scores[slot]);
    record.score[static_cast<size_t>(head.pos[slot])] = score;
    const bool is_candidate = head.pos[slot] < event.n_seen - event.window;
    if (!is_candidate || !std::isfinite(score)) continue;
    (std::ranges::binary_search(drop, slot) ? dropped : kept).push_back(score);
  }
  record.kept.push_back(quantiles(kept));
  record.dropped.push_back(quantiles(dropped));
}

}  // namespace

EventRecord::EventRecord(std::span<const uint32_t> layers, uint32_t n_kv_heads) {
  for (const uint32_t layer : layers) {
    layers_.push_back({.layer = layer, .events = {}, .heads = std::vector<HeadRecord>(n_kv_heads)});
  }
}

void EventRecord::add(const LayerEvent& seen) {
  const auto found = std::ranges::find(layers_, seen.event.layer, &LayerRecord::layer);
  if (found == layers_.end()) return;
  if (found->events.size() >= kNoEvent - 1) {
    throw Error(ErrorCode::unsupported,
                fmt::format("inspect: found more than {} events, allowed: up to that, with a larger "
                            "--kv-interval",
                            kNoEvent - 1));
  }
  const auto number = static_cast<uint16_t>(found->events.size());
  for (size_t kv_head = 0; kv_head < found->heads.size(); ++kv_head) {
    const HeadView& head = seen.layer.heads[kv_head];
    const HeadVerdict& verdict = seen.verdict.heads[kv_head];
    HeadRecord& record = found->heads[kv_head];
    make_longer(record, static_cast<size_t>(seen.event.n_seen));
    for (size_t slot = 0; slot < head.length(); ++slot)
      record.range[static_cast<size_t>(head.pos[slot])] = head[Statistic::v_range][slot];
    for (const uint32_t slot : verdict.drop) record.left[static_cast<size_t>(head.pos[slot])] = number;
    for (const uint32_t slot : verdict.demote) record.demoted[static_cast<size_t>(head.pos[slot])] = number;
    record_scores(record, head, seen.scores[kv_head], verdict.drop, seen.event);
  }
  found->events.push_back(seen.event.n_seen);
}

void EventRecord::extend(int64_t n_seen) {
  for (LayerRecord& layer : layers_) {
    for (HeadRecord& head : layer.heads) make_longer(head, static_cast<size_t>(n_seen));
  }
}

}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// What became of every token of one sequence, learned from its events.
//
// What is gone never comes back, so one number per (head, token) tells its state after any event.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kvase/engine.h"

namespace kvase::cli {

// A distribution's 5, 25, 50, 75 and 95 %; NaN of nothing.
using Quantiles = std::array<float, 5>;

inline constexpr uint16_t kNoEvent = std::numeric_limits<uint16_t>::max();

// Every column but the last two is per position.
struct HeadRecord {
  std::vector<uint16_t> left;     // number of the event in its layer that evicted the token, or kNoEvent
  std::vector<uint16_t> demoted;  // likewise, that left its key alone
  std::vector<float> range;       // of its value; NaN: no event has shown it
  std::vector<float> score;       // at the last event that it was in; NaN likewise
  // Per event: finite scores of the candidates that stayed and of those that went.
  std::vector<Quantiles> kept, dropped;
};

struct LayerRecord {
  uint32_t layer = 0;
  std::vector<int64_t> events;    // n_seen of each
  std::vector<HeadRecord> heads;  // one per KV head
};

class EventRecord {
 public:
  // layers: those to record, ascending and distinct.
  EventRecord(std::span<const uint32_t> layers, uint32_t n_kv_heads);

  // Takes one event of a layer; other layers than those named are not looked at. The event shows
  // Statistic::v_range. Throws Error(unsupported) after 65,534 events.
  void add(const LayerEvent& seen);

  // Makes all columns this long: with tokens that no event has shown.
  void extend(int64_t n_seen);

  const std::vector<LayerRecord>& layers() const { return layers_; }

 private:
  std::vector<LayerRecord> layers_;
};

}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// Made-up layers for tests of policies: columns without a model, slots in any order.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "golden/oracle.h"

namespace kvase::synthetic {

struct Shape {
  uint32_t n_kv_heads = 2, group = 3, length = 90, window = 10, budget = 48, n_sink = 4;
};

inline EventContext event_of(const Shape& shape) {
  EventContext event;
  event.seed = 1;
  event.n_seen = 2 * int64_t{shape.length};
  event.window = shape.window;
  event.n_sink = shape.n_sink;
  return event;
}

// Positions 0..5, then gaps, then the window at the end of 2 * length tokens.
inline std::vector<int32_t> positions(const Shape& shape, std::mt19937& random) {
  const int32_t first = std::min<int32_t>(6, static_cast<int32_t>(shape.length - shape.window));
  const int32_t window_begin = static_cast<int32_t>(2 * shape.length - shape.window);
  std::vector<int32_t> middle(static_cast<size_t>(window_begin - first)), pos(static_cast<size_t>(first));
  std::iota(middle.begin(), middle.end(), first);
  std::iota(pos.begin(), pos.end(), 0);
  std::sample(middle.begin(), middle.end(), std::back_inserter(pos),
              static_cast<int64_t>(shape.length - shape.window) - first, random);
  for (uint32_t newest = 0; newest < shape.window; ++newest) {
    pos.push_back(window_begin + static_cast<int32_t>(newest));
  }
  return pos;
}

// Columns of positive, heavy-tailed noise, whatever the statistic; slots in order of pos.
inline oracle::Layer layer(const Needs& needs, const Shape& shape, uint32_t seed = 7) {
  std::mt19937 random(seed);
  std::lognormal_distribution<float> noise(0.0f, 1.5f);
  oracle::Layer result;
  result.budget = shape.budget;
  result.n_mass_rows = needs.mass.group == MassSpec::Group::per_head ? shape.group : 1;
  for (uint32_t kv_head = 0; kv_head < shape.n_kv_heads; ++kv_head) {
    oracle::HeadColumns head;
    head.pos = positions(shape, random);
    head.rank.resize(shape.length);
    std::iota(head.rank.begin(), head.rank.end(), 0);
    for (const Statistic statistic : needs.statistics) {
      const size_t n_rows = statistic == Statistic::mass ? result.n_mass_rows : 1;
      std::vector<float>& column = head[statistic];
      for (size_t index = 0; index < n_rows * shape.length; ++index) column.push_back(noise(random));
      if (statistic != Statistic::mass) continue;
      for (size_t index = 0; index < column.size(); ++index) {
        if (index % shape.length >= shape.length - shape.window) column[index] = 0;
      }
    }
    result.heads.push_back(std::move(head));
  }
  return result;
}

// One head with the given mass and v_range per slot, pos = slot.
inline oracle::Layer small_layer(const std::vector<float>& mass, const std::vector<float>& ranges,
                                 uint32_t budget) {
  oracle::Layer result;
  result.budget = budget;
  result.heads.resize(1);
  oracle::HeadColumns& head = result.heads[0];
  head.pos.resize(mass.size());
  std::iota(head.pos.begin(), head.pos.end(), 0);
  head.rank = head.pos;
  head[Statistic::mass] = mass;
  head[Statistic::v_range] = ranges;
  return result;
}

inline EventContext small_event(size_t length, uint32_t window, uint32_t n_sink = 0) {
  EventContext event;
  event.n_seen = static_cast<int64_t>(length);
  event.window = window;
  event.n_sink = n_sink;
  return event;
}

template <typename T>
void permute(std::vector<T>& column, const std::vector<uint32_t>& from) {
  std::vector<T> moved;
  for (size_t row = 0; row * from.size() < column.size(); ++row) {
    for (const uint32_t slot : from) moved.push_back(column[row * from.size() + slot]);
  }
  column = moved;
}

// Every slot, with all of its columns, somewhere else.
inline void shuffle_slots(oracle::Layer& layer, uint32_t seed) {
  std::mt19937 random(seed);
  for (oracle::HeadColumns& head : layer.heads) {
    std::vector<uint32_t> from(head.pos.size());
    std::iota(from.begin(), from.end(), 0U);
    std::shuffle(from.begin(), from.end(), random);
    for (std::vector<float>& column : head.columns) permute(column, from);
    permute(head.pos, from);
    permute(head.rank, from);
  }
}

// Positions that stay, per head.
inline std::vector<std::set<int32_t>> kept_positions(const oracle::Layer& layer, const Verdict& verdict) {
  std::vector<std::set<int32_t>> kept;
  for (size_t kv_head = 0; kv_head < layer.heads.size(); ++kv_head) {
    const std::vector<int32_t>& pos = layer.heads[kv_head].pos;
    kept.emplace_back(pos.begin(), pos.end());
    for (const uint32_t slot : verdict.heads[kv_head].drop) kept.back().erase(pos.at(slot));
  }
  return kept;
}

}  // namespace kvase::synthetic

// SPDX-License-Identifier: MIT
// The oracle of every statistic: plain double-precision loops over K, V and Q, as the papers write them.
//
// Works on one KV head at one event, whose slots may hold any tokens in any order. Columns are rounded to f32
// once, at the end, as a policy gets them. Shapes in ggml order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/random.h"
#include "kvase/policy.h"
#include "kvase/score.h"

namespace kvase::oracle {

// Rows are spans into the caller's arrays.
struct HeadInput {
  std::vector<std::span<const float>> k, v;  // one row of head_dim per slot; k after RoPE
  std::vector<std::vector<std::span<const float>>>
      q;                     // [query head of the group][query of the window, oldest first]
  std::vector<int32_t> pos;  // per slot
};

struct HeadColumns {
  std::vector<int32_t> pos, rank;
  std::vector<float> columns[kStatisticCount];

  HeadView view() const {
    HeadView head;
    head.pos = pos;
    head.rank = rank;
    for (size_t s = 0; s < kStatisticCount; ++s) head.columns[s] = columns[s];
    return head;
  }
  std::vector<float>& operator[](Statistic s) { return columns[static_cast<size_t>(s)]; }
};

inline double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t d = 0; d < a.size(); ++d) sum += static_cast<double>(a[d]) * b[d];
  return sum;
}

inline double range(std::span<const float> row) {
  const auto [low, high] = std::ranges::minmax(row);
  return static_cast<double>(high) - low;
}

// Over channels, divided by head_dim - 1.
inline double variance(std::span<const float> row) {
  double mean = 0, squares = 0;
  for (const float x : row) mean += x / static_cast<double>(row.size());
  for (const float x : row) squares += (x - mean) * (x - mean);
  return squares / static_cast<double>(row.size() - 1);
}

inline double length(std::span<const float> row) { return std::sqrt(dot(row, row)); }

inline double largest(std::span<const float> row) {
  double most = 0;
  for (const float x : row) most = std::max(most, std::abs(static_cast<double>(x)));
  return most;
}

// |x G|^2, G [rank, head_dim] as gaussian_matrix() lays it out.
inline double sketched_square(std::span<const float> row, const std::vector<double>& matrix) {
  const size_t rank = matrix.size() / row.size();
  double square = 0;
  for (size_t column = 0; column < rank; ++column) {
    double sum = 0;
    for (size_t d = 0; d < row.size(); ++d) sum += row[d] * matrix[d * rank + column];
    square += sum * sum;
  }
  return square;
}

// Softmax in place over the entries with live[slot]; 0 elsewhere.
inline void softmax(std::vector<double>& logits, const std::vector<bool>& live) {
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (size_t slot = 0; slot < logits.size(); ++slot) {
    if (live[slot]) most = std::max(most, logits[slot]);
  }
  for (size_t slot = 0; slot < logits.size(); ++slot) {
    logits[slot] = live[slot] ? std::exp(logits[slot] - most) : 0.0;
    sum += logits[slot];
  }
  for (double& p : logits) p /= sum;
}

// The slots that the softmax of the query at `query_pos` runs over.
inline std::vector<bool> softmax_domain(const HeadInput& head, const MassSpec& spec,
                                        const EventContext& event, int64_t query_pos) {
  std::vector<bool> live;
  for (const int32_t pos : head.pos) {
    const bool candidate = pos < event.n_seen - event.window;
    live.push_back(spec.domain == MassSpec::Domain::candidates ? candidate : pos <= query_pos);
  }
  return live;
}

// Attention mass, rows of `length` slots: mean over the window's queries, 0 in the window itself.
// The last query is that of the newest token, pos n_seen - 1.
inline std::vector<float> mass(const HeadInput& head, const MassSpec& spec, const EventContext& event) {
  const size_t n_slots = head.pos.size(), group = head.q.size(), w = head.q[0].size();
  const size_t n_rows = spec.group == MassSpec::Group::per_head ? group : 1;
  std::vector<double> rows(n_rows * n_slots, 0.0);
  for (size_t query = 0; query < w; ++query) {
    const std::vector<bool> live = softmax_domain(
        head, spec, event, event.n_seen - static_cast<int64_t>(w) + static_cast<int64_t>(query));
    std::vector<double> most(n_slots, -std::numeric_limits<double>::infinity());
    for (size_t member = 0; member < group; ++member) {
      std::vector<double> p(n_slots);
      for (size_t slot = 0; slot < n_slots; ++slot) {
        p[slot] =
            dot(head.q[member][query], head.k[slot]) / std::sqrt(static_cast<double>(head.k[slot].size()));
        most[slot] = std::max(most[slot], p[slot]);
      }
      if (spec.group == MassSpec::Group::max_logit) continue;
      softmax(p, live);
      const size_t row = spec.group == MassSpec::Group::per_head ? member : 0;
      const double share = static_cast<double>(w) * (n_rows == 1 ? static_cast<double>(group) : 1.0);
      for (size_t slot = 0; slot < n_slots; ++slot) rows[row * n_slots + slot] += p[slot] / share;
    }
    if (spec.group != MassSpec::Group::max_logit) continue;
    softmax(most, live);
    for (size_t slot = 0; slot < n_slots; ++slot) rows[slot] += most[slot] / static_cast<double>(w);
  }
  std::vector<float> result(rows.begin(), rows.end());
  for (size_t index = 0; index < result.size(); ++index) {
    if (head.pos[index % n_slots] >= event.n_seen - event.window) result[index] = 0;
  }
  return result;
}

// The sketch's matrix at this event.
inline std::vector<double> sketch_matrix(const SketchSpec& sketch, const EventContext& event,
                                         uint32_t head_dim) {
  const NoiseKey key = {.seed = event.seed,
                        .sequence = event.sequence,
                        .layer = event.layer,
                        .head = kSharedHead,
                        .event = sketch.redraw ? event.event : 0};
  return gaussian_matrix(key, head_dim, sketch.rank);
}

// Every column that `needs` names. `rank` is that of the slots' order; the caller may set another.
inline HeadColumns columns(const HeadInput& head, const Needs& needs, const EventContext& event) {
  const size_t n_slots = head.pos.size();
  HeadColumns result;
  result.pos = head.pos;
  for (size_t slot = 0; slot < n_slots; ++slot) result.rank.push_back(static_cast<int32_t>(slot));

  const std::vector<double> matrix =
      sketch_matrix(needs.sketch, event, static_cast<uint32_t>(head.k[0].size()));
  for (const Statistic statistic : needs.statistics) {
    if (statistic == Statistic::mass) {
      result[statistic] = mass(head, needs.mass, event);
      continue;
    }
    for (size_t slot = 0; slot < n_slots; ++slot) {
      const bool in_window = head.pos[slot] >= event.n_seen - event.window;
      double value = 0;
      switch (statistic) {
        case Statistic::mass:
          break;
        case Statistic::v_range:
          value = range(head.v[slot]);
          break;
        case Statistic::v_var:
          value = variance(head.v[slot]);
          break;
        case Statistic::v_l2:
          value = length(head.v[slot]);
          break;
        case Statistic::v_absmax:
          value = largest(head.v[slot]);
          break;
        case Statistic::k_l2:
          value = length(head.k[slot]);
          break;
        case Statistic::k_sketch:
          value = in_window ? 0 : sketched_square(head.k[slot], matrix);
          break;
        case Statistic::v_sketch:
          value = in_window ? 0 : sketched_square(head.v[slot], matrix);
          break;
      }
      result[statistic].push_back(static_cast<float>(value));
    }
  }
  return result;
}

// KV head `kv_head` of `input`, with the given tokens in its slots. The window's queries are the last `w` of
// the first n_seen ones if q has one per token, else all of them.
inline HeadInput head_input(const ScoreInput& input, uint32_t kv_head, std::span<const int32_t> tokens,
                            uint32_t w, size_t last_query) {
  const size_t head_dim = input.head_dim, group = input.n_heads / input.n_kv_heads;
  const auto row = [&](const std::vector<float>& rows, size_t n_rows, size_t head, size_t index) {
    return std::span<const float>(rows).subspan((head * n_rows + index) * head_dim, head_dim);
  };
  HeadInput head;
  for (const int32_t token : tokens) {
    head.k.push_back(row(input.k, input.n, kv_head, static_cast<size_t>(token)));
    head.v.push_back(row(input.v, input.n, kv_head, static_cast<size_t>(token)));
    head.pos.push_back(input.pos[static_cast<size_t>(token)]);
  }
  for (size_t member = 0; member < group; ++member) {
    head.q.emplace_back();
    for (size_t query = last_query + 1 - w; query <= last_query; ++query) {
      head.q.back().push_back(row(input.q, input.w, kv_head * group + member, query));
    }
  }
  return head;
}

// A layer that owns its columns.
struct Layer {
  std::vector<HeadColumns> heads;
  std::vector<HeadView> views;
  uint32_t budget = 0, n_mass_rows = 1;

  LayerView view() {
    views.clear();
    for (const HeadColumns& head : heads) views.push_back(head.view());
    return {.heads = views, .budget = budget, .n_mass_rows = n_mass_rows};
  }
};

inline uint32_t mass_rows(const Needs& needs, const ScoreInput& input) {
  return needs.mass.group == MassSpec::Group::per_head ? input.n_heads / input.n_kv_heads : 1;
}

}  // namespace kvase::oracle

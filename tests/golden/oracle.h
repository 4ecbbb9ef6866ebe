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
    const bool all = spec.domain == MassSpec::Domain::all || spec.queries == MassSpec::Queries::all;
    live.push_back(all ? pos <= query_pos : candidate);
  }
  return live;
}

// Attention mass, rows of `length` slots, of the queries that `head` has: their mean, the last one's, or
// their sum. The last query is that of the newest token, pos n_seen - 1.
inline std::vector<float> mass(const HeadInput& head, const MassSpec& spec, const EventContext& event) {
  const size_t n_slots = head.pos.size(), group = head.q.size(), w = head.q[0].size();
  const size_t n_rows = spec.group == MassSpec::Group::per_head ? group : 1;
  const size_t first_query = spec.queries == MassSpec::Queries::last ? w - 1 : 0;
  const double n_averaged = spec.queries == MassSpec::Queries::window ? static_cast<double>(w) : 1.0;
  std::vector<double> rows(n_rows * n_slots, 0.0);
  for (size_t query = first_query; query < w; ++query) {
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
      const double share = n_averaged * (n_rows == 1 ? static_cast<double>(group) : 1.0);
      for (size_t slot = 0; slot < n_slots; ++slot) rows[row * n_slots + slot] += p[slot] / share;
    }
    if (spec.group != MassSpec::Group::max_logit) continue;
    softmax(most, live);
    for (size_t slot = 0; slot < n_slots; ++slot) rows[slot] += most[slot] / n_averaged;
  }
  std::vector<float> result(rows.begin(), rows.end());
  if (spec.queries == MassSpec::Queries::all) return result;
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

// ---- statistics of a slot among the others
// ---------------------------------------------------------------------------

using Rows = std::vector<std::span<const float>>;

inline double cosine(std::span<const float> a, std::span<const float> b) {
  const double lengths = length(a) * length(b);
  return lengths > 0 ? dot(a, b) / lengths : 0;
}

// Mean cosine of each of `slots` to all of them, itself included; 0 for the other slots.
inline std::vector<double> mean_cosines(const Rows& rows, const std::vector<size_t>& slots) {
  std::vector<double> result(rows.size(), 0.0);
  for (const size_t slot : slots) {
    for (const size_t other : slots)
      result[slot] += cosine(rows[slot], rows[other]) / static_cast<double>(slots.size());
  }
  return result;
}

// Solves A x = b by elimination with row pivots; A [n * n], symmetric.
inline std::vector<double> solve(std::vector<double> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = column;
    for (size_t row = column + 1; row < n; ++row) {
      if (std::abs(a[row * n + column]) > std::abs(a[pivot * n + column])) pivot = row;
    }
    for (size_t other = 0; other < n; ++other) std::swap(a[column * n + other], a[pivot * n + other]);
    std::swap(b[column], b[pivot]);
    for (size_t row = column + 1; row < n; ++row) {
      const double factor = a[row * n + column] / a[column * n + column];
      for (size_t other = column; other < n; ++other) a[row * n + other] -= factor * a[column * n + other];
      b[row] -= factor * b[column];
    }
  }
  for (size_t row = n; row-- > 0;) {
    for (size_t other = row + 1; other < n; ++other) b[row] -= a[row * n + other] * b[other];
    b[row] /= a[row * n + row];
  }
  return b;
}

// x (X^T X + eps I)^-1 x, X the rows of `slots`, eps 1e-6 of the mean diagonal; 0 for the other slots.
inline std::vector<double> leverages(const Rows& rows, const std::vector<size_t>& slots) {
  const size_t n = rows[0].size();
  std::vector<double> gram(n * n, 0.0), result(rows.size(), 0.0);
  for (const size_t slot : slots) {
    for (size_t index = 0; index < n * n; ++index)
      gram[index] += static_cast<double>(rows[slot][index / n]) * rows[slot][index % n];
  }
  double trace = 0;
  for (size_t d = 0; d < n; ++d) trace += gram[d * n + d];
  for (size_t d = 0; d < n; ++d) gram[d * n + d] += 1e-6 * trace / static_cast<double>(n);
  for (const size_t slot : slots) {
    const std::vector<double> x(rows[slot].begin(), rows[slot].end());
    const std::vector<double> y = solve(gram, x);
    for (size_t d = 0; d < n; ++d) result[slot] += x[d] * y[d];
  }
  return result;
}

inline std::vector<size_t> by_position(const std::vector<int32_t>& pos) {
  std::vector<size_t> order(pos.size());
  for (size_t slot = 0; slot < order.size(); ++slot) order[slot] = slot;
  std::ranges::sort(order, {}, [&](size_t slot) { return pos[slot]; });
  return order;
}

// Released R-KV, before its softmax: the whole matrix of cosines with a zero diagonal; in each row the newest
// entry above 0.5 set to 0 (the oldest slot's if there is none); the mean of each column.
inline std::vector<double> redundancies(const HeadInput& head) {
  const std::vector<size_t> order = by_position(head.pos);
  std::vector<double> result(order.size(), 0.0);
  for (const size_t row : order) {
    std::vector<double> cosines;
    size_t exempted = 0;
    for (size_t place = 0; place < order.size(); ++place) {
      cosines.push_back(order[place] == row ? 0 : cosine(head.k[row], head.k[order[place]]));
      if (cosines.back() > 0.5) exempted = place;
    }
    cosines[exempted] = 0;
    for (size_t place = 0; place < order.size(); ++place)
      result[order[place]] += cosines[place] / static_cast<double>(order.size());
  }
  return result;
}

// LagKV's standard deviations, 0 where nothing is compared.
inline std::vector<double> lags(const Rows& rows, const std::vector<int32_t>& pos, uint32_t lag,
                                uint32_t n_sink) {
  std::vector<size_t> order = by_position(pos);
  std::erase_if(order, [&](size_t slot) { return pos[slot] < static_cast<int64_t>(n_sink); });
  std::vector<double> result(pos.size(), 0.0);
  const size_t n = rows[0].size();
  for (size_t first = 0; first + 2 * lag <= order.size(); first += lag) {
    for (size_t place = first; place < first + lag; ++place) {
      std::vector<double> scaled;
      double mean = 0, squares = 0;
      for (size_t d = 0; d < n; ++d) {
        double low = rows[order[first + lag]][d], high = low;
        for (size_t next = first + lag; next < first + 2 * lag; ++next) {
          low = std::min<double>(low, rows[order[next]][d]);
          high = std::max<double>(high, rows[order[next]][d]);
        }
        scaled.push_back(high > low ? (rows[order[place]][d] - low) / (high - low) : 0.0);
        mean += scaled.back() / static_cast<double>(n);
      }
      for (const double y : scaled) squares += (y - mean) * (y - mean);
      result[order[place]] = std::sqrt(squares / static_cast<double>(n - 1));
    }
  }
  return result;
}

// The statistics above; empty for those of a single row.
inline std::vector<double> among_others(const HeadInput& head, Statistic statistic, const Needs& needs,
                                        const EventContext& event) {
  std::vector<size_t> all, candidates;
  for (size_t slot = 0; slot < head.pos.size(); ++slot) {
    all.push_back(slot);
    if (head.pos[slot] < event.n_seen - event.window) candidates.push_back(slot);
  }
  switch (statistic) {
    case Statistic::k_mean_cos:
      return mean_cosines(head.k, candidates);
    case Statistic::k_mean_cos_all:
      return mean_cosines(head.k, all);
    case Statistic::k_leverage:
      return leverages(head.k, candidates);
    case Statistic::v_leverage:
      return leverages(head.v, candidates);
    case Statistic::k_redundancy:
      return redundancies(head);
    case Statistic::k_lag:
      return lags(head.k, head.pos, needs.lag.lag, event.n_sink);
    case Statistic::v_lag:
      return lags(head.v, head.pos, needs.lag.lag, event.n_sink);
    default:
      return {};
  }
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
    if (const std::vector<double> values = among_others(head, statistic, needs, event); !values.empty()) {
      result[statistic].assign(values.begin(), values.end());
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
        default:  // of a slot among the others: done above
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

// SPDX-License-Identifier: MIT
// Layers are independent, so an event runs them in parallel; nothing depends on which thread took which.
#include "engine/event.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/errors.h"
#include "policy/select.h"
#include "stats/row_statistics.h"

namespace kvase {

EventStatistics::EventStatistics(const CacheMemory& memory)
    : memory_(&memory), heads_(memory.cache.dims().n_kv_heads) {
  const CacheDims& dims = memory.cache.dims();
  uint32_t max_rows = 0;
  for (uint32_t layer = 0; layer < dims.n_layers; ++layer)
    max_rows = std::max(max_rows, dims.max_slots(layer));
  if (memory.columns.n_mass_rows() > 1) {
    mass_.assign(heads_.size(), std::vector<float>(size_t{max_rows} * memory.columns.n_mass_rows()));
  }
  slots_.reserve(max_rows);
  for (const Statistic statistic : memory.columns.needs().statistics) {
    if (!is_event_statistic(statistic)) continue;
    event_columns_[static_cast<size_t>(statistic)].assign(heads_.size(), std::vector<float>(max_rows));
  }
  const Columns& columns = memory.columns;
  const uint32_t head_dim = dims.head_dim;
  const auto needs = [&](Statistic statistic) { return columns.needs_statistic(statistic); };
  if (needs(Statistic::k_mean_cos) || needs(Statistic::k_mean_cos_all))
    mean_cosine_.emplace(head_dim, max_rows);
  if (needs(Statistic::k_leverage) || needs(Statistic::v_leverage)) leverage_.emplace(head_dim);
  if (needs(Statistic::k_redundancy)) redundancy_.emplace(head_dim, max_rows);
  if (needs(Statistic::mean_residual)) residual_.emplace(head_dim);
  if (dims.has_tier()) {
    key_.resize(head_dim);
    rebuilt_.resize(size_t{2} * *std::ranges::max_element(dims.n_recruits) * head_dim);
  }
  if (needs(Statistic::k_lag) || needs(Statistic::v_lag)) lag_.emplace(head_dim, columns.needs().lag.lag);
}

LayerView EventStatistics::collect(uint32_t layer, uint32_t sequence, uint32_t budget, uint32_t n_recruits,
                                   const EventContext& event) {
  const auto start = std::chrono::steady_clock::now();
  const Columns& columns = memory_->columns;
  if (columns.needs_sketch())
    matrix_ = make_sketch_matrix(columns.needs().sketch, event, memory_->cache.dims().head_dim);
  for (uint32_t kv_head = 0; kv_head < heads_.size(); ++kv_head) {
    heads_[kv_head] = columns.view(layer, sequence, kv_head);
    order_.clear();
    if (columns.n_mass_rows() > 1) add_dense_mass(layer, sequence, kv_head);
    for (const Statistic statistic : columns.needs().statistics) {
      if (is_event_statistic(statistic)) add_event_column(statistic, layer, sequence, kv_head, event);
    }
  }
  collect_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return {.heads = heads_,
          .budget = budget,
          .n_recruits = n_recruits,
          .n_mass_rows = std::max(columns.n_mass_rows(), 1U)};
}

void EventStatistics::add_dense_mass(uint32_t layer, uint32_t sequence, uint32_t kv_head) {
  HeadView& head = heads_[kv_head];
  const uint32_t n_rows = memory_->columns.n_mass_rows();
  for (uint32_t row = 0; row < n_rows; ++row) {
    const auto mass = memory_->columns.mass(layer, sequence, kv_head, row);
    std::copy_n(mass.begin(), head.length(),
                mass_[kv_head].begin() + static_cast<ptrdiff_t>(row * head.length()));
  }
  head.columns[static_cast<size_t>(Statistic::mass)] =
      std::span<const float>(mass_[kv_head]).first(n_rows * head.length());
}

std::span<const uint32_t> EventStatistics::candidates(const HeadView& head, const EventContext& event) {
  slots_.clear();
  for (uint32_t slot = 0; slot < head.length(); ++slot) {
    if (head.pos[slot] < event.n_seen - event.window) slots_.push_back(slot);
  }
  return slots_;
}

std::span<const uint32_t> EventStatistics::exact_candidates(const HeadView& head, const EventContext& event) {
  candidates(head, event);
  std::erase_if(slots_, [&](uint32_t slot) { return slot < head.n_approximate; });
  return slots_;
}

// Slots with pos >= n_sink, oldest first. Sorted once for all statistics of a head.
std::span<const uint32_t> EventStatistics::in_order(const HeadView& head, uint32_t n_sink) {
  if (order_.empty()) order_ = by_position(head.pos, 0);
  const auto first = std::ranges::lower_bound(order_, int64_t{n_sink}, {},
                                              [&](uint32_t slot) { return int64_t{head.pos[slot]}; });
  return {first, order_.end()};
}

// A head's values, those that are gone rebuilt as attention does.
StoredRows EventStatistics::values(uint32_t layer, uint32_t sequence, uint32_t kv_head) {
  const Cache& cache = memory_->cache;
  const uint32_t head_dim = cache.dims().head_dim;
  const size_t n_rebuilt = size_t{cache.n_approximate(layer, sequence)} * head_dim;
  for (size_t start = 0; start < n_rebuilt; start += head_dim) {
    const auto value = std::span(rebuilt_).subspan(start, head_dim);
    if (!memory_->maps) {
      std::ranges::copy(cache.mean_dropped_value(layer, sequence, kv_head), value.begin());
      continue;
    }
    const size_t slot = start / head_dim;
    const size_t row_bytes = ggml_row_size(cache.dims().type_k, head_dim);
    to_f32(cache.dims().type_k, cache.key_rows(layer, sequence, kv_head) + slot * row_bytes, head_dim,
           key_.data());
    memory_->maps->rope_inverse.unrotate(key_.data(), cache.pos(layer, sequence, kv_head)[slot], key_.data());
    std::ranges::fill(value, 0.0F);
    apply(memory_->maps->layers[layer], kv_head, key_.data(), 1.0F, value.data());
  }
  return {cache.dims().type_v, cache.value_rows(layer, sequence, kv_head), head_dim,
          std::span(rebuilt_).first(n_rebuilt)};
}

void EventStatistics::add_event_column(Statistic statistic, uint32_t layer, uint32_t sequence,
                                       uint32_t kv_head, const EventContext& event) {
  const Cache& cache = memory_->cache;
  const CacheDims& dims = cache.dims();
  HeadView& head = heads_[kv_head];
  const StoredRows keys{dims.type_k, cache.key_rows(layer, sequence, kv_head), dims.head_dim};
  const size_t index = static_cast<size_t>(statistic);
  const std::span<float> column = std::span(event_columns_[index][kv_head]).first(head.length());
  std::ranges::fill(column, 0.0F);
  switch (statistic) {
    case Statistic::k_sketch:
      sketch_rows(matrix_, keys, candidates(head, event), column);
      break;
    case Statistic::v_sketch:
      sketch_rows(matrix_, values(layer, sequence, kv_head), candidates(head, event), column);
      break;
    case Statistic::k_mean_cos:
      mean_cosine_->compute(keys, candidates(head, event), column);
      break;
    case Statistic::k_mean_cos_all:
      mean_cosine_->compute(keys, in_order(head, 0), column);
      break;
    case Statistic::k_leverage:
      leverage_->compute(keys, candidates(head, event), column);
      break;
    case Statistic::v_leverage:
      leverage_->compute(values(layer, sequence, kv_head), candidates(head, event), column);
      break;
    case Statistic::k_redundancy:
      redundancy_->compute(keys, in_order(head, 0), head.pos,
                           memory_->columns.newest_similar(layer, sequence, kv_head), column);
      break;
    case Statistic::k_lag:
      lag_->compute(keys, in_order(head, event.n_sink), column);
      break;
    case Statistic::v_lag:
      lag_->compute(values(layer, sequence, kv_head), in_order(head, event.n_sink), column);
      break;
    case Statistic::mean_residual:
      residual_->compute({dims.type_v, cache.value_rows(layer, sequence, kv_head), dims.head_dim},
                         exact_candidates(head, event), cache.mean_dropped_value(layer, sequence, kv_head),
                         column);
      break;
    default:
      fail(ErrorCode::internal, "statistic {} is not of an event", statistic_name(statistic));
  }
  head.columns[index] = column;
}

namespace {

void check_demoted(const HeadVerdict& verdict, const HeadView& head, uint32_t n_recruits) {
  const auto n_gone = std::ranges::lower_bound(verdict.drop, head.n_approximate) - verdict.drop.begin();
  const size_t n_approximate = head.n_approximate - static_cast<size_t>(n_gone) + verdict.demote.size();
  const bool exact = std::ranges::all_of(verdict.demote, [&](uint32_t slot) {
    return slot >= head.n_approximate && slot < head.length() &&
           !std::ranges::binary_search(verdict.drop, slot);
  });
  const bool ascending =
      std::ranges::adjacent_find(verdict.demote, std::greater_equal{}) == verdict.demote.end();
  if (!exact || !ascending || n_approximate != size_t{2} * n_recruits) {
    invalid("policy: found {} demoted slots, so {} approximate ones, allowed: exact ones, ascending, so {}",
            verdict.demote.size(), n_approximate, 2 * n_recruits);
  }
}

}  // namespace

void check_verdict(const Verdict& verdict, const LayerView& layer, const Needs& needs) {
  if (verdict.heads.size() != layer.heads.size()) {
    invalid("policy: found verdicts for {} KV heads, allowed: {}", verdict.heads.size(), layer.heads.size());
  }
  for (size_t kv_head = 0; kv_head < layer.heads.size(); ++kv_head) {
    const HeadVerdict& head = verdict.heads[kv_head];
    const size_t length = layer.heads[kv_head].length();
    const size_t n_drop = length - std::min<size_t>(size_t{layer.budget} + layer.n_recruits, length);
    const bool ascending = std::ranges::adjacent_find(head.drop, std::greater_equal{}) == head.drop.end();
    if (head.drop.size() != n_drop || !ascending || (n_drop > 0 && head.drop.back() >= length)) {
      invalid("policy: found {} dropped slots for KV head {}, allowed: {} ascending ones below {}",
              head.drop.size(), kv_head, n_drop, length);
    }
    check_demoted(head, layer.heads[kv_head], layer.n_recruits);
    if (needs.rank && head.order.size() != length - n_drop) {
      invalid("policy: found {} ordered slots for KV head {}, allowed: {}", head.order.size(), kv_head,
              length - n_drop);
    }
  }
}

EventRunner::EventRunner(Compute& compute, CacheMemory& memory, const CachePlan& plan)
    : compute_(&compute),
      memory_(&memory),
      plan_(&plan),
      per_thread_(compute.n_threads(), EventStatistics(memory)) {}

void EventRunner::run(uint32_t sequence, std::span<const EventContext> layer_events) {
  if (observer_) {
    for (const EventContext& event : layer_events) run_layer(sequence, event, per_thread_[0]);
    return;
  }
  const auto run_one = [&](uint32_t index, uint32_t thread) {
    run_layer(sequence, layer_events[index], per_thread_[thread]);
  };
  compute_->parallel_for(static_cast<uint32_t>(layer_events.size()), std::ref(run_one));
}

double EventRunner::statistics_ms() const {
  double sum = 0;
  for (const EventStatistics& statistics : per_thread_) sum += statistics.collect_ms();
  return sum / static_cast<double>(per_thread_.size());
}

void EventRunner::run_layer(uint32_t sequence, const EventContext& event, EventStatistics& statistics) {
  const uint32_t layer = event.layer;
  Columns& columns = memory_->columns;
  const LayerView view = statistics.collect(
      layer, sequence, plan_->budgets[layer],
      n_recruits(*plan_, layer, event.n_seen, memory_->cache.length(layer, sequence)), event);
  const Verdict verdict = plan_->policy.policy->decide(view, event);
  check_verdict(verdict, view, plan_->needs);
  if (observer_) {
    observer_({.sequence = sequence,
               .event = event,
               .layer = view,
               .scores = plan_->policy.policy->score(view, event),
               .verdict = verdict});
  }
  for (uint32_t kv_head = 0; kv_head < verdict.heads.size(); ++kv_head)
    columns.set_order(layer, sequence, kv_head, verdict.heads[kv_head].order);
  columns.apply(layer, sequence, memory_->cache.compact(layer, sequence, verdict.heads));
  if (!columns.carries_mass()) columns.clear_mass(layer, sequence);
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Declares, fills and moves the per-slot columns.
#include "stats/columns.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "stats/redundancy.h"
#include "stats/row_statistics.h"

namespace kvase {

Columns::Columns(Arena& arena, const Cache& cache, uint32_t n_heads, const Needs& needs)
    : cache_(&cache), needs_(needs) {
  const size_t before = arena.bytes();
  const uint32_t group = n_heads / cache.dims().n_kv_heads;
  for (const Statistic statistic : needs.statistics) {
    if (statistic == Statistic::mass) {
      n_mass_rows_ = needs.mass.group == MassSpec::Group::per_head ? group : 1;
      add_column(arena, statistics_, statistic, GGML_TYPE_F32, n_mass_rows_, "mass");
    } else if (!is_event_statistic(statistic)) {
      add_column(arena, statistics_, statistic, GGML_TYPE_F32, 1, "row");
    }
  }
  if (needs.rank) add_column(arena, rank_, Statistic::mass, GGML_TYPE_I32, 1, "rank");
  if (needs_statistic(Statistic::k_redundancy))
    add_column(arena, similar_, Statistic::mass, GGML_TYPE_I32, 1, "similar");
  bytes_ = arena.bytes() - before;
}

void Columns::add_column(Arena& arena, std::vector<Column>& columns, Statistic statistic, ggml_type type,
                         uint32_t n_rows, const char* name) const {
  Column column{.statistic = statistic, .n_rows = n_rows, .layers = {}};
  const CacheDims& dims = cache_->dims();
  for (uint32_t layer = 0; layer < dims.n_layers; ++layer) {
    column.layers.push_back(arena.add(type,
                                      {dims.max_slots(layer), n_rows, dims.n_kv_heads, dims.n_sequences},
                                      fmt::format("stats.{}.{}", name, layer)));
  }
  columns.push_back(std::move(column));
}

bool Columns::needs_statistic(Statistic statistic) const {
  return std::ranges::find(needs_.statistics, statistic) != needs_.statistics.end();
}

template <typename T>
std::span<T> Columns::row(const Column& column, uint32_t layer, uint32_t sequence, uint32_t kv_head,
                          uint32_t row_index) const {
  const ggml_tensor* tensor = column.layers[layer];
  auto* bytes = static_cast<std::byte*>(tensor->data) + sequence * tensor->nb[3] + kv_head * tensor->nb[2] +
                row_index * tensor->nb[1];
  return {reinterpret_cast<T*>(bytes), cache_->dims().max_slots(layer)};
}

std::span<float> Columns::mass(uint32_t layer, uint32_t sequence, uint32_t kv_head,
                               uint32_t row_index) const {
  const auto column = std::ranges::find(statistics_, Statistic::mass, &Column::statistic);
  KVASE_CHECK(column != statistics_.end(), "mass is not kept");
  return row<float>(*column, layer, sequence, kv_head, row_index);
}

std::span<float> Columns::residual(uint32_t layer, uint32_t sequence, uint32_t kv_head) const {
  const auto column = std::ranges::find(statistics_, Statistic::residual, &Column::statistic);
  KVASE_CHECK(column != statistics_.end(), "residual is not kept");
  return row<float>(*column, layer, sequence, kv_head, 0);
}

void Columns::clear_mass(uint32_t layer, uint32_t sequence) const {
  for (uint32_t kv_head = 0; kv_head < cache_->dims().n_kv_heads; ++kv_head) {
    for (uint32_t row_index = 0; row_index < n_mass_rows_; ++row_index) {
      std::ranges::fill(mass(layer, sequence, kv_head, row_index), 0.0F);
    }
  }
}

std::span<int32_t> Columns::newest_similar(uint32_t layer, uint32_t sequence, uint32_t kv_head) const {
  KVASE_CHECK(!similar_.empty(), "redundancy is not kept");
  return row<int32_t>(similar_[0], layer, sequence, kv_head, 0);
}

void Columns::append(uint32_t layer, uint32_t sequence, uint32_t kv_head, uint32_t slot,
                     std::span<const float> key, std::span<const float> value) const {
  for (const Column& column : statistics_) {
    const bool of_row = is_row_statistic(column.statistic);
    for (uint32_t row_index = 0; row_index < column.n_rows; ++row_index) {
      row<float>(column, layer, sequence, kv_head, row_index)[slot] =
          of_row ? row_statistic(column.statistic, key, value) : 0.0F;
    }
  }
  // A new token ranks behind all that are there; after an event the survivors hold 0 .. length - 1.
  for (const Column& column : rank_)
    row<int32_t>(column, layer, sequence, kv_head, 0)[slot] = static_cast<int32_t>(slot);
  for (const Column& column : similar_)
    row<int32_t>(column, layer, sequence, kv_head, 0)[slot] = kNeverCompared;
}

void Columns::apply(uint32_t layer, uint32_t sequence, std::span<const Move> moves) const {
  const auto follow = [](auto values, const Move& move) {
    if (move.is_swap) {
      std::swap(values[move.to], values[move.from]);
    } else {
      values[move.to] = values[move.from];
    }
  };
  for (const Column& column : statistics_) {
    for (const Move& move : moves) {
      for (uint32_t row_index = 0; row_index < column.n_rows; ++row_index)
        follow(row<float>(column, layer, sequence, move.kv_head, row_index), move);
    }
  }
  for (const auto* columns : {&rank_, &similar_}) {
    for (const Column& column : *columns) {
      for (const Move& move : moves) follow(row<int32_t>(column, layer, sequence, move.kv_head, 0), move);
    }
  }
}

void Columns::set_order(uint32_t layer, uint32_t sequence, uint32_t kv_head,
                        std::span<const uint32_t> order) const {
  for (const Column& column : rank_) {
    const auto ranks = row<int32_t>(column, layer, sequence, kv_head, 0);
    for (size_t place = 0; place < order.size(); ++place) ranks[order[place]] = static_cast<int32_t>(place);
  }
}

HeadView Columns::view(uint32_t layer, uint32_t sequence, uint32_t kv_head) const {
  const uint32_t length = cache_->length(layer, sequence);
  HeadView head;
  head.pos = cache_->pos(layer, sequence, kv_head).first(length);
  head.n_approximate = cache_->n_approximate(layer, sequence);
  for (const Column& column : rank_)
    head.rank = row<int32_t>(column, layer, sequence, kv_head, 0).first(length);
  for (const Column& column : statistics_) {
    if (column.n_rows > 1) continue;
    head.columns[static_cast<size_t>(column.statistic)] =
        row<float>(column, layer, sequence, kv_head, 0).first(length);
  }
  return head;
}

}  // namespace kvase

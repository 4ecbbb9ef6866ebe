// SPDX-License-Identifier: MIT
// Append, and compaction that fills holes.
#include "kv/cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace kvase {
namespace {

std::byte* head_rows(const ggml_tensor* tensor, uint32_t sequence, uint32_t kv_head) {
  return static_cast<std::byte*>(tensor->data) + sequence * tensor->nb[3] + kv_head * tensor->nb[2];
}

void store_row(ggml_type type, std::byte* row, const float* values, uint32_t head_dim) {
  if (type == GGML_TYPE_F32) {
    std::memcpy(row, values, head_dim * sizeof(float));
  } else {
    ggml_get_type_traits_cpu(type)->from_float(values, row, head_dim);
  }
}

void load_row(ggml_type type, const std::byte* row, float* values, uint32_t head_dim) {
  if (type == GGML_TYPE_F32) {
    std::memcpy(values, row, head_dim * sizeof(float));
  } else {
    ggml_get_type_traits(type)->to_float(row, values, head_dim);
  }
}

bool ascends_within(std::span<const uint32_t> slots, uint32_t first, uint32_t length) {
  return std::ranges::adjacent_find(slots, std::greater_equal{}) == slots.end() &&
         (slots.empty() || (slots.front() >= first && slots.back() < length));
}

enum class Fate : uint8_t { approximate, exact, gone };

std::vector<Fate> fates_of(const HeadVerdict& verdict, uint32_t n_approximate, uint32_t length) {
  std::vector<Fate> fates(length, Fate::exact);
  std::fill_n(fates.begin(), n_approximate, Fate::approximate);
  for (const uint32_t slot : verdict.demote) fates[slot] = Fate::approximate;
  for (const uint32_t slot : verdict.drop) fates[slot] = Fate::gone;
  return fates;
}

// Brings approximate slots below `n_approximate`, highest first to lowest place; exact ones that are in the
// way go where those came from. Leaves `fates` as they lie then.
void gather_approximate(uint32_t kv_head, uint32_t n_approximate, std::vector<Fate>& fates,
                        std::vector<Move>& moves) {
  auto from = static_cast<uint32_t>(fates.size());
  for (uint32_t slot = 0; slot < n_approximate; ++slot) {
    if (fates[slot] == Fate::approximate) continue;
    do --from;
    while (fates[from] != Fate::approximate);
    moves.push_back({kv_head, from, slot, fates[slot] == Fate::exact});
    std::swap(fates[slot], fates[from]);
  }
}

// Fills every hole among the exact slots with an exact one from above: lowest hole first, highest survivor
// first.
void fill_holes(uint32_t kv_head, uint32_t n_approximate, uint32_t length, const std::vector<Fate>& fates,
                std::vector<Move>& moves) {
  auto from = static_cast<uint32_t>(fates.size());
  for (uint32_t slot = n_approximate; slot < length; ++slot) {
    if (fates[slot] != Fate::gone) continue;
    do --from;
    while (fates[from] != Fate::exact);
    moves.push_back({kv_head, from, slot});
  }
}

}  // namespace

Cache::Cache(Arena& arena, const CacheDims& dims)
    : dims_(dims), layers_(dims.n_layers), states_(size_t{dims.n_layers} * dims.n_sequences) {
  KVASE_CHECK(dims.capacity.size() == dims.n_layers, "{} capacities for {} layers", dims.capacity.size(),
              dims.n_layers);
  KVASE_CHECK(!dims.has_tier() || dims.type_k == dims.type_v, "an arena of {} keys and {} values",
              ggml_type_name(dims.type_k), ggml_type_name(dims.type_v));
  const size_t before = arena.bytes();
  for (uint32_t layer = 0; layer < dims.n_layers; ++layer) {
    const auto rows = [&](ggml_type type, uint32_t n, const char* name) {
      return arena.add(type, {dims.head_dim, n, dims.n_kv_heads, dims.n_sequences},
                       fmt::format("kv.{}.{}", name, layer));
    };
    if (dims.has_tier()) {
      layers_[layer].k = rows(dims.type_k, 2 * dims.capacity[layer], "rows");
    } else {
      layers_[layer].k = rows(dims.type_k, dims.capacity[layer], "k");
      layers_[layer].v = rows(dims.type_v, dims.capacity[layer], "v");
    }
  }
  kv_bytes_ = arena.bytes() - before;
  for (uint32_t layer = 0; layer < dims.n_layers; ++layer) {
    layers_[layer].pos = arena.add(GGML_TYPE_I32, {dims.max_slots(layer), dims.n_kv_heads, dims.n_sequences},
                                   fmt::format("kv.pos.{}", layer));
    if (!dims.has_tier()) continue;
    layers_[layer].means = arena.add(GGML_TYPE_F32, {dims.head_dim, dims.n_kv_heads, dims.n_sequences},
                                     fmt::format("kv.means.{}", layer));
    layers_[layer].n_means =
        arena.add(GGML_TYPE_I32, {dims.n_kv_heads, dims.n_sequences}, fmt::format("kv.n_means.{}", layer));
  }
  side_bytes_ = arena.bytes() - before - kv_bytes_;
}

std::span<int32_t> Cache::pos(uint32_t layer, uint32_t sequence, uint32_t kv_head) const {
  const size_t n = dims_.max_slots(layer);
  auto* first =
      static_cast<int32_t*>(layers_[layer].pos->data) + (size_t{sequence} * dims_.n_kv_heads + kv_head) * n;
  return {first, n};
}

std::byte* Cache::key_row(uint32_t layer, uint32_t sequence, uint32_t kv_head, uint32_t slot) const {
  const ggml_tensor* tensor = layers_[layer].k;
  return head_rows(tensor, sequence, kv_head) + slot * tensor->nb[1];
}

std::byte* Cache::value_row(uint32_t layer, uint32_t sequence, uint32_t kv_head, uint32_t slot) const {
  const Layer& tensors = layers_[layer];
  if (!dims_.has_tier()) return head_rows(tensors.v, sequence, kv_head) + slot * tensors.v->nb[1];
  const uint32_t first = dims_.capacity[layer] - n_approximate(layer, sequence) / 2;
  return head_rows(tensors.k, sequence, kv_head) + (size_t{first} + slot) * tensors.k->nb[1];
}

const std::byte* Cache::key_rows(uint32_t layer, uint32_t sequence, uint32_t kv_head) const {
  return key_row(layer, sequence, kv_head, 0);
}

const std::byte* Cache::value_rows(uint32_t layer, uint32_t sequence, uint32_t kv_head) const {
  return value_row(layer, sequence, kv_head, 0);
}

int32_t& Cache::n_dropped_values(uint32_t layer, uint32_t sequence, uint32_t kv_head) const {
  return static_cast<int32_t*>(layers_[layer].n_means->data)[sequence * dims_.n_kv_heads + kv_head];
}

std::span<const float> Cache::mean_dropped_value(uint32_t layer, uint32_t sequence, uint32_t kv_head) const {
  if (n_dropped_values(layer, sequence, kv_head) == 0) return {};
  const ggml_tensor* means = layers_[layer].means;
  return {static_cast<const float*>(means->data) +
              (size_t{sequence} * dims_.n_kv_heads + kv_head) * dims_.head_dim,
          dims_.head_dim};
}

// The running mean itself rather than a sum: it neither grows nor loses digits as values come in.
void Cache::add_dropped_value(uint32_t layer, uint32_t sequence, uint32_t kv_head, uint32_t slot) const {
  std::vector<float> value(dims_.head_dim);
  load_row(dims_.type_v, value_row(layer, sequence, kv_head, slot), value.data(), dims_.head_dim);
  const int32_t count = ++n_dropped_values(layer, sequence, kv_head);
  auto* mean = static_cast<float*>(layers_[layer].means->data) +
               (size_t{sequence} * dims_.n_kv_heads + kv_head) * dims_.head_dim;
  for (uint32_t channel = 0; channel < dims_.head_dim; ++channel)
    mean[channel] += (value[channel] - mean[channel]) / static_cast<float>(count);
}

void Cache::append_row(uint32_t layer, uint32_t sequence, uint32_t kv_head, uint32_t slot, int32_t position,
                       const float* key, const float* value) const {
  KVASE_CHECK(slot >= length(layer, sequence) && slot < n_slots(layer, sequence),
              "slot {}, length {}, room for {}", slot, length(layer, sequence), n_slots(layer, sequence));
  store_row(dims_.type_k, key_row(layer, sequence, kv_head, slot), key, dims_.head_dim);
  store_row(dims_.type_v, value_row(layer, sequence, kv_head, slot), value, dims_.head_dim);
  pos(layer, sequence, kv_head)[slot] = position;
}

void Cache::commit(uint32_t layer, uint32_t sequence, uint32_t n) {
  uint32_t& in_use = state(layer, sequence).length;
  KVASE_CHECK(n <= n_slots(layer, sequence) - in_use, "length {} + {}, room for {}", in_use, n,
              n_slots(layer, sequence));
  in_use += n;
}

void Cache::repeat_rows(uint32_t layer, uint32_t sequence, uint32_t n) {
  const uint32_t in_use = length(layer, sequence);
  KVASE_CHECK(in_use > 0 && n_approximate(layer, sequence) == 0, "no exact rows to repeat in layer {}",
              layer);
  for (uint32_t kv_head = 0; kv_head < dims_.n_kv_heads; ++kv_head) {
    const std::span<int32_t> positions = pos(layer, sequence, kv_head).first(in_use + n);
    for (uint32_t slot = in_use; slot < in_use + n; ++slot) {
      std::memcpy(key_row(layer, sequence, kv_head, slot), key_row(layer, sequence, kv_head, slot - in_use),
                  ggml_row_size(dims_.type_k, dims_.head_dim));
      std::memcpy(value_row(layer, sequence, kv_head, slot),
                  value_row(layer, sequence, kv_head, slot - in_use),
                  ggml_row_size(dims_.type_v, dims_.head_dim));
      positions[slot] = positions[slot - 1] + 1;
    }
  }
  commit(layer, sequence, n);
}

Cache::State Cache::checked_end(uint32_t layer, uint32_t sequence,
                                std::span<const HeadVerdict> verdicts) const {
  const State now = state(layer, sequence);
  KVASE_CHECK(verdicts.size() == dims_.n_kv_heads, "{} verdicts for {} KV heads", verdicts.size(),
              dims_.n_kv_heads);
  State end;
  for (uint32_t kv_head = 0; kv_head < dims_.n_kv_heads; ++kv_head) {
    const auto& [drop, demote, order] = verdicts[kv_head];
    KVASE_CHECK(ascends_within(drop, 0, now.length) && ascends_within(demote, now.n_approximate, now.length),
                "dropped slots of head {} must be ascending and in use, demoted ones exact", kv_head);
    KVASE_CHECK(
        std::ranges::none_of(demote, [&](uint32_t slot) { return std::ranges::binary_search(drop, slot); }),
        "head {} demotes a slot that it drops", kv_head);
    const auto n_gone =
        static_cast<uint32_t>(std::ranges::lower_bound(drop, now.n_approximate) - drop.begin());
    const State after = {now.length - static_cast<uint32_t>(drop.size()),
                         now.n_approximate - n_gone + static_cast<uint32_t>(demote.size())};
    if (kv_head == 0) end = after;
    KVASE_CHECK(after.length == end.length && after.n_approximate == end.n_approximate,
                "head {} keeps {} slots, {} of them approximate, head 0 {} and {}", kv_head, after.length,
                after.n_approximate, end.length, end.n_approximate);
  }
  const uint32_t most = dims_.max_slots(layer) - dims_.capacity[layer];
  KVASE_CHECK(end.n_approximate % 2 == 0 && end.n_approximate / 2 <= most &&
                  end.length - end.n_approximate / 2 <= dims_.capacity[layer],
              "{} slots, {} of them approximate, capacity {} and {}", end.length, end.n_approximate,
              dims_.capacity[layer], most);
  return end;
}

void Cache::move_row(uint32_t layer, uint32_t sequence, const Move& move, bool moves_value) const {
  std::byte* from = key_row(layer, sequence, move.kv_head, move.from);
  std::byte* to = key_row(layer, sequence, move.kv_head, move.to);
  const std::span<int32_t> positions = pos(layer, sequence, move.kv_head);
  const size_t key_bytes = ggml_row_size(dims_.type_k, dims_.head_dim);
  const size_t value_bytes = ggml_row_size(dims_.type_v, dims_.head_dim);
  if (move.is_swap) {
    // What goes down has no value any more.
    std::swap_ranges(from, from + key_bytes, to);
    std::swap(positions[move.from], positions[move.to]);
    std::memcpy(value_row(layer, sequence, move.kv_head, move.from),
                value_row(layer, sequence, move.kv_head, move.to), value_bytes);
    return;
  }
  std::memcpy(to, from, key_bytes);
  positions[move.to] = positions[move.from];
  if (moves_value)
    std::memcpy(value_row(layer, sequence, move.kv_head, move.to),
                value_row(layer, sequence, move.kv_head, move.from), value_bytes);
}

// Values begin elsewhere once the number of approximate slots has changed.
void Cache::shift_values(uint32_t layer, uint32_t sequence, const State& end) const {
  const size_t row_bytes = ggml_row_size(dims_.type_v, dims_.head_dim);
  const ptrdiff_t n_rows = (ptrdiff_t{n_approximate(layer, sequence)} - ptrdiff_t{end.n_approximate}) / 2;
  if (n_rows == 0) return;
  for (uint32_t kv_head = 0; kv_head < dims_.n_kv_heads; ++kv_head) {
    std::byte* first = value_row(layer, sequence, kv_head, end.n_approximate);
    std::memmove(first + n_rows * static_cast<ptrdiff_t>(row_bytes), first,
                 (end.length - end.n_approximate) * row_bytes);
  }
}

std::vector<Move> Cache::compact(uint32_t layer, uint32_t sequence, std::span<const HeadVerdict> verdicts) {
  const State now = state(layer, sequence);
  const State end = checked_end(layer, sequence, verdicts);
  std::vector<Move> moves;
  for (uint32_t kv_head = 0; kv_head < dims_.n_kv_heads; ++kv_head) {
    for (const uint32_t slot : verdicts[kv_head].demote) add_dropped_value(layer, sequence, kv_head, slot);
    std::vector<Fate> fates = fates_of(verdicts[kv_head], now.n_approximate, now.length);
    const size_t first = moves.size();
    gather_approximate(kv_head, end.n_approximate, fates, moves);
    const size_t n_demoted = moves.size();
    fill_holes(kv_head, end.n_approximate, end.length, fates, moves);
    for (size_t index = first; index < moves.size(); ++index)
      move_row(layer, sequence, moves[index], index >= n_demoted);
  }
  shift_values(layer, sequence, end);
  state(layer, sequence) = end;
  return moves;
}

void Cache::clear(uint32_t sequence) {
  for (uint32_t layer = 0; layer < dims_.n_layers; ++layer) {
    state(layer, sequence) = {};
    if (!dims_.has_tier()) continue;
    for (uint32_t kv_head = 0; kv_head < dims_.n_kv_heads; ++kv_head)
      n_dropped_values(layer, sequence, kv_head) = 0;
  }
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// The three custom nodes, and the handing out of work.
#include "attention/cached_attention.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/shape.h"

namespace kvase {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

ScratchDims scratch_dims(const Cache& cache, const Columns& columns, uint32_t group, uint32_t n_threads) {
  const CacheDims& dims = cache.dims();
  uint32_t max_slots = 0;
  for (uint32_t layer = 0; layer < dims.n_layers; ++layer)
    max_slots = std::max(max_slots, dims.max_slots(layer));
  return {.n_threads = n_threads,
          .n_sequences = dims.n_sequences,
          .n_kv_heads = dims.n_kv_heads,
          .head_dim = dims.head_dim,
          .tile_rows = round_up(size_t{tile_tokens(group)} * group, kRowPad),
          .max_slots = max_slots,
          .keeps_mass = columns.n_mass_rows() > 0};
}

}  // namespace

CachedAttention::CachedAttention(const Cache& cache, const Columns& columns, uint32_t n_heads, float scale,
                                 uint32_t n_threads, const ValueMaps* maps)
    : cache_(&cache),
      columns_(&columns),
      maps_(maps),
      n_heads_(n_heads),
      group_(n_heads / cache.dims().n_kv_heads),
      scale_(scale),
      scratch_(scratch_dims(cache, columns, group_, n_threads)),
      mass_watches_(size_t{cache.dims().n_layers} * cache.dims().n_sequences) {
  KVASE_CHECK(n_heads % cache.dims().n_kv_heads == 0, "{} query heads on {} KV heads", n_heads,
              cache.dims().n_kv_heads);
  for (uint32_t layer = 0; layer < cache.dims().n_layers; ++layer) layer_refs_.push_back({this, layer});
  runs_.reserve(cache.dims().n_sequences);
}

ggml_tensor* CachedAttention::build(ggml_context* context, uint32_t layer, ggml_tensor* q, ggml_tensor* k,
                                    ggml_tensor* v) {
  const CacheDims& dims = cache_->dims();
  const int64_t n_tokens = q->ne[2];
  const int64_t n_channels = int64_t{dims.head_dim} * n_heads_;
  check_shape(q, GGML_TYPE_F32, {dims.head_dim, n_heads_, n_tokens}, "q");
  check_shape(k, GGML_TYPE_F32, {dims.head_dim, dims.n_kv_heads, n_tokens}, "k");
  check_shape(v, GGML_TYPE_F32, {dims.head_dim, dims.n_kv_heads, n_tokens}, "v");
  LayerRef* ref = &layer_refs_[layer];
  ggml_tensor* append_sources[] = {k, v};
  ggml_tensor* appended =
      ggml_custom_4d(context, GGML_TYPE_F32, 1, 1, 1, 1, append_sources, 2, append_op, GGML_N_TASKS_MAX, ref);
  ggml_set_name(appended, fmt::format("kv_append.{}", layer).c_str());
  // `appended` is a source for the sake of order alone.
  ggml_tensor* attend_sources[] = {q, appended};
  ggml_tensor* attended = ggml_custom_4d(context, GGML_TYPE_F32, n_channels, n_tokens, 1, 1, attend_sources,
                                         2, attend_op, GGML_N_TASKS_MAX, ref);
  ggml_set_name(attended, fmt::format("kv_attend.{}", layer).c_str());
  // Prompts are finished in `attended` already, so the result is written in its place.
  ggml_tensor* out = ggml_custom_inplace(context, attended, &q, 1, join_op, GGML_N_TASKS_MAX, ref);
  ggml_set_name(out, fmt::format("kv_join.{}", layer).c_str());
  return out;
}

void CachedAttention::set_step(std::span<const StepToken> tokens) {
  tokens_.assign(tokens.begin(), tokens.end());
  runs_.clear();
  for (uint32_t token = 0; token < tokens_.size(); ++token) {
    if (tokens_[token].offset == 0) runs_.push_back({token, 0});
    ++runs_.back().n_tokens;
  }
}

void CachedAttention::watch_mass(uint32_t layer, uint32_t sequence, uint32_t event_length, uint32_t window) {
  MassWatch& watch = mass_watches_[layer * cache_->dims().n_sequences + sequence];
  watch = {};
  if (event_length == kNoMass || columns_->n_mass_rows() == 0) return;
  switch (columns_->needs().mass.queries) {
    case MassSpec::Queries::window:
      watch = {event_length - window, event_length - window, 1.0F / static_cast<float>(window)};
      break;
    case MassSpec::Queries::last:
      watch = {event_length - window, event_length - 1, 1.0F};
      break;
    case MassSpec::Queries::all:
      watch = {cache_->dims().max_slots(layer), 0, 1.0F};
      break;
  }
}

void CachedAttention::append_op(ggml_tensor* dst, int ith, int nth, void* userdata) {
  const LayerRef& ref = *static_cast<LayerRef*>(userdata);
  ref.owner->append(ref.layer, static_cast<const float*>(dst->src[0]->data),
                    static_cast<const float*>(dst->src[1]->data), static_cast<uint32_t>(ith),
                    static_cast<uint32_t>(nth));
}

void CachedAttention::attend_op(ggml_tensor* dst, int ith, int nth, void* userdata) {
  const LayerRef& ref = *static_cast<LayerRef*>(userdata);
  ref.owner->attend(ref.layer, static_cast<const float*>(dst->src[0]->data), static_cast<float*>(dst->data),
                    static_cast<uint32_t>(ith), static_cast<uint32_t>(nth));
}

void CachedAttention::join_op(ggml_tensor* dst, int ith, int nth, void* userdata) {
  const LayerRef& ref = *static_cast<LayerRef*>(userdata);
  ref.owner->join(ref.layer, static_cast<const float*>(dst->src[1]->data), static_cast<float*>(dst->data),
                  static_cast<uint32_t>(ith), static_cast<uint32_t>(nth));
}

// What losing this value would cost, while it is exact. A layer that keeps all values is not asked.
//   unrotated  scratch [head_dim]
void CachedAttention::append_residual(uint32_t layer, const StepToken& token, uint32_t kv_head, uint32_t slot,
                                      const float* key, const float* value, float* unrotated) const {
  const LayerMap& map = maps_->layers[layer];
  if (map.mode == TierMode::off) return;
  if (map.mode == TierMode::linear) maps_->rope_inverse.unrotate(key, token.pos, unrotated);
  columns_->residual(layer, token.sequence, kv_head)[slot] = residual(map, kv_head, unrotated, value);
}

void CachedAttention::append(uint32_t layer, const float* k, const float* v, uint32_t ith, uint32_t nth) {
  const bool keeps_residual = maps_ != nullptr && columns_->needs_statistic(Statistic::residual);
  const CacheDims& dims = cache_->dims();
  const uint32_t n_rows = static_cast<uint32_t>(tokens_.size()) * dims.n_kv_heads;
  for (uint32_t row = ith; row < n_rows; row += nth) {
    const StepToken& token = tokens_[row / dims.n_kv_heads];
    const uint32_t kv_head = row % dims.n_kv_heads;
    const float* key = k + size_t{row} * dims.head_dim;
    const float* value = v + size_t{row} * dims.head_dim;
    const uint32_t slot = cache_->length(layer, token.sequence) + token.offset;
    cache_->append_row(layer, token.sequence, kv_head, slot, token.pos, key, value);
    columns_->append(layer, token.sequence, kv_head, slot, {key, dims.head_dim}, {value, dims.head_dim});
    if (keeps_residual)
      append_residual(layer, token, kv_head, slot, key, value, scratch_.thread(ith).tile.keys);
  }
}

// Of all pieces of one KV head of every run; the other heads cost as much.
uint64_t CachedAttention::step_cost(uint32_t layer) const {
  uint64_t cost = 0;
  for (const Run& run : runs_) {
    const HeadWork work = head_work(layer, run, 0, nullptr, nullptr);
    for (uint32_t piece = 0; piece < n_pieces(work); ++piece) cost += piece_cost(work, piece);
  }
  return cost;
}

// All pieces lie in a row, as long as their costs; each thread takes those whose middle lies in its share, so
// neighbouring ones, since a piece fetches memory for the next.
void CachedAttention::attend(uint32_t layer, const float* q, float* out, uint32_t ith, uint32_t nth) {
  if (ith == 0) start_ = Clock::now();
  const ThreadSpace space = scratch_.thread(ith);
  const uint64_t twice_all = 2 * step_cost(layer) * cache_->dims().n_kv_heads;
  uint64_t twice_before = 0;
  for (const Run& run : runs_) {
    for (uint32_t kv_head = 0; kv_head < cache_->dims().n_kv_heads; ++kv_head) {
      const HeadWork work = head_work(layer, run, kv_head, q, out);
      for (uint32_t piece = 0; piece < n_pieces(work); ++piece) {
        const uint64_t cost = piece_cost(work, piece);
        const uint64_t middle = twice_before + cost;
        if (middle * nth >= twice_all * ith && middle * nth < twice_all * (ith + 1))
          attend_piece(work, piece, space);
        twice_before += 2 * cost;
      }
    }
  }
}

void CachedAttention::join(uint32_t layer, const float* q, float* out, uint32_t ith, uint32_t nth) {
  const ThreadSpace space = scratch_.thread(ith);
  const uint32_t n_kv_heads = cache_->dims().n_kv_heads;
  const auto n = static_cast<uint32_t>(runs_.size()) * n_kv_heads;
  const uint32_t first = n * ith / nth;
  const uint32_t last = n * (ith + 1) / nth;
  const auto work = [&](uint32_t index) {
    return head_work(layer, runs_[index / n_kv_heads], index % n_kv_heads, q, out);
  };
  for (uint32_t index = first; index < last; ++index) join_output(work(index), space);
  const auto outputs_done = Clock::now();
  for (uint32_t index = first; index < last; ++index) join_mass(work(index), space);
  if (ith != 0) return;
  const auto end = Clock::now();
  mass_ms_ += Milliseconds(end - outputs_done).count();
  attention_ms_ += Milliseconds(end - start_).count();
}

ValueStand CachedAttention::value_stand(uint32_t layer, uint32_t sequence, uint32_t kv_head) const {
  if (!maps_) return {.mean = cache_->mean_dropped_value(layer, sequence, kv_head).data()};
  const LayerMap& map = maps_->layers[layer];
  return {
      .map = &map, .rope = map.mode == TierMode::linear ? &maps_->rope_table : nullptr, .kv_head = kv_head};
}

HeadWork CachedAttention::head_work(uint32_t layer, const Run& run, uint32_t kv_head, const float* q,
                                    float* out) const {
  const CacheDims& dims = cache_->dims();
  const StepToken* tokens = tokens_.data() + run.first_token;
  const uint32_t sequence = tokens->sequence;
  const size_t token_stride = size_t{n_heads_} * dims.head_dim;
  const size_t first = run.first_token * token_stride + size_t{kv_head} * group_ * dims.head_dim;
  HeadWork work;
  work.head = {.type_k = dims.type_k,
               .type_v = dims.type_v,
               .keys = cache_->key_rows(layer, sequence, kv_head),
               .values = cache_->value_rows(layer, sequence, kv_head),
               .pos = cache_->pos(layer, sequence, kv_head).data(),
               .head_dim = dims.head_dim,
               .n_slots = cache_->length(layer, sequence) + run.n_tokens};
  work.step = {.q = q + first,
               .token_stride = token_stride,
               .tokens = tokens,
               .n_tokens = run.n_tokens,
               .group = group_,
               .scale = scale_};
  work.out = out + first;
  work.length = cache_->length(layer, sequence);
  work.slots.n_slots = work.length + run.n_tokens;
  work.slots.n_approximate = cache_->n_approximate(layer, sequence);
  if (work.slots.n_approximate > 0) work.stand = value_stand(layer, sequence, kv_head);
  work.space = scratch_.head(sequence, kv_head);
  const MassWatch& watch = mass_watches_[layer * dims.n_sequences + sequence];
  if (columns_->n_mass_rows() > 0 && work.slots.n_slots > watch.first_query) {
    work.slots.n_candidates = std::min(watch.n_candidates, work.slots.n_slots);
    work.mass_spec = columns_->needs().mass;
    work.first_mass_query = watch.first_query;
    work.mass_weight = watch.weight;
    const std::span<float> mass = columns_->mass(layer, sequence, kv_head, 0);
    work.mass = {mass.data(), mass.size(), columns_->n_mass_rows()};
  }
  return work;
}

}  // namespace kvase

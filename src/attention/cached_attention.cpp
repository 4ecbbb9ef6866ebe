// SPDX-License-Identifier: MIT
// The two custom nodes, and who computes what.
#include "attention/cached_attention.h"

#include <algorithm>
#include <limits>

#include "attention/kernels.h"
#include "base/check.h"
#include "tensor/shape.h"

namespace kvase {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

}  // namespace

CachedAttention::CachedAttention(const Cache& cache, const Columns& columns, uint32_t n_heads, float scale,
                                 uint32_t n_threads)
    : cache_(&cache),
      columns_(&columns),
      n_heads_(n_heads),
      group_(n_heads / cache.dims().n_kv_heads),
      scale_(scale),
      max_rows_(*std::ranges::max_element(cache.dims().capacity)),
      mass_windows_(size_t{cache.dims().n_layers} * cache.dims().n_sequences) {
  KVASE_CHECK(n_heads % cache.dims().n_kv_heads == 0, "{} query heads on {} KV heads", n_heads,
              cache.dims().n_kv_heads);
  for (uint32_t layer = 0; layer < cache.dims().n_layers; ++layer) layer_refs_.push_back({this, layer});
  scratch_.assign(n_threads * scratch_floats(), 0.0F);
}

ggml_tensor* CachedAttention::build(ggml_context* context, uint32_t layer, ggml_tensor* q, ggml_tensor* k,
                                    ggml_tensor* v) {
  const CacheDims& dims = cache_->dims();
  const int64_t n_tokens = q->ne[2];
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
  ggml_tensor* out = ggml_custom_4d(context, GGML_TYPE_F32, int64_t{dims.head_dim} * n_heads_, n_tokens, 1, 1,
                                    attend_sources, 2, attend_op, GGML_N_TASKS_MAX, ref);
  ggml_set_name(out, fmt::format("kv_attend.{}", layer).c_str());
  return out;
}

void CachedAttention::set_mass_window(uint32_t layer, uint32_t sequence, uint32_t n_candidates,
                                      uint32_t window) {
  mass_windows_[layer * cache_->dims().n_sequences + sequence] = {n_candidates, window};
}

const CachedAttention::MassWindow& CachedAttention::mass_window(uint32_t layer, uint32_t sequence) const {
  return mass_windows_[layer * cache_->dims().n_sequences + sequence];
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

void CachedAttention::append(uint32_t layer, const float* k, const float* v, uint32_t ith,
                             uint32_t nth) const {
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
  }
}

void CachedAttention::attend(uint32_t layer, const float* q, float* out, uint32_t ith, uint32_t nth) {
  const CacheDims& dims = cache_->dims();
  float* logits = scratch_.data() + ith * scratch_floats();
  for (uint32_t token_index = 0; token_index < tokens_.size(); ++token_index) {
    const StepToken& token = tokens_[token_index];
    const uint32_t slot = cache_->length(layer, token.sequence) + token.offset;
    const bool in_window = slot >= mass_window(layer, token.sequence).n_candidates;
    const uint32_t first_task = (in_window ? token.sequence : token_index) * dims.n_kv_heads;
    for (uint32_t kv_head = 0; kv_head < dims.n_kv_heads; ++kv_head) {
      if ((first_task + kv_head) % nth != ith) continue;
      const size_t first_head = size_t{token_index} * n_heads_ + size_t{kv_head} * group_;
      attend_one(layer, token, kv_head, q + first_head * dims.head_dim, logits,
                 out + first_head * dims.head_dim);
    }
  }
}

// All query heads of one KV head, for one token. Rows behind the token's own slot are younger than it.
//   q, out f32 [head_dim, group]; logits: scratch_floats()
void CachedAttention::attend_one(uint32_t layer, const StepToken& token, uint32_t kv_head, const float* q,
                                 float* logits, float* out) const {
  const CacheDims& dims = cache_->dims();
  const uint32_t n_rows = cache_->length(layer, token.sequence) + token.offset + 1;
  dot_rows(dims.type_k, cache_->key_rows(layer, token.sequence, kv_head), n_rows, dims.head_dim, q, group_,
           scale_, logits, max_rows_);
  const std::span<const int32_t> pos = cache_->pos(layer, token.sequence, kv_head);
  for (uint32_t slot = 0; slot < n_rows; ++slot) {
    if (pos[slot] <= token.pos) continue;
    for (uint32_t head = 0; head < group_; ++head) logits[size_t{head} * max_rows_ + slot] = kMasked;
  }
  if (n_rows > mass_window(layer, token.sequence).n_candidates) {
    take_mass(layer, token, kv_head, logits, n_rows, logits + size_t{group_} * max_rows_);
  }
  float* sums = logits + size_t{group_ + 1} * max_rows_;
  for (uint32_t head = 0; head < group_; ++head) {
    float* row = logits + size_t{head} * max_rows_;
    sums[head] = exp_in_place(row, n_rows, max_value(row, n_rows));
  }
  weighted_sum_rows(dims.type_v, cache_->value_rows(layer, token.sequence, kv_head), n_rows, dims.head_dim,
                    logits, max_rows_, group_, out);
  for (uint32_t head = 0; head < group_; ++head) {
    for (uint32_t channel = 0; channel < dims.head_dim; ++channel)
      out[size_t{head} * dims.head_dim + channel] /= sums[head];
  }
}

// Adds this query's probabilities over the candidates, slots 0 .. n_candidates - 1, to the mass rows. The
// candidates' own maximum is the shift: with the global one, a recent token that dominates would give 0/0.
//   logits [max_rows, group]; joined scratch [max_rows]
void CachedAttention::take_mass(uint32_t layer, const StepToken& token, uint32_t kv_head, const float* logits,
                                uint32_t n_rows, float* joined) const {
  const MassWindow& window = mass_window(layer, token.sequence);
  const MassSpec& spec = columns_->needs().mass;
  const uint32_t n_domain = spec.domain == MassSpec::Domain::candidates ? window.n_candidates : n_rows;
  const auto add = [&](const float* row, float weight, uint32_t mass_row) {
    const float shift = max_value(row, n_domain);
    const float sum = sum_exp(row, n_domain, shift);
    add_exp(row, window.n_candidates, shift, weight / (sum * static_cast<float>(window.window)),
            columns_->mass(layer, token.sequence, kv_head, mass_row).data());
  };
  switch (spec.group) {
    case MassSpec::Group::mean:
      for (uint32_t head = 0; head < group_; ++head)
        add(logits + size_t{head} * max_rows_, 1.0F / static_cast<float>(group_), 0);
      return;
    case MassSpec::Group::per_head:
      for (uint32_t head = 0; head < group_; ++head) add(logits + size_t{head} * max_rows_, 1.0F, head);
      return;
    case MassSpec::Group::max_logit:
      std::copy_n(logits, n_rows, joined);
      for (uint32_t head = 1; head < group_; ++head) {
        const float* row = logits + size_t{head} * max_rows_;
        for (uint32_t slot = 0; slot < n_rows; ++slot) joined[slot] = std::max(joined[slot], row[slot]);
      }
      add(joined, 1.0F, 0);
      return;
  }
}

}  // namespace kvase

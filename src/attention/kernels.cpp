// SPDX-License-Identifier: MIT
// Attention's vector loops, compiled once per instruction set.
#include "attention/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVec = hn::Vec<Floats>;

// One vector of row elements as f32.
FloatVec load(Floats d, const float* p) { return hn::LoadU(d, p); }
FloatVec load(Floats d, const hwy::float16_t* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, Floats>(), p));
}
FloatVec load(Floats d, const hwy::bfloat16_t* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::bfloat16_t, Floats>(), p));
}

// One element past the last whole vector.
using OneFloat = hn::CappedTag<float, 1>;
float one(const float* p) { return *p; }
float one(const hwy::float16_t* p) {
  return hn::GetLane(hn::PromoteTo(OneFloat(), hn::LoadU(hn::Rebind<hwy::float16_t, OneFloat>(), p)));
}
float one(const hwy::bfloat16_t* p) {
  return hn::GetLane(hn::PromoteTo(OneFloat(), hn::LoadU(hn::Rebind<hwy::bfloat16_t, OneFloat>(), p)));
}

template <typename T>
float dot(const T* HWY_RESTRICT row, const float* HWY_RESTRICT q, size_t head_dim) {
  const Floats d;
  const size_t n_lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  size_t channel = 0;
  for (; channel + n_lanes <= head_dim; channel += n_lanes) {
    sum = hn::MulAdd(load(d, row + channel), hn::LoadU(d, q + channel), sum);
  }
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; channel < head_dim; ++channel) total += one(row + channel) * q[channel];
  return total;
}

template <typename T>
void dot_rows_of(const T* HWY_RESTRICT rows, size_t n_rows, size_t head_dim, const float* HWY_RESTRICT q,
                 size_t n_heads, float scale, float* HWY_RESTRICT logits, size_t stride) {
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t head = 0; head < n_heads; ++head) {
      logits[head * stride + row] = scale * dot(rows + row * head_dim, q + head * head_dim, head_dim);
    }
  }
}

template <typename T>
void weighted_sum_rows_of(const T* HWY_RESTRICT rows, size_t n_rows, size_t head_dim,
                          const float* HWY_RESTRICT weights, size_t stride, size_t n_heads,
                          float* HWY_RESTRICT out) {
  const Floats d;
  const size_t n_lanes = hn::Lanes(d);
  for (size_t index = 0; index < n_heads * head_dim; ++index) out[index] = 0;
  for (size_t row = 0; row < n_rows; ++row) {
    const T* values = rows + row * head_dim;
    for (size_t head = 0; head < n_heads; ++head) {
      const float weight = weights[head * stride + row];
      if (weight == 0) continue;  // evicted, masked or too small to count
      float* sums = out + head * head_dim;
      const auto weight_lanes = hn::Set(d, weight);
      size_t channel = 0;
      for (; channel + n_lanes <= head_dim; channel += n_lanes) {
        hn::StoreU(hn::MulAdd(weight_lanes, load(d, values + channel), hn::LoadU(d, sums + channel)), d,
                   sums + channel);
      }
      for (; channel < head_dim; ++channel) sums[channel] += weight * one(values + channel);
    }
  }
}

void dot_rows_f32(const float* rows, size_t n_rows, size_t head_dim, const float* q, size_t n_heads,
                  float scale, float* logits, size_t stride) {
  dot_rows_of(rows, n_rows, head_dim, q, n_heads, scale, logits, stride);
}
void dot_rows_f16(const hwy::float16_t* rows, size_t n_rows, size_t head_dim, const float* q, size_t n_heads,
                  float scale, float* logits, size_t stride) {
  dot_rows_of(rows, n_rows, head_dim, q, n_heads, scale, logits, stride);
}
void dot_rows_bf16(const hwy::bfloat16_t* rows, size_t n_rows, size_t head_dim, const float* q,
                   size_t n_heads, float scale, float* logits, size_t stride) {
  dot_rows_of(rows, n_rows, head_dim, q, n_heads, scale, logits, stride);
}

void weighted_sum_rows_f32(const float* rows, size_t n_rows, size_t head_dim, const float* weights,
                           size_t stride, size_t n_heads, float* out) {
  weighted_sum_rows_of(rows, n_rows, head_dim, weights, stride, n_heads, out);
}
void weighted_sum_rows_f16(const hwy::float16_t* rows, size_t n_rows, size_t head_dim, const float* weights,
                           size_t stride, size_t n_heads, float* out) {
  weighted_sum_rows_of(rows, n_rows, head_dim, weights, stride, n_heads, out);
}
void weighted_sum_rows_bf16(const hwy::bfloat16_t* rows, size_t n_rows, size_t head_dim, const float* weights,
                            size_t stride, size_t n_heads, float* out) {
  weighted_sum_rows_of(rows, n_rows, head_dim, weights, stride, n_heads, out);
}

float max_value_of(const float* x, size_t n) {
  const Floats d;
  const size_t n_lanes = hn::Lanes(d);
  float largest = x[0];
  size_t index = 0;
  if (n >= n_lanes) {
    auto lanes = hn::LoadU(d, x);
    for (index = n_lanes; index + n_lanes <= n; index += n_lanes)
      lanes = hn::Max(lanes, hn::LoadU(d, x + index));
    largest = hn::GetLane(hn::MaxOfLanes(d, lanes));
  }
  for (; index < n; ++index) largest = HWY_MAX(largest, x[index]);
  return largest;
}

// Calls body(vector of exp(x - shift), first index, count) over all of x, the last vector padded with
// exp(-inf) = 0.
template <typename Body>
void for_each_exp(const float* x, size_t n, float shift, const Body& body) {
  const Floats d;
  const size_t n_lanes = hn::Lanes(d);
  const auto shift_lanes = hn::Set(d, shift);
  size_t index = 0;
  for (; index + n_lanes <= n; index += n_lanes) {
    body(hn::Exp(d, hn::Sub(hn::LoadU(d, x + index), shift_lanes)), index, n_lanes);
  }
  if (index == n) return;
  HWY_ALIGN float rest[HWY_LANES(float)];
  for (size_t lane = 0; lane < n_lanes; ++lane)
    rest[lane] = index + lane < n ? x[index + lane] - shift : -1e30F;
  body(hn::Exp(d, hn::Load(d, rest)), index, n - index);
}

float sum_exp_of(const float* x, size_t n, float shift) {
  const Floats d;
  auto sum = hn::Zero(d);
  for_each_exp(x, n, shift, [&](FloatVec e, size_t, size_t) HWY_ATTR { sum = hn::Add(sum, e); });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

float exp_in_place_of(float* x, size_t n, float shift) {
  const Floats d;
  auto sum = hn::Zero(d);
  for_each_exp(x, n, shift, [&](FloatVec e, size_t index, size_t count) HWY_ATTR {
    sum = hn::Add(sum, e);
    if (count == hn::Lanes(d)) {
      hn::StoreU(e, d, x + index);
    } else {
      HWY_ALIGN float rest[HWY_LANES(float)];
      hn::Store(e, d, rest);
      for (size_t lane = 0; lane < count; ++lane) x[index + lane] = rest[lane];
    }
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

void add_exp_of(const float* x, size_t n, float shift, float scale, float* out) {
  const Floats d;
  const auto scale_lanes = hn::Set(d, scale);
  for_each_exp(x, n, shift, [&](FloatVec e, size_t index, size_t count) HWY_ATTR {
    if (count == hn::Lanes(d)) {
      hn::StoreU(hn::MulAdd(e, scale_lanes, hn::LoadU(d, out + index)), d, out + index);
    } else {
      HWY_ALIGN float rest[HWY_LANES(float)];
      hn::Store(hn::Mul(e, scale_lanes), d, rest);
      for (size_t lane = 0; lane < count; ++lane) out[index + lane] += rest[lane];
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"

namespace kvase {
namespace {

HWY_EXPORT(dot_rows_f32);
HWY_EXPORT(dot_rows_f16);
HWY_EXPORT(dot_rows_bf16);
HWY_EXPORT(weighted_sum_rows_f32);
HWY_EXPORT(weighted_sum_rows_f16);
HWY_EXPORT(weighted_sum_rows_bf16);
HWY_EXPORT(max_value_of);
HWY_EXPORT(sum_exp_of);
HWY_EXPORT(exp_in_place_of);
HWY_EXPORT(add_exp_of);

}  // namespace

void dot_rows(ggml_type type, const std::byte* rows, size_t n_rows, size_t head_dim, const float* q,
              size_t n_heads, float scale, float* logits, size_t stride) {
  switch (type) {
    case GGML_TYPE_F32:
      HWY_DYNAMIC_DISPATCH(dot_rows_f32)
      (reinterpret_cast<const float*>(rows), n_rows, head_dim, q, n_heads, scale, logits, stride);
      return;
    case GGML_TYPE_F16:
      HWY_DYNAMIC_DISPATCH(dot_rows_f16)
      (reinterpret_cast<const hwy::float16_t*>(rows), n_rows, head_dim, q, n_heads, scale, logits, stride);
      return;
    case GGML_TYPE_BF16:
      HWY_DYNAMIC_DISPATCH(dot_rows_bf16)
      (reinterpret_cast<const hwy::bfloat16_t*>(rows), n_rows, head_dim, q, n_heads, scale, logits, stride);
      return;
    default:
      KVASE_CHECK(false, "no attention over {} rows", ggml_type_name(type));
  }
}

void weighted_sum_rows(ggml_type type, const std::byte* rows, size_t n_rows, size_t head_dim,
                       const float* weights, size_t stride, size_t n_heads, float* out) {
  switch (type) {
    case GGML_TYPE_F32:
      HWY_DYNAMIC_DISPATCH(weighted_sum_rows_f32)
      (reinterpret_cast<const float*>(rows), n_rows, head_dim, weights, stride, n_heads, out);
      return;
    case GGML_TYPE_F16:
      HWY_DYNAMIC_DISPATCH(weighted_sum_rows_f16)
      (reinterpret_cast<const hwy::float16_t*>(rows), n_rows, head_dim, weights, stride, n_heads, out);
      return;
    case GGML_TYPE_BF16:
      HWY_DYNAMIC_DISPATCH(weighted_sum_rows_bf16)
      (reinterpret_cast<const hwy::bfloat16_t*>(rows), n_rows, head_dim, weights, stride, n_heads, out);
      return;
    default:
      KVASE_CHECK(false, "no attention over {} rows", ggml_type_name(type));
  }
}

float max_value(const float* x, size_t n) { return HWY_DYNAMIC_DISPATCH(max_value_of)(x, n); }
float exp_in_place(float* x, size_t n, float shift) {
  return HWY_DYNAMIC_DISPATCH(exp_in_place_of)(x, n, shift);
}
float sum_exp(const float* x, size_t n, float shift) { return HWY_DYNAMIC_DISPATCH(sum_exp_of)(x, n, shift); }
void add_exp(const float* x, size_t n, float shift, float scale, float* out) {
  HWY_DYNAMIC_DISPATCH(add_exp_of)(x, n, shift, scale, out);
}

}  // namespace kvase
#endif

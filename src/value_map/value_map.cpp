// SPDX-License-Identifier: MIT
// Matrix times vector, four rows at a time, f32.
#include "value_map/value_map.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "value_map/value_map.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// out[row] += weight_row . x
//   weight  [n, n_rows], x [n], out [n_rows]
void add_product(const float* HWY_RESTRICT weight, const float* HWY_RESTRICT x, size_t n, size_t n_rows,
                 float* HWY_RESTRICT out) {
  const hn::CappedTag<float, 16> d;
  const size_t n_whole = n - n % hn::Lanes(d);
  size_t row = 0;
  for (; row + 4 <= n_rows; row += 4) {
    const float* w = weight + row * n;
    auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
    for (size_t channel = 0; channel < n_whole; channel += hn::Lanes(d)) {
      const auto factor = hn::LoadU(d, x + channel);
      sum0 = hn::MulAdd(hn::LoadU(d, w + channel), factor, sum0);
      sum1 = hn::MulAdd(hn::LoadU(d, w + n + channel), factor, sum1);
      sum2 = hn::MulAdd(hn::LoadU(d, w + 2 * n + channel), factor, sum2);
      sum3 = hn::MulAdd(hn::LoadU(d, w + 3 * n + channel), factor, sum3);
    }
    float sums[4] = {hn::GetLane(hn::SumOfLanes(d, sum0)), hn::GetLane(hn::SumOfLanes(d, sum1)),
                     hn::GetLane(hn::SumOfLanes(d, sum2)), hn::GetLane(hn::SumOfLanes(d, sum3))};
    for (size_t offset = 0; offset < 4; ++offset) {
      for (size_t channel = n_whole; channel < n; ++channel)
        sums[offset] += w[offset * n + channel] * x[channel];
      out[row + offset] += sums[offset];
    }
  }
  for (; row < n_rows; ++row) {
    for (size_t channel = 0; channel < n; ++channel) out[row] += weight[row * n + channel] * x[channel];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvase {
namespace {

HWY_EXPORT(add_product);

const float* weight_of(const LayerMap& map, uint32_t kv_head) {
  return map.weight.data() + size_t{kv_head} * map.head_dim * map.head_dim;
}
const float* bias_of(const LayerMap& map, uint32_t kv_head) {
  return map.bias.data() + size_t{kv_head} * map.head_dim;
}

}  // namespace

size_t ValueMaps::bytes() const {
  size_t n_values = 0;
  for (const LayerMap& layer : layers)
    n_values += layer.weight.size() + layer.bias.size() + layer.value_mean.size();
  return n_values * sizeof(float) + rope_table.bytes();
}

void apply(const LayerMap& map, uint32_t kv_head, const float* sum_keys, float sum_weight, float* out) {
  const float* bias = bias_of(map, kv_head);
  for (uint32_t channel = 0; channel < map.head_dim; ++channel) out[channel] += sum_weight * bias[channel];
  if (!map.weight.empty())
    HWY_DYNAMIC_DISPATCH(add_product)(weight_of(map, kv_head), sum_keys, map.head_dim, map.head_dim, out);
}

float residual(const LayerMap& map, uint32_t kv_head, const float* key_before_rope, const float* value) {
  constexpr uint32_t kBlock = 64;  // channels that are rebuilt at once, on the stack
  const float* bias = bias_of(map, kv_head);
  float sum = 0;
  for (uint32_t first = 0; first < map.head_dim; first += kBlock) {
    const uint32_t n = std::min(kBlock, map.head_dim - first);
    float rebuilt[kBlock];
    std::copy_n(bias + first, n, rebuilt);
    if (!map.weight.empty()) {
      HWY_DYNAMIC_DISPATCH(add_product)
      (weight_of(map, kv_head) + size_t{first} * map.head_dim, key_before_rope, map.head_dim, n, rebuilt);
    }
    for (uint32_t channel = 0; channel < n; ++channel) {
      const float error = value[first + channel] - rebuilt[channel];
      sum += error * error;
    }
  }
  return sum;
}

}  // namespace kvase
#endif  // HWY_ONCE

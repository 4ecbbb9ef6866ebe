// SPDX-License-Identifier: MIT
// Residuals, rebuilt sums and un-rotated keys against the reference, for every RoPE variant.
#include "value_map/value_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "golden/golden_map.h"

namespace kvase {
namespace {

struct MapCase {
  uint32_t head_dim = 0, n = 0, n_kv_heads = 0, group = 0;
  RopeSetting rope;
  LayerMap map;
  std::vector<float> k, k_pre, v, q;
  std::vector<int32_t> pos, exact, approx;
  std::vector<double> residual, out;
};

MapCase read_case(const golden::File& file, const std::string& name) {
  MapCase result;
  result.head_dim = file.size(name + ".k", 0);
  result.n = file.size(name + ".k", 1);
  result.n_kv_heads = file.size(name + ".k", 2);
  result.group = static_cast<uint32_t>(file.tensor<int32_t>(name + ".rope")[6]);
  result.rope = golden::rope_of(file, name);
  result.map = golden::map_of(file, name);
  result.k = file.tensor<float>(name + ".k");
  result.k_pre = file.tensor<float>(name + ".k_pre");
  result.v = file.tensor<float>(name + ".v");
  result.q = file.tensor<float>(name + ".q");
  result.pos = file.tensor<int32_t>(name + ".pos");
  result.exact = file.tensor<int32_t>(name + ".exact");
  result.approx = file.tensor<int32_t>(name + ".approx");
  result.residual = file.tensor<double>(name + ".residual");
  result.out = file.tensor<double>(name + ".out");
  return result;
}

class GoldenValueMap : public testing::TestWithParam<std::string> {
 protected:
  static const golden::File& file() {
    static const golden::File file(golden::folder() + "/value_map.gguf");
    return file;
  }
  MapCase case_ = read_case(file(), GetParam());
};

// The reference has its angles in f64; in f32 they are good to 3e-4 at position 5,000.
TEST_P(GoldenValueMap, KeysBeforeRope) {
  const RopeInverse inverse(case_.rope, case_.head_dim);
  std::vector<float> found(case_.head_dim);
  for (size_t row = 0; row < size_t{case_.n} * case_.n_kv_heads; ++row) {
    inverse.unrotate(case_.k.data() + row * case_.head_dim, case_.pos[row % case_.n], found.data());
    for (uint32_t channel = 0; channel < case_.head_dim; ++channel)
      ASSERT_NEAR(found[channel], case_.k_pre[row * case_.head_dim + channel], 1e-3) << row << " " << channel;
  }
}

TEST_P(GoldenValueMap, Residuals) {
  for (uint32_t kv_head = 0; kv_head < case_.n_kv_heads; ++kv_head) {
    for (uint32_t slot = 0; slot < case_.n; ++slot) {
      const size_t row = size_t{kv_head} * case_.n + slot;
      const float found = residual(case_.map, kv_head, case_.k_pre.data() + row * case_.head_dim,
                                   case_.v.data() + row * case_.head_dim);
      EXPECT_NEAR(found, case_.residual[row], 1e-5 * case_.residual[row]) << kv_head << " " << slot;
    }
  }
}

// Attention over both tiers in double, with apply() for the slots without a value.
TEST_P(GoldenValueMap, RebuiltSumsOfAttention) {
  const size_t head_dim = case_.head_dim;
  const size_t n_exact = case_.exact.size() / case_.n_kv_heads;
  const size_t n_approx = case_.approx.size() / case_.n_kv_heads;
  for (uint32_t head = 0; head < case_.n_kv_heads * case_.group; ++head) {
    const uint32_t kv_head = head / case_.group;
    const auto row = [&](int32_t slot) { return (size_t{kv_head} * case_.n + slot) * head_dim; };
    const auto weight_of = [&](int32_t slot) {
      double dot = 0;
      for (size_t channel = 0; channel < head_dim; ++channel)
        dot += double{case_.q[head * head_dim + channel]} * case_.k[row(slot) + channel];
      return std::exp(dot / std::sqrt(static_cast<double>(head_dim)));
    };
    double total = 0, approx_total = 0;
    std::vector<double> sum(head_dim, 0), sum_keys(head_dim, 0);
    for (size_t index = 0; index < n_exact; ++index) {
      const int32_t slot = case_.exact[kv_head * n_exact + index];
      const double weight = weight_of(slot);
      total += weight;
      for (size_t channel = 0; channel < head_dim; ++channel)
        sum[channel] += weight * case_.v[row(slot) + channel];
    }
    for (size_t index = 0; index < n_approx; ++index) {
      const int32_t slot = case_.approx[kv_head * n_approx + index];
      const double weight = weight_of(slot);
      total += weight;
      approx_total += weight;
      for (size_t channel = 0; channel < head_dim; ++channel)
        sum_keys[channel] += weight * case_.k_pre[row(slot) + channel];
    }
    std::vector<float> found(head_dim), keys(head_dim);
    for (size_t channel = 0; channel < head_dim; ++channel) {
      found[channel] = static_cast<float>(sum[channel] / total);
      keys[channel] = static_cast<float>(sum_keys[channel] / total);
    }
    apply(case_.map, kv_head, keys.data(), static_cast<float>(approx_total / total), found.data());
    for (size_t channel = 0; channel < head_dim; ++channel)
      EXPECT_NEAR(found[channel], case_.out[head * head_dim + channel], 1e-5) << head << " " << channel;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, GoldenValueMap,
                         testing::ValuesIn(golden::File(golden::folder() + "/value_map.gguf").texts("name")),
                         [](const testing::TestParamInfo<std::string>& variant) {
                           std::string name = variant.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Head sizes that fill no whole vector and no whole group of rows.
TEST(ValueMap, AnyHeadSize) {
  for (const uint32_t head_dim : {6U, 30U, 80U, 96U, 256U}) {
    LayerMap map{.mode = TierMode::linear, .head_dim = head_dim};
    for (uint32_t index = 0; index < 2 * head_dim * head_dim; ++index)
      map.weight.push_back(static_cast<float>(index % 17) * 0.125F - 1.0F);
    for (uint32_t index = 0; index < 2 * head_dim; ++index) map.bias.push_back(static_cast<float>(index % 5));
    std::vector<float> key(head_dim), value(head_dim), rebuilt(head_dim, 0.5F);
    for (uint32_t channel = 0; channel < head_dim; ++channel) {
      key[channel] = static_cast<float>(channel % 7) * 0.25F - 0.75F;
      value[channel] = static_cast<float>(channel % 3);
    }
    apply(map, 1, key.data(), 2.0F, rebuilt.data());
    double squares = 0;
    for (uint32_t out = 0; out < head_dim; ++out) {
      double product = 0;
      for (uint32_t in = 0; in < head_dim; ++in)
        product += double{map.weight[(size_t{head_dim} + out) * head_dim + in]} * key[in];
      const double bias = map.bias[head_dim + out];
      EXPECT_NEAR(rebuilt[out], 0.5 + product + 2 * bias, 1e-3) << head_dim << " " << out;
      squares += std::pow(value[out] - product - bias, 2);
    }
    EXPECT_NEAR(residual(map, 1, key.data(), value.data()), squares, 1e-4 * squares) << head_dim;
  }
}

TEST(ValueMap, WithoutWeightsTheBiasIsTheValue) {
  const LayerMap map{.mode = TierMode::zero, .head_dim = 2, .bias = {1, 2, 3, 4}};
  const std::vector<float> key = {9, 9}, value = {3, 6};
  std::vector<float> out = {10, 20};
  apply(map, 1, key.data(), 0.5F, out.data());
  EXPECT_EQ(out, (std::vector<float>{11.5F, 22}));
  EXPECT_EQ(residual(map, 1, key.data(), value.data()), 4.0F);
}

}  // namespace
}  // namespace kvase

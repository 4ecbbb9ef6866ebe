// SPDX-License-Identifier: MIT
// RopeInverse and RopeTable undo ggml's forward rotation, for every pairing and scaling, near and far.
#include "value_map/rope_inverse.h"

#include <gtest/gtest.h>

#include "value_map/rope_table.h"

#include <cmath>
#include <random>

#include "tensor/compute.h"
#include "tensor/handles.h"

namespace kvase {
namespace {

constexpr uint32_t kHeadDim = 80;  // not a whole number of vectors of pairs

struct Variant {
  const char* name;
  RopeSetting setting;
};

std::vector<float> divisors(uint32_t n_pairs) {
  std::vector<float> values;
  for (uint32_t pair = 0; pair < n_pairs; ++pair)
    values.push_back(1.0F + 7.0F * static_cast<float>(pair) / 31.0F);
  return values;
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const RopePairs pairs : {RopePairs::adjacent, RopePairs::half_split}) {
    all.push_back({"plain", {.n_rot = kHeadDim, .pairs = pairs}});
    all.push_back({"large base", {.n_rot = 64, .pairs = pairs, .freq_base = 1e6F}});
    all.push_back({"partial", {.n_rot = 24, .pairs = pairs}});
    all.push_back({"divisors", {.n_rot = 64, .pairs = pairs, .freq_base = 5e5F, .divisors = divisors(32)}});
    all.push_back({"linear", {.n_rot = 64, .pairs = pairs, .freq_scale = 0.25F}});
    all.push_back({"attention factor", {.n_rot = 64, .pairs = pairs, .attn_factor = 1.19F}});
    all.push_back({"YaRN",
                   {.n_rot = 64,
                    .pairs = pairs,
                    .freq_base = 1e6F,
                    .freq_scale = 0.25F,
                    .ext_factor = 1.0F,
                    .attn_factor = 0.9F,
                    .n_ctx_orig = 4096}});
    all.push_back({"YaRN with divisors",
                   {.n_rot = 64,
                    .pairs = pairs,
                    .freq_scale = 0.125F,
                    .ext_factor = 1.0F,
                    .n_ctx_orig = 2048,
                    .divisors = divisors(32)}});
  }
  return all;
}

std::vector<float> random_key(uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> key(kHeadDim);
  for (float& x : key) x = normal(random);
  return key;
}

// What the model's graph does to a key.
std::vector<float> rotated_by_ggml(const RopeSetting& setting, const std::vector<float>& key, int32_t pos) {
  Compute compute(1);
  const GgmlContext context(
      ggml_init({.mem_size = size_t{1} << 20, .mem_buffer = nullptr, .no_alloc = false}));
  ggml_tensor* x = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, kHeadDim, 1, 1);
  std::copy(key.begin(), key.end(), static_cast<float*>(x->data));
  ggml_tensor* at = ggml_new_tensor_1d(context.get(), GGML_TYPE_I32, 1);
  static_cast<int32_t*>(at->data)[0] = pos;
  ggml_tensor* factors = nullptr;
  if (!setting.divisors.empty()) {
    factors = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, setting.n_rot / 2);
    std::copy(setting.divisors.begin(), setting.divisors.end(), static_cast<float*>(factors->data));
  }
  const int mode = setting.pairs == RopePairs::half_split ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;
  ggml_tensor* y =
      ggml_rope_ext(context.get(), x, at, factors, static_cast<int>(setting.n_rot), mode,
                    static_cast<int>(setting.n_ctx_orig), setting.freq_base, setting.freq_scale,
                    setting.ext_factor, setting.attn_factor, setting.beta_fast, setting.beta_slow);
  ggml_cgraph* graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, y);
  compute.run(graph);
  const auto* values = static_cast<const float*>(y->data);
  return {values, values + kHeadDim};
}

double relative_error(const std::vector<float>& found, const std::vector<float>& expected) {
  double error = 0, norm = 0;
  for (size_t channel = 0; channel < expected.size(); ++channel) {
    error += std::pow(double{found[channel]} - expected[channel], 2);
    norm += std::pow(double{expected[channel]}, 2);
  }
  return std::sqrt(error / norm);
}

TEST(RopeInverse, UndoesForwardRotation) {
  for (const Variant& variant : variants()) {
    const RopeInverse inverse(variant.setting, kHeadDim);
    for (const int32_t pos : {0, 1, 77, 1023, 4096, 20000, 65535, 100000, 131071, 1 << 24}) {
      const std::vector<float> key = random_key(static_cast<uint32_t>(pos));
      std::vector<float> found(kHeadDim);
      inverse.unrotate(rotated_by_ggml(variant.setting, key, pos).data(), pos, found.data());
      EXPECT_LT(relative_error(found, key), 1e-5)
          << variant.name << (variant.setting.pairs == RopePairs::adjacent ? ", adjacent" : ", half-split")
          << ", position " << pos;
    }
  }
}

// The table lacks the roundings of f32 angles, which grow with the position.
TEST(RopeTable, UndoesForwardRotation) {
  for (const Variant& variant : variants()) {
    const RopeTable table(variant.setting, kHeadDim);
    std::vector<float> rows, keys;
    const std::vector<int32_t> pos = {0,     1,     77,    255,    256,     1023,   4096,
                                      20000, 65535, 65536, 131071, 1 << 20, 1 << 24};
    for (const int32_t at : pos) {
      const std::vector<float> key = random_key(static_cast<uint32_t>(at));
      const std::vector<float> rotated = rotated_by_ggml(variant.setting, key, at);
      keys.insert(keys.end(), key.begin(), key.end());
      rows.insert(rows.end(), rotated.begin(), rotated.end());
    }
    table.unrotate_rows(rows.data(), pos.data(), pos.size());
    for (size_t index = 0; index < pos.size(); ++index) {
      const auto row_of = [&](const std::vector<float>& all) {
        const auto first = all.begin() + static_cast<ptrdiff_t>(index * kHeadDim);
        return std::vector<float>(first, first + kHeadDim);
      };
      EXPECT_LT(relative_error(row_of(rows), row_of(keys)), 1e-6 + std::ldexp(pos[index], -23))
          << variant.name << (variant.setting.pairs == RopePairs::adjacent ? ", adjacent" : ", half-split")
          << ", position " << pos[index];
    }
  }
}

TEST(RopeInverse, WorksInPlace) {
  for (const Variant& variant : variants()) {
    const RopeInverse inverse(variant.setting, kHeadDim);
    std::vector<float> in_place = random_key(3), apart(kHeadDim);
    inverse.unrotate(in_place.data(), 999, apart.data());
    inverse.unrotate(in_place.data(), 999, in_place.data());
    EXPECT_EQ(in_place, apart) << variant.name;
  }
}

TEST(RopeInverse, ManyPairs) {
  const uint32_t head_dim = 256;
  const RopeSetting setting{.n_rot = head_dim};
  std::vector<float> key(head_dim, 1.0F), out(head_dim);
  RopeInverse(setting, head_dim).unrotate(key.data(), 1, out.data());
  for (uint32_t pair = 0; pair < head_dim / 2; ++pair) {
    const double angle = std::pow(10000.0, -2.0 * pair / head_dim);
    EXPECT_NEAR(out[pair], std::cos(angle) + std::sin(angle), 1e-5) << pair;
    EXPECT_NEAR(out[pair + head_dim / 2], std::cos(angle) - std::sin(angle), 1e-5) << pair;
  }
}

TEST(RopeInverse, NamesTheFirstDifference) {
  const RopeSetting plain{.n_rot = 64, .n_ctx_orig = 2048};
  EXPECT_EQ(difference(plain, plain), "");
  RopeSetting other = plain;
  other.n_ctx_orig = 4096;  // has no effect without YaRN
  EXPECT_EQ(difference(other, plain), "");
  other.freq_base = 5e5F;
  EXPECT_EQ(difference(other, plain), "RoPE base: found 500000, allowed: 10000");
  other = plain;
  other.divisors = divisors(32);
  EXPECT_EQ(difference(other, plain), "number of RoPE divisors: found 32, allowed: 0");
}

}  // namespace
}  // namespace kvase

// SPDX-License-Identifier: MIT
// Rotations against the formula in double precision: both pairings, partial rotation, frequency factors,
// linear and YaRN scaling, at small and large positions.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "tensor/compute.h"

namespace kvase {
namespace {

constexpr uint32_t kHeadDim = 64;
// f32 angles at position 10,000 are good to about 1e-3.
constexpr double kBound = 2e-3;

float element(uint32_t channel) {
  return 1.0F + 0.25F * static_cast<float>(channel % 7) - 0.01F * static_cast<float>(channel);
}
float factor(uint32_t pair) { return 1.0F + 7.0F * static_cast<float>(pair) / 31.0F; }

// Share of extrapolation of a pair: 1 for pairs that turn fast, 0 for those that turn slowly (YaRN, arXiv
// 2309.00071, 3.2).
double yarn_share(const RopeParams& rope, double pair) {
  const auto pair_of_turns = [&](double turns) {
    return rope.n_rot * std::log(rope.n_ctx_orig / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(double{rope.freq_base}));
  };
  const double low = std::max(0.0, std::floor(pair_of_turns(rope.beta_fast)));
  const double high = std::min(rope.n_rot - 1.0, std::ceil(pair_of_turns(rope.beta_slow)));
  const double y = (pair - low) / std::max(0.001, high - low);
  return 1 - std::clamp(y, 0.0, 1.0);
}

std::vector<double> expected_rotation(const RopeParams& rope, RopePairing pairing, bool factors,
                                      int32_t pos) {
  std::vector<double> out(kHeadDim);
  for (uint32_t channel = 0; channel < kHeadDim; ++channel) out[channel] = element(channel);
  for (uint32_t pair = 0; pair < rope.n_rot / 2; ++pair) {
    const double plain =
        pos * std::pow(double{rope.freq_base}, -2.0 * pair / rope.n_rot) / (factors ? factor(pair) : 1.0F);
    double angle = plain * rope.freq_scale;
    double magnitude = rope.attn_factor;
    if (rope.ext_factor != 0) {
      const double share = yarn_share(rope, pair) * rope.ext_factor;
      angle = angle * (1 - share) + plain * share;
      magnitude *= 1 + 0.1 * std::log(1 / rope.freq_scale);
    }
    const uint32_t a = pairing == RopePairing::neighbours ? 2 * pair : pair;
    const uint32_t b = pairing == RopePairing::neighbours ? 2 * pair + 1 : pair + rope.n_rot / 2;
    out[a] = magnitude * (element(a) * std::cos(angle) - element(b) * std::sin(angle));
    out[b] = magnitude * (element(a) * std::sin(angle) + element(b) * std::cos(angle));
  }
  return out;
}

std::vector<float> rotated(const RopeParams& rope, RopePairing pairing, bool factors, int32_t pos) {
  Compute compute(1);
  const GgmlContext context(
      ggml_init({.mem_size = size_t{1} << 20, .mem_buffer = nullptr, .no_alloc = false}));
  ggml_tensor* x = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, kHeadDim, 1, 1);
  for (uint32_t channel = 0; channel < kHeadDim; ++channel)
    static_cast<float*>(x->data)[channel] = element(channel);
  ggml_tensor* at = ggml_new_tensor_1d(context.get(), GGML_TYPE_I32, 1);
  static_cast<int32_t*>(at->data)[0] = pos;
  ggml_tensor* table = nullptr;
  if (factors) {
    table = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, rope.n_rot / 2);
    for (uint32_t pair = 0; pair < rope.n_rot / 2; ++pair)
      static_cast<float*>(table->data)[pair] = factor(pair);
  }
  ggml_tensor* y = rotate(context.get(), x, at, table, rope, pairing);
  ggml_cgraph* graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, y);
  compute.run(graph);
  const auto* values = static_cast<const float*>(y->data);
  return {values, values + kHeadDim};
}

void expect_formula(const RopeParams& rope) {
  for (const RopePairing pairing : {RopePairing::neighbours, RopePairing::halves}) {
    for (const bool factors : {false, true}) {
      for (const int32_t pos : {0, 1, 777, 10000}) {
        const std::vector<double> expected = expected_rotation(rope, pairing, factors, pos);
        const std::vector<float> found = rotated(rope, pairing, factors, pos);
        for (uint32_t channel = 0; channel < kHeadDim; ++channel) {
          ASSERT_NEAR(found[channel], expected[channel], kBound)
              << "position " << pos << " channel " << channel << (factors ? " factors" : "")
              << (pairing == RopePairing::halves ? " halves" : " neighbours");
        }
      }
    }
  }
}

// ik_llama.cpp#2291: the frequency table was loaded and never passed on; position 10,000 shows it.
TEST(Rope, PlainAndWithFrequencyFactors) { expect_formula({.n_rot = kHeadDim, .n_ctx_orig = 8192}); }

TEST(Rope, PartialRotationLeavesTheRestAlone) { expect_formula({.n_rot = kHeadDim / 2, .n_ctx_orig = 8192}); }

TEST(Rope, Linear) {
  expect_formula(
      {.n_rot = kHeadDim, .scaling = RopeScaling::linear, .freq_scale = 0.25F, .n_ctx_orig = 2048});
}

TEST(Rope, Yarn) {
  expect_formula({.n_rot = kHeadDim,
                  .scaling = RopeScaling::yarn,
                  .freq_scale = 0.25F,
                  .ext_factor = 1,
                  .attn_factor = 0.9F,
                  .n_ctx_orig = 2048});
}

}  // namespace
}  // namespace kvase

// SPDX-License-Identifier: MIT
// Angles as ggml forms them, their sines and cosines in vectors, and the transposed rotation.
#include "value_map/rope_inverse.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "value_map/rope_inverse.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, 8>;
using Floats = hn::Rebind<float, Doubles>;
using Ints = hn::Rebind<int32_t, Doubles>;

// Cosines and sines of n pairs' angles, good to two roundings of f32. The multiple of pi/2 is taken off in
// f64, where pi/2 is exact enough for any angle below 2^31; the series are Taylor's on [-pi/4, pi/4], whose
// next terms are below 3e-9 (sine) and 3e-8 (cosine).
//   theta     position times the pair's frequency
//   divisors  of the angles
//   shares    of the unscaled angle, the rest is scaled
void cos_sin(const float* HWY_RESTRICT theta, const float* HWY_RESTRICT divisors,
             const float* HWY_RESTRICT shares, float freq_scale, size_t n, float* HWY_RESTRICT cosines,
             float* HWY_RESTRICT sines) {
  const Floats d;
  const Doubles dd;
  const Ints di;
  for (size_t pair = 0; pair < n; pair += hn::Lanes(d)) {
    const auto plain = hn::Div(hn::LoadU(d, theta + pair), hn::LoadU(d, divisors + pair));
    const auto scaled = hn::Mul(hn::Set(d, freq_scale), plain);
    const auto share = hn::LoadU(d, shares + pair);
    // Fused in this order where the machine can, as compilers do with ggml's expression.
    const auto mixed = hn::MulAdd(scaled, hn::Sub(hn::Set(d, 1.0F), share), hn::Mul(plain, share));
    const auto angle = hn::PromoteTo(dd, mixed);
    const auto turns = hn::Round(hn::Mul(angle, hn::Set(dd, 2 / std::numbers::pi)));
    const auto x = hn::DemoteTo(d, hn::NegMulAdd(turns, hn::Set(dd, std::numbers::pi / 2), angle));
    const auto quarter = hn::DemoteTo(di, turns);
    const auto x2 = hn::Mul(x, x);
    auto sine = hn::MulAdd(x2, hn::Set(d, 1.0F / 362880), hn::Set(d, -1.0F / 5040));
    sine = hn::MulAdd(sine, x2, hn::Set(d, 1.0F / 120));
    sine = hn::MulAdd(sine, x2, hn::Set(d, -1.0F / 6));
    sine = hn::MulAdd(hn::Mul(sine, x2), x, x);
    auto cosine = hn::MulAdd(x2, hn::Set(d, 1.0F / 40320), hn::Set(d, -1.0F / 720));
    cosine = hn::MulAdd(cosine, x2, hn::Set(d, 1.0F / 24));
    cosine = hn::MulAdd(cosine, x2, hn::Set(d, -0.5F));
    cosine = hn::MulAdd(cosine, x2, hn::Set(d, 1.0F));
    // Quarter turns 1 and 3 swap the two; the sine changes sign in the second half, the cosine in the middle.
    const auto swap =
        hn::MaskFromVec(hn::BitCast(d, hn::VecFromMask(di, hn::TestBit(quarter, hn::Set(di, 1)))));
    const auto sine_sign = hn::ShiftLeft<30>(hn::And(quarter, hn::Set(di, 2)));
    const auto cosine_sign = hn::ShiftLeft<30>(hn::And(hn::Add(quarter, hn::Set(di, 1)), hn::Set(di, 2)));
    hn::StoreU(hn::Xor(hn::IfThenElse(swap, cosine, sine), hn::BitCast(d, sine_sign)), d, sines + pair);
    hn::StoreU(hn::Xor(hn::IfThenElse(swap, sine, cosine), hn::BitCast(d, cosine_sign)), d, cosines + pair);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvase {
namespace {

HWY_EXPORT(cos_sin);

// Pairs whose angles are on the stack at once; a multiple of every vector length.
constexpr uint32_t kPairBlock = 64;

// The channel whose pair makes `n_turns` turns over the original context (YaRN, arXiv 2309.00071, 3.2), in
// f32 as ggml has it.
float channel_of_turns(const RopeSetting& setting, float n_turns) {
  const auto n_rot = static_cast<float>(setting.n_rot);
  const auto pi = static_cast<float>(std::numbers::pi);
  return n_rot * std::log(static_cast<float>(setting.n_ctx_orig) / (n_turns * 2 * pi)) /
         (2 * std::log(setting.freq_base));
}

}  // namespace

float rope_magnitude(const RopeSetting& setting) {
  if (setting.ext_factor == 0) return setting.attn_factor;
  return setting.attn_factor * (1.0F + 0.1F * std::log(1.0F / setting.freq_scale));
}

std::vector<float> extrapolation_shares(const RopeSetting& setting) {
  if (setting.ext_factor == 0) return {};
  const float low = std::max(0.0F, std::floor(channel_of_turns(setting, setting.beta_fast)));
  const float high = std::min(static_cast<float>(setting.n_rot - 1),
                              std::ceil(channel_of_turns(setting, setting.beta_slow)));
  std::vector<float> shares;
  for (uint32_t pair = 0; pair < setting.n_rot / 2; ++pair) {
    const float y = (static_cast<float>(pair) - low) / std::max(0.001F, high - low);
    shares.push_back((1 - std::min(1.0F, std::max(0.0F, y))) * setting.ext_factor);
  }
  return shares;
}

std::string difference(const RopeSetting& found, const RopeSetting& allowed) {
  const auto unequal = [](const char* name, auto a, auto b) {
    return a == b ? std::string() : fmt::format("{}: found {}, allowed: {}", name, a, b);
  };
  const auto pairs_text = [](RopePairs pairs) {
    return pairs == RopePairs::adjacent ? "adjacent" : "half-split";
  };
  std::vector<std::string> parts = {
      unequal("RoPE channels", found.n_rot, allowed.n_rot),
      unequal("RoPE pairs", std::string(pairs_text(found.pairs)), std::string(pairs_text(allowed.pairs))),
      unequal("RoPE base", found.freq_base, allowed.freq_base),
      unequal("RoPE frequency scale", found.freq_scale, allowed.freq_scale),
      unequal("RoPE YaRN share", found.ext_factor, allowed.ext_factor),
      unequal("RoPE magnitude", found.attn_factor, allowed.attn_factor),
  };
  if (found.ext_factor != 0) {
    parts.push_back(unequal("RoPE fast turns", found.beta_fast, allowed.beta_fast));
    parts.push_back(unequal("RoPE slow turns", found.beta_slow, allowed.beta_slow));
    parts.push_back(unequal("RoPE original context", found.n_ctx_orig, allowed.n_ctx_orig));
  }
  parts.push_back(unequal("number of RoPE divisors", found.divisors.size(), allowed.divisors.size()));
  if (found.divisors.size() == allowed.divisors.size()) {
    for (size_t pair = 0; pair < found.divisors.size(); ++pair)
      parts.push_back(unequal("RoPE divisor", found.divisors[pair], allowed.divisors[pair]));
  }
  const auto first = std::ranges::find_if(parts, [](const std::string& part) { return !part.empty(); });
  return first == parts.end() ? std::string() : *first;
}

RopeInverse::RopeInverse(const RopeSetting& setting, uint32_t head_dim)
    : head_dim_(head_dim),
      n_pairs_(setting.n_rot / 2),
      pairs_(setting.pairs),
      theta_scale_(std::pow(setting.freq_base, -2.0F / static_cast<float>(setting.n_rot))),
      freq_scale_(setting.freq_scale),
      inverse_magnitude_(1 / rope_magnitude(setting)),
      divisors_(setting.divisors),
      shares_(extrapolation_shares(setting)) {
  KVASE_CHECK(setting.n_rot % 2 == 0 && setting.n_rot <= head_dim, "{} rotated channels of {}", setting.n_rot,
              head_dim);
  KVASE_CHECK(divisors_.empty() || divisors_.size() == n_pairs_, "{} divisors for {} pairs", divisors_.size(),
              n_pairs_);
  const size_t n_padded = (size_t{n_pairs_} + kPairBlock - 1) / kPairBlock * kPairBlock;
  divisors_.resize(n_padded, 1.0F);
  shares_.resize(n_padded, 0.0F);
}

void RopeInverse::unrotate(const float* key, int64_t pos, float* out) const {
  alignas(64) float thetas[kPairBlock] = {};
  alignas(64) float cosines[kPairBlock];
  alignas(64) float sines[kPairBlock];
  auto theta = static_cast<float>(pos);
  for (uint32_t first = 0; first < n_pairs_; first += kPairBlock) {
    const uint32_t n = std::min(kPairBlock, n_pairs_ - first);
    for (uint32_t index = 0; index < n; ++index) {
      thetas[index] = theta;
      theta *= theta_scale_;
    }
    HWY_DYNAMIC_DISPATCH(cos_sin)
    (thetas, divisors_.data() + first, shares_.data() + first, freq_scale_, n, cosines, sines);
    const uint32_t step = pairs_ == RopePairs::adjacent ? 2 : 1;
    const uint32_t partner = pairs_ == RopePairs::adjacent ? 1 : n_pairs_;
    for (uint32_t index = 0; index < n; ++index) {
      const uint32_t channel = step * (first + index);
      const float x = key[channel], y = key[channel + partner];
      out[channel] = (x * cosines[index] + y * sines[index]) * inverse_magnitude_;
      out[channel + partner] = (y * cosines[index] - x * sines[index]) * inverse_magnitude_;
    }
  }
  std::copy(key + size_t{2} * n_pairs_, key + head_dim_, out + size_t{2} * n_pairs_);
}

}  // namespace kvase
#endif  // HWY_ONCE

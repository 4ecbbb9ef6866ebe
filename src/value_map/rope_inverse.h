// SPDX-License-Identifier: MIT
// Takes RoPE off a cached key: the key as it stood after projection, bias and key norm.
//
// Angles follow ggml's arithmetic step by step in f32, because at position 100,000 one rounding of the angle
// of a fast pair is a hundredth of a radian. The inverse of a rotation scaled by YaRN's magnitude m is the
// transposed rotation divided by m. Thread-compatible: unrotate() is const and allocates nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvase {

// Channels that rotate together: (2i, 2i + 1), or (i, i + n_rot / 2).
enum class RopePairs : uint8_t { adjacent, half_split };

// The arguments of ggml_rope_ext for a model, as plain numbers.
struct RopeSetting {
  uint32_t n_rot = 0;  // channels that rotate, even; the rest of a head passes through
  RopePairs pairs = RopePairs::half_split;
  float freq_base = 10000.0F;
  float freq_scale = 1.0F;   // 1 / context extension
  float ext_factor = 0.0F;   // 0: none or linear, 1: YaRN
  float attn_factor = 1.0F;  // magnitude, before the one that ggml adds for YaRN
  float beta_fast = 32.0F;
  float beta_slow = 1.0F;
  uint32_t n_ctx_orig = 0;           // context before YaRN, tokens
  std::vector<float> divisors = {};  // of the angles, [n_rot / 2]; empty: all 1
};

// What differs between two settings, where it changes a key: "freq_base: found 10000, allowed: 500000". Empty
// if they rotate alike.
std::string difference(const RopeSetting& found, const RopeSetting& allowed);

// By how much the rotation stretches a key.
float rope_magnitude(const RopeSetting& setting);

// Share of the unscaled angle in each pair's: 1 for pairs that turn fast, 0 for slow ones. Empty without
// YaRN.
std::vector<float> extrapolation_shares(const RopeSetting& setting);

class RopeInverse {
 public:
  RopeInverse() = default;  // rotates nothing
  // REQUIRES: n_rot even and <= head_dim; divisors empty or n_rot / 2 of them.
  RopeInverse(const RopeSetting& setting, uint32_t head_dim);

  // key after RoPE at `pos`, out before it; f32 [head_dim]. out may be key. REQUIRES: 0 <= pos < 2^31.
  void unrotate(const float* key, int64_t pos, float* out) const;

 private:
  uint32_t head_dim_ = 0;
  uint32_t n_pairs_ = 0;
  RopePairs pairs_ = RopePairs::half_split;
  float theta_scale_ = 1.0F;  // from one pair's angle to the next
  float freq_scale_ = 1.0F;
  float inverse_magnitude_ = 1.0F;
  std::vector<float> divisors_;  // [n_pairs], padded to whole blocks with 1
  std::vector<float> shares_;    // of the unscaled angle, [n_pairs], padded with 0; all 0 without YaRN
};

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Fills the tables in f64, and un-rotates in vectors of pairs.
#include "value_map/rope_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "value_map/rope_table.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h.
#include <hwy/highway.h>

#include <cmath>

#include "base/check.h"

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using OneFloat = hn::CappedTag<float, 1>;

template <typename D>
struct Turn {
  hn::Vec<D> cosine, sine;
};

// The turn of pairs `pair`, `pair + 1`, ... by a position. Its two higher digits are 0 below 65,536.
template <typename D>
HWY_INLINE Turn<D> turn_of(D d, const float* HWY_RESTRICT table, size_t n_pairs, uint32_t pos, size_t pair) {
  const auto digit = [&](size_t level) HWY_ATTR {
    const float* row = table + (level * 256 + (pos >> (8 * level) & 255)) * 2 * n_pairs + pair;
    return Turn<D>{hn::LoadU(d, row), hn::LoadU(d, row + n_pairs)};
  };
  const auto add = [](const Turn<D>& a, const Turn<D>& b) HWY_ATTR {
    return Turn<D>{hn::NegMulAdd(a.sine, b.sine, hn::Mul(a.cosine, b.cosine)),
                   hn::MulAdd(a.sine, b.cosine, hn::Mul(a.cosine, b.sine))};
  };
  Turn<D> turn = add(digit(0), digit(1));
  if (pos >= 65536) turn = add(turn, add(digit(2), digit(3)));
  return turn;
}

// Turns one vector of pairs back.
template <typename D>
HWY_INLINE void turn_back_split(D d, const Turn<D>& turn, size_t n_pairs, float* HWY_RESTRICT row) {
  const auto x = hn::LoadU(d, row), y = hn::LoadU(d, row + n_pairs);
  hn::StoreU(hn::MulAdd(y, turn.sine, hn::Mul(x, turn.cosine)), d, row);
  hn::StoreU(hn::NegMulAdd(x, turn.sine, hn::Mul(y, turn.cosine)), d, row + n_pairs);
}

template <typename D>
HWY_INLINE void turn_back_adjacent(D d, const Turn<D>& turn, float* HWY_RESTRICT row) {
  hn::Vec<D> x, y;
  hn::LoadInterleaved2(d, row, x, y);
  hn::StoreInterleaved2(hn::MulAdd(y, turn.sine, hn::Mul(x, turn.cosine)),
                        hn::NegMulAdd(x, turn.sine, hn::Mul(y, turn.cosine)), d, row);
}

void unrotate_split(const float* HWY_RESTRICT table, size_t n_pairs, size_t head_dim, const int32_t* pos,
                    size_t n, float* HWY_RESTRICT rows) {
  const Floats d;
  const OneFloat one;
  for (size_t index = 0; index < n; ++index, rows += head_dim) {
    const auto at = static_cast<uint32_t>(pos[index]);
    size_t pair = 0;
    for (; pair + hn::Lanes(d) <= n_pairs; pair += hn::Lanes(d))
      turn_back_split(d, turn_of(d, table, n_pairs, at, pair), n_pairs, rows + pair);
    for (; pair < n_pairs; ++pair)
      turn_back_split(one, turn_of(one, table, n_pairs, at, pair), n_pairs, rows + pair);
  }
}

void unrotate_adjacent(const float* HWY_RESTRICT table, size_t n_pairs, size_t head_dim, const int32_t* pos,
                       size_t n, float* HWY_RESTRICT rows) {
  const Floats d;
  const OneFloat one;
  for (size_t index = 0; index < n; ++index, rows += head_dim) {
    const auto at = static_cast<uint32_t>(pos[index]);
    size_t pair = 0;
    for (; pair + hn::Lanes(d) <= n_pairs; pair += hn::Lanes(d))
      turn_back_adjacent(d, turn_of(d, table, n_pairs, at, pair), rows + 2 * pair);
    for (; pair < n_pairs; ++pair)
      turn_back_adjacent(one, turn_of(one, table, n_pairs, at, pair), rows + 2 * pair);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvase {
namespace {

HWY_EXPORT(unrotate_split);
HWY_EXPORT(unrotate_adjacent);

constexpr size_t kDigits = 4;
constexpr size_t kBase = 256;

// Radians per position of each pair.
std::vector<double> frequencies(const RopeSetting& setting) {
  const double theta_scale = std::pow(setting.freq_base, -2.0F / static_cast<float>(setting.n_rot));
  const std::vector<float> shares = extrapolation_shares(setting);
  std::vector<double> result;
  for (size_t pair = 0; pair < setting.n_rot / 2; ++pair) {
    const double divisor = setting.divisors.empty() ? 1.0F : setting.divisors[pair];
    const double plain = std::pow(theta_scale, static_cast<double>(pair)) / divisor;
    const double share = shares.empty() ? 0.0F : shares[pair];
    result.push_back(plain * (setting.freq_scale * (1 - share) + share));
  }
  return result;
}

}  // namespace

RopeTable::RopeTable(const RopeSetting& setting, uint32_t head_dim)
    : head_dim_(head_dim), n_pairs_(setting.n_rot / 2), pairs_(setting.pairs) {
  KVASE_CHECK(setting.n_rot % 2 == 0 && setting.n_rot <= head_dim, "{} rotated channels of {}", setting.n_rot,
              head_dim);
  const std::vector<double> frequency = frequencies(setting);
  table_.resize(kDigits * kBase * 2 * n_pairs_);
  float* row = table_.data();
  for (size_t level = 0; level < kDigits; ++level) {
    const double magnitude = level == 0 ? 1.0 / double{rope_magnitude(setting)} : 1.0;
    for (size_t digit = 0; digit < kBase; ++digit, row += size_t{2} * n_pairs_) {
      for (size_t pair = 0; pair < n_pairs_; ++pair) {
        const double angle = static_cast<double>(digit << (8 * level)) * frequency[pair];
        row[pair] = static_cast<float>(std::cos(angle) * magnitude);
        row[n_pairs_ + pair] = static_cast<float>(std::sin(angle) * magnitude);
      }
    }
  }
}

void RopeTable::unrotate_rows(float* rows, const int32_t* pos, size_t n) const {
  if (pairs_ == RopePairs::half_split) {
    HWY_DYNAMIC_DISPATCH(unrotate_split)(table_.data(), n_pairs_, head_dim_, pos, n, rows);
  } else {
    HWY_DYNAMIC_DISPATCH(unrotate_adjacent)(table_.data(), n_pairs_, head_dim_, pos, n, rows);
  }
}

}  // namespace kvase
#endif  // HWY_ONCE

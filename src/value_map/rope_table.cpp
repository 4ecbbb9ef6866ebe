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
#include "value_map/turn-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {

template <RopePairs kPairs, typename D>
HWY_INLINE void unrotate_pairs(D d, const RopeTurns& turns, uint32_t pos, size_t pair, float* row) {
  const Pairs<D> pairs = load_pairs<kPairs>(d, row, turns.n_pairs, pair);
  store_pairs<kPairs>(d, turn_back(turn_of(d, turns, pos, pair), pairs), row, turns.n_pairs, pair);
}

template <RopePairs kPairs>
void unrotate(const RopeTurns& turns, size_t head_dim, const int32_t* pos, size_t n, float* rows) {
  const hn::CappedTag<float, 16> d;
  const hn::CappedTag<float, 1> one;
  for (size_t index = 0; index < n; ++index, rows += head_dim) {
    const auto at = static_cast<uint32_t>(pos[index]);
    size_t pair = 0;
    for (; pair + hn::Lanes(d) <= turns.n_pairs; pair += hn::Lanes(d))
      unrotate_pairs<kPairs>(d, turns, at, pair, rows);
    for (; pair < turns.n_pairs; ++pair) unrotate_pairs<kPairs>(one, turns, at, pair, rows);
  }
}

void unrotate_rows(const RopeTurns& turns, size_t head_dim, const int32_t* pos, size_t n, float* rows) {
  if (turns.pairs == RopePairs::half_split)
    return unrotate<RopePairs::half_split>(turns, head_dim, pos, n, rows);
  unrotate<RopePairs::adjacent>(turns, head_dim, pos, n, rows);
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvase {
namespace {

HWY_EXPORT(unrotate_rows);

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
  HWY_DYNAMIC_DISPATCH(unrotate_rows)(turns(), head_dim_, pos, n, rows);
}

}  // namespace kvase
#endif  // HWY_ONCE

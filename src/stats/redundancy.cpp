// SPDX-License-Identifier: MIT
// Four rows against panels of sixteen keys, newest panel first, until each row has found its entry.
#include "stats/redundancy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/redundancy.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// cosines[row][key] of 4 rows and the 16 keys of a panel.
//   rows   f32 [kRedundancyPanel, dim], the first 4 of each kRedundancyPanel are read   keys  f32
//   [kRedundancyPanel, dim]
void panel_cosines(const float* HWY_RESTRICT rows, const float* HWY_RESTRICT keys, size_t dim,
                   float* HWY_RESTRICT cosines) {
  const hn::CappedTag<float, kRedundancyPanel> d;
  for (size_t key = 0; key < kRedundancyPanel; key += hn::Lanes(d)) {
    auto c0 = hn::Zero(d), c1 = hn::Zero(d), c2 = hn::Zero(d), c3 = hn::Zero(d);
    for (size_t channel = 0; channel < dim; ++channel) {
      const auto x = hn::LoadU(d, keys + channel * kRedundancyPanel + key);
      const float* HWY_RESTRICT row = rows + channel * kRedundancyPanel;
      c0 = hn::MulAdd(hn::Set(d, row[0]), x, c0);
      c1 = hn::MulAdd(hn::Set(d, row[1]), x, c1);
      c2 = hn::MulAdd(hn::Set(d, row[2]), x, c2);
      c3 = hn::MulAdd(hn::Set(d, row[3]), x, c3);
    }
    hn::StoreU(c0, d, cosines + key);
    hn::StoreU(c1, d, cosines + kRedundancyPanel + key);
    hn::StoreU(c2, d, cosines + 2 * kRedundancyPanel + key);
    hn::StoreU(c3, d, cosines + 3 * kRedundancyPanel + key);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

namespace kvase {
namespace {

constexpr size_t kRowsAtOnce = 4;  // of panel_cosines(); divides the panel
constexpr float kSimilar = 0.5F;   // the released code's threshold

HWY_EXPORT(panel_cosines);

// The newest key of a panel, below `n_keys` and not `self`, that is similar; kRedundancyPanel if there is
// none.
size_t newest_similar(const float* cosines, size_t n_keys, size_t self) {
  for (size_t key = n_keys; key-- > 0;) {
    if (cosines[key] > kSimilar && key != self) return key;
  }
  return kRedundancyPanel;
}

}  // namespace

Redundancy::Redundancy(uint32_t head_dim, uint32_t max_rows)
    : mean_cosine_(head_dim),
      dim_(padded_dim(head_dim)),
      row_(kRedundancyPanel * dim_),
      units_((size_t{max_rows} + kRedundancyPanel - 1) / kRedundancyPanel * kRedundancyPanel * dim_),
      removed_(max_rows) {}

void Redundancy::compute(const StoredRows& keys, std::span<const uint32_t> by_position,
                         std::span<float> out) {
  mean_cosine_.compute(keys, by_position, out);
  read_units(keys, by_position);
  find_exempted(by_position.size());
  for (size_t place = 0; place < by_position.size(); ++place) {
    float& mean = out[by_position[place]];
    mean = static_cast<float>(double{mean} - removed_[place] / static_cast<double>(by_position.size()));
  }
}

void Redundancy::read_units(const StoredRows& keys, std::span<const uint32_t> by_position) {
  for (size_t first = 0; first < by_position.size(); first += kRedundancyPanel) {
    const size_t n_rows = std::min(kRedundancyPanel, by_position.size() - first);
    gather_rows(keys, by_position.subspan(first, n_rows), row_.data());
    std::fill(row_.begin() + static_cast<ptrdiff_t>(n_rows * dim_), row_.end(), 0.0F);
    for (size_t key = 0; key < kRedundancyPanel; ++key) {
      const float* row = &row_[key * dim_];
      double square = 0;
      for (size_t channel = 0; channel < dim_; ++channel)
        square += double{row[channel]} * double{row[channel]};
      const double scale = square == 0 ? 0 : 1 / std::sqrt(square);
      // Its cosine to itself.
      if (key < n_rows) removed_[first + key] = square == 0 ? 0 : 1;
      for (size_t channel = 0; channel < dim_; ++channel)
        units_[first * dim_ + channel * kRedundancyPanel + key] = static_cast<float>(row[channel] * scale);
    }
  }
}

void Redundancy::find_exempted(size_t n) {
  float cosines[kRowsAtOnce * kRedundancyPanel];
  for (size_t first = 0; first < n; first += kRowsAtOnce) {
    const float* rows =
        &units_[first / kRedundancyPanel * kRedundancyPanel * dim_ + first % kRedundancyPanel];
    const size_t n_rows = std::min(kRowsAtOnce, n - first);
    bool found[kRowsAtOnce] = {};
    size_t n_found = 0;
    for (size_t end = n; end > 0 && n_found < n_rows;) {
      const size_t panel = (end - 1) / kRedundancyPanel * kRedundancyPanel;
      HWY_DYNAMIC_DISPATCH(panel_cosines)(rows, &units_[panel * dim_], dim_, cosines);
      for (size_t row = 0; row < n_rows; ++row) {
        if (found[row]) continue;
        const float* of_row = cosines + row * kRedundancyPanel;
        const size_t self = first + row - panel;  // wraps to a large number where the panel is another
        size_t key = newest_similar(of_row, end - panel, self);
        // Nothing similar: the oldest key, unless the row is that key itself.
        if (key == kRedundancyPanel && panel == 0 && self != 0) key = 0;
        if (key == kRedundancyPanel) continue;
        removed_[panel + key] += double{of_row[key]};
        found[row] = true;
        ++n_found;
      }
      end = panel;
    }
  }
}

}  // namespace kvase
#endif

// SPDX-License-Identifier: MIT
// Four rows against panels of sixteen keys, newest panel first, until each row has found its entry; rows of
// an earlier event only against newer keys.
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

// cosines[row][key] of kRedundancyRows rows and the 16 keys of a panel.
//   rows  f32 [kRedundancyRows, dim]   keys  f32 [kRedundancyPanel, dim]
void panel_cosines(const float* HWY_RESTRICT rows, const float* HWY_RESTRICT keys, size_t dim,
                   float* HWY_RESTRICT cosines) {
  const hn::CappedTag<float, kRedundancyPanel> d;
  for (size_t key = 0; key < kRedundancyPanel; key += hn::Lanes(d)) {
    auto c0 = hn::Zero(d), c1 = hn::Zero(d), c2 = hn::Zero(d), c3 = hn::Zero(d);
    for (size_t channel = 0; channel < dim; ++channel) {
      const auto x = hn::LoadU(d, keys + channel * kRedundancyPanel + key);
      const float* HWY_RESTRICT row = rows + channel * kRedundancyRows;
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
#include <limits>

namespace kvase {
namespace {

constexpr float kSimilar = 0.5F;  // the released code's threshold
constexpr uint32_t kNothing = std::numeric_limits<uint32_t>::max();

HWY_EXPORT(panel_cosines);

// The newest of keys first .. end - 1 that is similar and not `row` itself, or kNothing.
//   cosines  of the panel that starts at key `panel`
uint32_t newest_similar(const float* cosines, uint32_t panel, uint32_t first, uint32_t end, uint32_t row) {
  for (uint32_t key = end; key-- > first;) {
    if (cosines[key - panel] > kSimilar && key != row) return key;
  }
  return kNothing;
}

}  // namespace

Redundancy::Redundancy(uint32_t head_dim, uint32_t max_rows)
    : mean_cosine_(head_dim, max_rows),
      dim_(padded_dim(head_dim)),
      row_(kRedundancyPanel * dim_),
      units_((size_t{max_rows} + kRedundancyPanel - 1) / kRedundancyPanel * kRedundancyPanel * dim_),
      together_(kRedundancyRows * dim_),
      removed_(max_rows) {
  searches_.reserve(max_rows);
  unfinished_.reserve(max_rows);
}

void Redundancy::compute(const StoredRows& keys, std::span<const uint32_t> by_position,
                         std::span<const int32_t> pos, std::span<int32_t> similar, std::span<float> out) {
  mean_cosine_.compute(keys, by_position, out);
  read_units(keys, by_position);
  find_similar(by_position, pos, similar);
  const auto n = static_cast<uint32_t>(by_position.size());
  for (uint32_t row = 0; row < n; ++row) {
    uint32_t& found = searches_[row].found;
    similar[by_position[row]] = found == kNothing ? kNoneSimilar : pos[by_position[found]];
    // Nothing similar: the oldest key, unless the row is that key itself.
    if (found == kNothing) found = 0;
    if (found != row) removed_[found] += cosine(row, found);
  }
  for (uint32_t key = 0; key < n; ++key) {
    float& mean = out[by_position[key]];
    mean = static_cast<float>(double{mean} - removed_[key] / static_cast<double>(n));
  }
}

void Redundancy::read_units(const StoredRows& keys, std::span<const uint32_t> by_position) {
  const std::span<const double> scales = mean_cosine_.inverse_lengths();
  for (size_t first = 0; first < by_position.size(); first += kRedundancyPanel) {
    const size_t n_rows = std::min<size_t>(kRedundancyPanel, by_position.size() - first);
    gather_rows(keys, by_position.subspan(first, n_rows), row_.data());
    std::fill(row_.begin() + static_cast<ptrdiff_t>(n_rows * dim_), row_.end(), 0.0F);
    for (size_t key = 0; key < n_rows; ++key) {
      // Its cosine to itself.
      removed_[first + key] = scales[first + key] == 0 ? 0 : 1;
    }
    for (size_t key = 0; key < kRedundancyPanel; ++key) {
      const double scale = key < n_rows ? scales[first + key] : 0;
      for (size_t channel = 0; channel < dim_; ++channel)
        units_[first * dim_ + channel * kRedundancyPanel + key] =
            static_cast<float>(row_[key * dim_ + channel] * scale);
    }
  }
}

// Fills searches_, one per row.
void Redundancy::find_similar(std::span<const uint32_t> by_position, std::span<const int32_t> pos,
                              std::span<const int32_t> similar) {
  const auto n = static_cast<uint32_t>(by_position.size());
  const auto n_old = static_cast<uint32_t>(
      std::ranges::find(by_position, kNeverCompared, [&](uint32_t slot) { return similar[slot]; }) -
      by_position.begin());
  searches_.clear();
  for (uint32_t row = 0; row < n; ++row) searches_.push_back({.row = row, .end = n, .found = kNothing});
  look_back(searches_, n_old);

  unfinished_.clear();
  for (Search& search : searches_) {
    const int32_t before = similar[by_position[search.row]];
    if (search.found != kNothing || before == kNoneSimilar) continue;
    search.end = n_old;
    if (before != kNeverCompared) {
      const auto place =
          std::ranges::lower_bound(by_position, before, {}, [&](uint32_t slot) { return pos[slot]; });
      search.end = static_cast<uint32_t>(place - by_position.begin());
      if (place != by_position.end() && pos[*place] == before) search.found = search.end;
    }
    if (search.found == kNothing) unfinished_.push_back(search);
  }
  look_back(unfinished_, 0);
  for (const Search& search : unfinished_) searches_[search.row].found = search.found;
}

void Redundancy::look_back(std::span<Search> searches, uint32_t begin) {
  for (size_t first = 0; first < searches.size(); first += kRedundancyRows)
    look_back_together(searches.subspan(first, std::min(kRedundancyRows, searches.size() - first)), begin);
}

// At most kRedundancyRows searches, panel by panel, until each has found its key or is at `begin`.
void Redundancy::look_back_together(std::span<Search> searches, uint32_t begin) {
  uint32_t end = 0;
  std::ranges::fill(together_, 0.0F);
  for (size_t index = 0; index < searches.size(); ++index) {
    const float* unit = unit_of(searches[index].row);
    for (size_t channel = 0; channel < dim_; ++channel)
      together_[channel * kRedundancyRows + index] = unit[channel * kRedundancyPanel];
    end = std::max(end, searches[index].end);
  }
  float cosines[kRedundancyRows * kRedundancyPanel];
  for (size_t n_found = 0; end > begin && n_found < searches.size();) {
    const uint32_t panel = (end - 1) / kRedundancyPanel * kRedundancyPanel;
    HWY_DYNAMIC_DISPATCH(panel_cosines)(together_.data(), &units_[size_t{panel} * dim_], dim_, cosines);
    for (size_t index = 0; index < searches.size(); ++index) {
      Search& search = searches[index];
      if (search.found != kNothing) continue;
      search.found = newest_similar(cosines + index * kRedundancyPanel, panel, std::max(panel, begin),
                                    std::min(end, search.end), search.row);
      n_found += search.found != kNothing;
    }
    end = panel;
  }
}

const float* Redundancy::unit_of(size_t key) const {
  return &units_[key / kRedundancyPanel * kRedundancyPanel * dim_ + key % kRedundancyPanel];
}

// Four sums, so that none waits for the last product.
double Redundancy::cosine(size_t a, size_t b) const {
  const float* x = unit_of(a);
  const float* y = unit_of(b);
  float sums[4] = {};
  for (size_t channel = 0; channel < dim_; channel += 4) {
    for (size_t lane = 0; lane < 4; ++lane)
      sums[lane] += x[(channel + lane) * kRedundancyPanel] * y[(channel + lane) * kRedundancyPanel];
  }
  return double{sums[0]} + double{sums[1]} + double{sums[2]} + double{sums[3]};
}

}  // namespace kvase
#endif

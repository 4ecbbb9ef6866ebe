// SPDX-License-Identifier: MIT
// Squared distances to a mean.
#include "stats/residual.h"

#include <algorithm>

namespace kvase {
namespace {

constexpr size_t kBlockRows = 64;

// |x - mean|^2 over n elements, a multiple of kStoredRowPad.
float squared_distance(const float* x, const float* mean, size_t n) {
  float sums[kStoredRowPad] = {};
  for (size_t first = 0; first < n; first += kStoredRowPad) {
    for (size_t lane = 0; lane < kStoredRowPad; ++lane) {
      const float difference = x[first + lane] - mean[first + lane];
      sums[lane] += difference * difference;
    }
  }
  float total = 0;
  for (const float sum : sums) total += sum;
  return total;
}

}  // namespace

MeanResidual::MeanResidual(uint32_t head_dim)
    : block_(kBlockRows * padded_dim(head_dim)), mean_(padded_dim(head_dim)) {}

void MeanResidual::compute(const StoredRows& values, std::span<const uint32_t> slots,
                           std::span<const float> mean, std::span<float> out) {
  const size_t stride = mean_.size();
  const auto for_blocks = [&](auto&& take_row) {
    for (size_t first = 0; first < slots.size(); first += kBlockRows) {
      const auto block = slots.subspan(first, std::min(kBlockRows, slots.size() - first));
      gather_rows(values, block, block_.data());
      for (size_t row = 0; row < block.size(); ++row) take_row(block[row], block_.data() + row * stride);
    }
  };
  std::ranges::fill(mean_, 0.0F);
  std::ranges::copy(mean, mean_.begin());
  if (mean.empty()) {
    for_blocks([&](uint32_t, const float* row) {
      for (size_t channel = 0; channel < stride; ++channel) mean_[channel] += row[channel];
    });
    for (float& sum : mean_) sum /= static_cast<float>(slots.size());
  }
  for_blocks(
      [&](uint32_t slot, const float* row) { out[slot] = squared_distance(row, mean_.data(), stride); });
}

}  // namespace kvase

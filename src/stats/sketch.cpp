// SPDX-License-Identifier: MIT
// One pass over the rows: each element times a row of G, the rank in vector lanes.
#include "stats/sketch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/sketch.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows that go through G together: their sums are independent, so none waits for another, and each element of
// G is loaded once.
constexpr size_t kRowsAtOnce = 4;

// out[row] = |x_row G|^2 for n_rows rounded up to kRowsAtOnce; x [stride, that many]. At most 16 lanes, so
// that kSketchPad is a multiple of every target's vector.
void projected_norms(const float* HWY_RESTRICT x, size_t n_rows, size_t stride, const float* HWY_RESTRICT g,
                     size_t head_dim, size_t padded_rank, float* HWY_RESTRICT out) {
  const hn::CappedTag<float, kSketchPad> d;
  for (size_t row = 0; row < n_rows; row += kRowsAtOnce) {
    const float* x0 = x + row * stride;
    const float* x1 = x0 + stride;
    const float* x2 = x1 + stride;
    const float* x3 = x2 + stride;
    auto norm0 = hn::Zero(d), norm1 = norm0, norm2 = norm0, norm3 = norm0;
    for (size_t column = 0; column < padded_rank; column += hn::Lanes(d)) {
      auto y0 = hn::Zero(d), y1 = y0, y2 = y0, y3 = y0;
      for (size_t channel = 0; channel < head_dim; ++channel) {
        const auto weights = hn::LoadU(d, g + channel * padded_rank + column);
        y0 = hn::MulAdd(hn::Set(d, x0[channel]), weights, y0);
        y1 = hn::MulAdd(hn::Set(d, x1[channel]), weights, y1);
        y2 = hn::MulAdd(hn::Set(d, x2[channel]), weights, y2);
        y3 = hn::MulAdd(hn::Set(d, x3[channel]), weights, y3);
      }
      norm0 = hn::MulAdd(y0, y0, norm0);
      norm1 = hn::MulAdd(y1, y1, norm1);
      norm2 = hn::MulAdd(y2, y2, norm2);
      norm3 = hn::MulAdd(y3, y3, norm3);
    }
    out[row] = hn::GetLane(hn::SumOfLanes(d, norm0));
    out[row + 1] = hn::GetLane(hn::SumOfLanes(d, norm1));
    out[row + 2] = hn::GetLane(hn::SumOfLanes(d, norm2));
    out[row + 3] = hn::GetLane(hn::SumOfLanes(d, norm3));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "stats/rows.h"

namespace kvase {

namespace {

// Rows converted at once, a multiple of those that are projected at once; bounds the scratch, not the result.
constexpr size_t kBlock = 32;

HWY_EXPORT(projected_norms);

}  // namespace

SketchMatrix make_sketch_matrix(const SketchSpec& spec, const EventContext& event, uint32_t head_dim) {
  const NoiseKey key{.seed = event.seed,
                     .sequence = event.sequence,
                     .layer = event.layer,
                     .head = kSharedHead,
                     .event = spec.redraw ? event.event : 0};
  const std::vector<double> exact = gaussian_matrix(key, head_dim, spec.rank);
  SketchMatrix matrix;
  matrix.head_dim = head_dim;
  matrix.padded_rank = (spec.rank + kSketchPad - 1) / kSketchPad * kSketchPad;
  matrix.g.assign(size_t{head_dim} * matrix.padded_rank, 0.0F);
  for (size_t channel = 0; channel < head_dim; ++channel) {
    for (size_t column = 0; column < spec.rank; ++column) {
      matrix.g[channel * matrix.padded_rank + column] =
          static_cast<float>(exact[channel * spec.rank + column]);
    }
  }
  return matrix;
}

void sketch_rows(const SketchMatrix& matrix, const StoredRows& rows, std::span<const uint32_t> slots,
                 std::span<float> out) {
  const size_t stride = padded_dim(matrix.head_dim);
  std::vector<float> block(kBlock * stride);
  float norms[kBlock];
  for (size_t first = 0; first < slots.size(); first += kBlock) {
    const size_t n_rows = std::min(kBlock, slots.size() - first);
    gather_rows(rows, slots.subspan(first, n_rows), block.data());
    HWY_DYNAMIC_DISPATCH(projected_norms)
    (block.data(), n_rows, stride, matrix.g.data(), matrix.head_dim, matrix.padded_rank, norms);
    for (size_t row = 0; row < n_rows; ++row) out[slots[first + row]] = norms[row];
  }
}

}  // namespace kvase
#endif

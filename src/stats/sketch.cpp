// SPDX-License-Identifier: MIT
// One pass over the rows: each element times a row of G, the rank in vector lanes.
#include "stats/sketch.h"

// Vectors of a size known at run time only cannot lie in arrays.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
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
constexpr size_t kRowsAtOnce = 8;

// norms[row] += the squares of the columns from `column` on, as far as whole vectors of at most kMaxLanes
// lanes go, for kRowsAtOnce rows of x. Returns the first column that is left.
template <size_t kMaxLanes>
HWY_INLINE size_t add_columns(const float* HWY_RESTRICT x, size_t stride, const float* HWY_RESTRICT g,
                              size_t head_dim, size_t padded_rank, size_t column, float* HWY_RESTRICT norms) {
  const hn::CappedTag<float, kMaxLanes> d;
  for (; column + hn::Lanes(d) <= padded_rank; column += hn::Lanes(d)) {
    hn::Vec<decltype(d)> y[kRowsAtOnce];
    for (auto& sum : y) sum = hn::Zero(d);
    for (size_t channel = 0; channel < head_dim; ++channel) {
      const auto weights = hn::LoadU(d, g + channel * padded_rank + column);
#pragma GCC unroll 8
      for (size_t row = 0; row < kRowsAtOnce; ++row)
        y[row] = hn::MulAdd(hn::Set(d, x[row * stride + channel]), weights, y[row]);
    }
#pragma GCC unroll 8
    for (size_t row = 0; row < kRowsAtOnce; ++row)
      norms[row] += hn::GetLane(hn::SumOfLanes(d, hn::Mul(y[row], y[row])));
  }
  return column;
}

// out[row] = |x_row G|^2 for n_rows rounded up to kRowsAtOnce; x [stride, that many]. Vectors of 16, 8 and 4
// lanes: a rank of 20 takes one of 16 and one of 4, which is half as dear.
void projected_norms(const float* HWY_RESTRICT x, size_t n_rows, size_t stride, const float* HWY_RESTRICT g,
                     size_t head_dim, size_t padded_rank, float* HWY_RESTRICT out) {
  for (size_t row = 0; row < n_rows; row += kRowsAtOnce) {
    const float* rows = x + row * stride;
    float norms[kRowsAtOnce] = {};
    size_t column = add_columns<16>(rows, stride, g, head_dim, padded_rank, 0, norms);
    column = add_columns<8>(rows, stride, g, head_dim, padded_rank, column, norms);
    add_columns<kSketchPad>(rows, stride, g, head_dim, padded_rank, column, norms);
    for (size_t index = 0; index < kRowsAtOnce; ++index) out[row + index] = norms[index];
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

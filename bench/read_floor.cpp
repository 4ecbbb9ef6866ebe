// SPDX-License-Identifier: MIT
// Eight independent sums, so that nothing but the loads takes time.
#include "bench/read_floor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/read_floor.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The sum of n floats, n a multiple of 128.
float sum_floats(const float* x, size_t n) {
  const hn::CappedTag<float, 16> d;
  const size_t step = hn::Lanes(d);
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0, sum4 = sum0, sum5 = sum0, sum6 = sum0,
       sum7 = sum0;
  for (size_t index = 0; index < n; index += 8 * step) {
    sum0 = hn::Add(sum0, hn::LoadU(d, x + index));
    sum1 = hn::Add(sum1, hn::LoadU(d, x + index + step));
    sum2 = hn::Add(sum2, hn::LoadU(d, x + index + 2 * step));
    sum3 = hn::Add(sum3, hn::LoadU(d, x + index + 3 * step));
    sum4 = hn::Add(sum4, hn::LoadU(d, x + index + 4 * step));
    sum5 = hn::Add(sum5, hn::LoadU(d, x + index + 5 * step));
    sum6 = hn::Add(sum6, hn::LoadU(d, x + index + 6 * step));
    sum7 = hn::Add(sum7, hn::LoadU(d, x + index + 7 * step));
  }
  sum0 = hn::Add(hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)),
                 hn::Add(hn::Add(sum4, sum5), hn::Add(sum6, sum7)));
  return hn::GetLane(hn::SumOfLanes(d, sum0));
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <vector>

namespace kvase {
namespace {

HWY_EXPORT(sum_floats);
constexpr size_t kPieceBytes = size_t{128} << 10;

}  // namespace

float read_all(Compute& compute, std::span<const std::span<const std::byte>> spans) {
  std::vector<std::span<const std::byte>> pieces;
  for (const auto& span : spans) {
    for (size_t first = 0; first < span.size(); first += kPieceBytes)
      pieces.push_back(span.subspan(first, std::min(kPieceBytes, span.size() - first)));
  }
  std::vector<float> sums(compute.n_threads(), 0.0F);
  compute.parallel_for(static_cast<uint32_t>(pieces.size()), [&](uint32_t index, uint32_t thread) {
    const auto* floats = reinterpret_cast<const float*>(pieces[index].data());
    sums[thread] +=
        HWY_DYNAMIC_DISPATCH(sum_floats)(floats, pieces[index].size() / sizeof(float) / 128 * 128);
  });
  float total = 0;
  for (const float sum : sums) total += sum;
  return total;
}

}  // namespace kvase
#endif

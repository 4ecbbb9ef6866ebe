// SPDX-License-Identifier: MIT
// Sums of scaled vectors, compiled once per instruction set.
#include "attention/merge.h"

// Vectors of a size known at run time only cannot lie in arrays.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/merge.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>

#include "attention/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {

void merge_totals(const float* chunk_max, const float* chunk_sum, size_t stride, size_t n_chunks,
                  size_t n_rows, float* max, float* sum) {
  for (size_t row = 0; row < n_rows; ++row) {
    max[row] = chunk_max[row];
    for (size_t chunk = 1; chunk < n_chunks; ++chunk)
      max[row] = std::max(max[row], chunk_max[chunk * stride + row]);
    sum[row] = 0;
    for (size_t chunk = 0; chunk < n_chunks; ++chunk)
      sum[row] +=
          chunk_sum[chunk * stride + row] * exp_nonpositive(chunk_max[chunk * stride + row] - max[row]);
  }
}

// out += scale x.
HWY_INLINE void add_scaled(const float* HWY_RESTRICT x, float scale, size_t n, float* HWY_RESTRICT out) {
  const Floats d;
  size_t index = 0;
  for (; index + kLanes <= n; index += kLanes)
    hn::StoreU(hn::MulAdd(hn::Set(d, scale), load(x + index), load(out + index)), d, out + index);
  for (; index < n; ++index) out[index] += scale * x[index];
}

void merge_output(const float* chunk_max, const float* chunk_acc, size_t stride, size_t n_chunks, float max,
                  float sum, size_t head_dim, float* out) {
  std::fill_n(out, head_dim, 0.0F);
  for (size_t chunk = 0; chunk < n_chunks; ++chunk)
    add_scaled(chunk_acc + chunk * stride, exp_nonpositive(chunk_max[chunk * stride] - max) / sum, head_dim,
               out);
}

// factors[row]: what the weights of one block are multiplied with. Whole vectors of rows: arrays of rows have
// room.
HWY_INLINE void block_factors(const float* maxima, const MassRule& rule, size_t n_rows, float* factors) {
  const Floats d;
  for (size_t row = 0; row < n_rows; row += kLanes) {
    const FloatVec weight = load(rule.weight + row);
    const FloatVec exponential = exp_nonpositive(hn::Sub(load(maxima + row), load(rule.max + row)));
    const FloatVec factor = hn::Div(hn::Mul(exponential, weight), load(rule.sum + row));
    hn::StoreU(hn::IfThenElseZero(hn::Ne(weight, hn::Zero(d)), factor), d, factors + row);
  }
}

// mass[slot] += sum over rows of factors[row] * weights[row * kBlock + slot], for n slots of one block.
HWY_INLINE void add_block(const float* HWY_RESTRICT weights, const float* HWY_RESTRICT factors, size_t n_rows,
                          size_t n, float* HWY_RESTRICT mass) {
  const Floats d;
  size_t slot = 0;
  for (; slot + kLanes <= n; slot += kLanes) {
    FloatVec sum = load(mass + slot);
    for (size_t row = 0; row < n_rows; ++row)
      sum = hn::MulAdd(hn::Set(d, factors[row]), load(weights + row * kBlock + slot), sum);
    hn::StoreU(sum, d, mass + slot);
  }
  for (; slot < n; ++slot) {
    for (size_t row = 0; row < n_rows; ++row) mass[slot] += factors[row] * weights[row * kBlock + slot];
  }
}

void add_mass_narrow(const MassTape& tape, const MassRule& rule, size_t n_slots, float* factors,
                     float* mass) {
  const float* weights = tape.weights;
  const float* maxima = tape.maxima;
  for (size_t start = 0; start < n_slots; start += kBlock) {
    block_factors(maxima, rule, tape.n_rows, factors);
    add_block(weights, factors, tape.n_rows, std::min<size_t>(kBlock, n_slots - start), mass + start);
    weights += tape.n_rows * kBlock;
    maxima += tape.n_rows;
  }
}

void add_mass_wide(const MassTape& tape, const MassRule& rule, size_t n_slots, float* factors, float* mass) {
  const float* weights = tape.weights;
  for (size_t slot = 0; slot < n_slots; ++slot, weights += tape.n_rows) {
    if (slot % kBlock == 0)
      block_factors(tape.maxima + slot / kBlock * tape.n_rows, rule, tape.n_rows, factors);
    FloatVec sum = hn::Zero(Floats());
    for (size_t row = 0; row < tape.n_rows; row += kLanes)
      sum = hn::MulAdd(load(weights + row), load(factors + row), sum);
    mass[slot] += hn::GetLane(hn::SumOfLanes(Floats(), sum));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvase {

HWY_EXPORT(merge_totals);
HWY_EXPORT(merge_output);
HWY_EXPORT(add_mass_narrow);
HWY_EXPORT(add_mass_wide);

void merge_totals(const float* chunk_max, const float* chunk_sum, size_t stride, size_t n_chunks,
                  size_t n_rows, float* max, float* sum) {
  HWY_DYNAMIC_DISPATCH(merge_totals)(chunk_max, chunk_sum, stride, n_chunks, n_rows, max, sum);
}

void merge_output(const float* chunk_max, const float* chunk_acc, size_t stride, size_t n_chunks, float max,
                  float sum, size_t head_dim, float* out) {
  HWY_DYNAMIC_DISPATCH(merge_output)(chunk_max, chunk_acc, stride, n_chunks, max, sum, head_dim, out);
}

void add_mass_narrow(const MassTape& tape, const MassRule& rule, size_t n_slots, float* factors,
                     float* mass) {
  HWY_DYNAMIC_DISPATCH(add_mass_narrow)(tape, rule, n_slots, factors, mass);
}

void add_mass_wide(const MassTape& tape, const MassRule& rule, size_t n_slots, float* factors, float* mass) {
  HWY_DYNAMIC_DISPATCH(add_mass_wide)(tape, rule, n_slots, factors, mass);
}

}  // namespace kvase
#endif

// SPDX-License-Identifier: MIT
// Prompts and blocks of tokens: two small matrix products per block of slots, with query rows in vector lanes
// for the logits, so that the softmax over slots needs no horizontal step, and channels in lanes for the
// values.
#include "attention/tile.h"

// Vectors of a size known at run time only cannot lie in arrays.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/wide.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>

#include "attention/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {

// An f32 matrix read with strides.
struct Strided {
  const float* data = nullptr;
  size_t row = 0;   // floats from one row of the product to the next
  size_t step = 0;  // floats from one term of the sum to the next
};

constexpr size_t kTileM = kSums / 2;  // rows of the product in registers, times two vectors

// c[m][lanes] = shrink[m] c[m][lanes] + sum over terms of a[m][term] b[term][lanes], for kTileM rows and
// kVectors vectors. Without shrink, c starts at 0.
template <size_t kVectors>
HWY_INLINE void multiply_tile(const Strided& a, const float* HWY_RESTRICT b, size_t width, size_t n_terms,
                              const float* shrink, float* HWY_RESTRICT c) {
  const Floats d;
  FloatVec sums[kTileM][kVectors];
  for (size_t m = 0; m < kTileM; ++m) {
    for (size_t vec = 0; vec < kVectors; ++vec)
      sums[m][vec] =
          shrink ? hn::Mul(hn::Set(d, shrink[m]), load(c + m * width + vec * kLanes)) : hn::Zero(d);
  }
  for (size_t term = 0; term < n_terms; ++term) {
    FloatVec right[kVectors];
#pragma GCC unroll 2
    for (size_t vec = 0; vec < kVectors; ++vec) right[vec] = load(b + term * width + vec * kLanes);
#pragma GCC unroll 8
    for (size_t m = 0; m < kTileM; ++m) {
      const FloatVec left = hn::Set(d, a.data[m * a.row + term * a.step]);
#pragma GCC unroll 2
      for (size_t vec = 0; vec < kVectors; ++vec) sums[m][vec] = hn::MulAdd(left, right[vec], sums[m][vec]);
    }
  }
  for (size_t m = 0; m < kTileM; ++m) {
    for (size_t vec = 0; vec < kVectors; ++vec) hn::StoreU(sums[m][vec], d, c + m * width + vec * kLanes);
  }
}

// c [width, n_rows] = shrink c + a b. REQUIRES: width a multiple of kLanes, n_rows of kTileM.
void multiply(const Strided& a, size_t n_rows, const float* b, size_t width, size_t n_terms,
              const float* shrink, float* c) {
  size_t column = 0;
  const auto rows = [&](auto tile, size_t n_columns) HWY_ATTR {
    for (; column + n_columns <= width; column += n_columns) {
      for (size_t m = 0; m < n_rows; m += kTileM) {
        tile(Strided{a.data + m * a.row, a.row, a.step}, b + column, width, n_terms,
             shrink ? shrink + m : nullptr, c + m * width + column);
      }
    }
  };
  rows(multiply_tile<2>, 2 * kLanes);
  rows(multiply_tile<1>, kLanes);
}

template <typename T>
void unpack_rows_of(const T* HWY_RESTRICT rows, size_t n, size_t head_dim, size_t width,
                    float* HWY_RESTRICT out) {
  for (size_t slot = 0; slot < n; ++slot, rows += head_dim, out += width) {
    size_t channel = 0;
    for (; channel + kLanes <= head_dim; channel += kLanes)
      hn::StoreU(load(rows + channel), Floats(), out + channel);
    for (; channel < head_dim; ++channel) out[channel] = one(rows + channel);
    std::fill(out + channel, out + width, 0.0F);
  }
}

// out [width, kBlock]: rows as f32, zeros around them.
void unpack_rows(ggml_type type, const std::byte* rows, size_t n, size_t head_dim, size_t width, float* out) {
  if (type == GGML_TYPE_F32) {
    unpack_rows_of(reinterpret_cast<const float*>(rows), n, head_dim, width, out);
  } else if (type == GGML_TYPE_F16) {
    unpack_rows_of(reinterpret_cast<const hwy::float16_t*>(rows), n, head_dim, width, out);
  } else {
    unpack_rows_of(reinterpret_cast<const hwy::bfloat16_t*>(rows), n, head_dim, width, out);
  }
  std::fill(out + n * width, out + kBlock * width, 0.0F);
}

// out [n_rows, width] = scale * q, transposed; zeros around it.
void transpose_queries(const Tile& tile, size_t head_dim, size_t width, size_t n_rows, float* out) {
  std::fill_n(out, width * n_rows, 0.0F);
  for (size_t row = 0; row < tile.n_rows(); ++row) {
    const float* q = tile.q + row / tile.group * tile.token_stride + row % tile.group * head_dim;
    for (size_t channel = 0; channel < head_dim; ++channel)
      out[channel * n_rows + row] = tile.scale * q[channel];
  }
}

// Hides slots younger than their query, and the places past the last slot.
//   logits [n_rows, kBlock]
void mask_block(const int32_t* pos, size_t n, const Tile& tile, size_t n_rows, float* logits) {
  std::fill(logits + n * n_rows, logits + kBlock * n_rows, kMaskedLogit);
  int32_t oldest_query = tile.tokens[0].pos;
  for (size_t token = 1; token < tile.n_tokens; ++token)
    oldest_query = std::min(oldest_query, tile.tokens[token].pos);
  if (newest(pos, n) <= oldest_query) return;
  for (size_t slot = 0; slot < n; ++slot, logits += n_rows) {
    if (pos[slot] <= oldest_query) continue;
    for (size_t row = 0; row < tile.n_rows(); ++row) {
      if (pos[slot] > tile.tokens[row / tile.group].pos) logits[row] = kMaskedLogit;
    }
  }
}

// As in a narrow tile, for kLanes rows at once. shrink may be null.
//   logits [n_rows, kBlock]
void softmax_step(float* HWY_RESTRICT logits, size_t n_rows, float* max, float* sum, float* shrink) {
  const Floats d;
  for (size_t row = 0; row < n_rows; row += kLanes) {
    const FloatVec old_max = load(max + row);
    FloatVec largest = old_max;
    for (size_t slot = 0; slot < kBlock; ++slot)
      largest = hn::Max(largest, load(logits + slot * n_rows + row));
    FloatVec total = hn::Zero(d);
    for (size_t slot = 0; slot < kBlock; ++slot) {
      float* place = logits + slot * n_rows + row;
      const FloatVec weight = exp_nonpositive(hn::Sub(load(place), largest));
      hn::StoreU(weight, d, place);
      total = hn::Add(total, weight);
    }
    const FloatVec factor = exp_nonpositive(hn::Sub(old_max, largest));
    hn::StoreU(largest, d, max + row);
    hn::StoreU(hn::MulAdd(load(sum + row), factor, total), d, sum + row);
    if (shrink) hn::StoreU(factor, d, shrink + row);
  }
}

// The largest logit of each token's group, through a softmax of its own.
void tape_joined(const float* logits, size_t n_rows, const Tile& tile, const MassTape& tape, size_t block) {
  float* joined = tape.weights + block * tape.n_rows * kBlock;
  std::fill_n(joined, tape.n_rows * kBlock, kMaskedLogit);
  for (size_t slot = 0; slot < kBlock; ++slot, logits += n_rows) {
    for (size_t row = 0; row < tile.n_rows(); ++row) {
      float& largest = joined[slot * tape.n_rows + row / tile.group];
      largest = std::max(largest, logits[row]);
    }
  }
  softmax_step(joined, tape.n_rows, tape.joined_max, tape.joined_sum, nullptr);
  std::copy_n(tape.joined_max, tape.n_rows, tape.maxima + block * tape.n_rows);
}

void attend_wide(const KvHead& head, const Tile& tile, size_t first, size_t last, const SoftmaxState& state,
                 const MassTape* tape, const TileScratch& scratch) {
  const size_t n_rows = round_up(tile.n_rows(), kRowPad);
  const size_t width = round_up(head.head_dim, kRowPad);
  const size_t key_bytes = ggml_row_size(head.type_k, static_cast<int64_t>(head.head_dim));
  const size_t value_bytes = ggml_row_size(head.type_v, static_cast<int64_t>(head.head_dim));
  const bool tape_rows = tape && !tape->joined();
  transpose_queries(tile, head.head_dim, width, n_rows, scratch.q);
  for (size_t start = first, block = 0; start < last; start += kBlock, ++block) {
    const size_t n = std::min<size_t>(kBlock, last - start);
    float* weights = tape_rows ? tape->weights + block * n_rows * kBlock : scratch.weights;
    unpack_rows(head.type_k, head.keys + start * key_bytes, n, head.head_dim, width, scratch.keys);
    multiply({scratch.keys, width, 1}, kBlock, scratch.q, n_rows, head.head_dim, nullptr, weights);
    mask_block(head.pos + start, n, tile, n_rows, weights);
    if (tape && tape->joined()) tape_joined(weights, n_rows, tile, *tape, block);
    softmax_step(weights, n_rows, state.max, state.sum, scratch.shrink);
    if (tape_rows) std::copy_n(state.max, n_rows, tape->maxima + block * n_rows);
    if (head.unrotates) {
      for (size_t slot = 0; slot < n; ++slot)
        head.unrotates->unrotate_rows(scratch.keys + slot * width, head.pos + start + slot, 1);
      multiply({weights, 1, n_rows}, n_rows, scratch.keys, width, n, scratch.shrink, state.acc);
    }
    if (!head.values) continue;
    unpack_rows(head.type_v, head.values + start * value_bytes, n, head.head_dim, width, scratch.values);
    multiply({weights, 1, n_rows}, n_rows, scratch.values, width, n, scratch.shrink, state.acc);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvase {

HWY_EXPORT(attend_wide);

void attend_wide(const KvHead& head, const Tile& tile, size_t first, size_t last, const SoftmaxState& state,
                 const MassTape* tape, const TileScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(attend_wide)(head, tile, first, last, state, tape, scratch);
}

}  // namespace kvase
#endif

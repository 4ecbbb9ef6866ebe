// SPDX-License-Identifier: MIT
// Vector loops of attention over contiguous rows; the best instruction set is chosen at run time. All sums
// are f32.
#pragma once

#include <ggml.h>

#include <cstddef>
#include <cstdint>

namespace kvase {

// logits[head * stride + row] = scale * (q_head . k_row).
//   rows  [head_dim, n_rows] of f32, f16 or bf16, contiguous; q f32 [head_dim, n_heads]
void dot_rows(ggml_type type, const std::byte* rows, size_t n_rows, size_t head_dim, const float* q,
              size_t n_heads, float scale, float* logits, size_t stride);

// out[head] = sum over rows of weights[head * stride + row] * v_row.
//   rows as above; out f32 [head_dim, n_heads], overwritten
void weighted_sum_rows(ggml_type type, const std::byte* rows, size_t n_rows, size_t head_dim,
                       const float* weights, size_t stride, size_t n_heads, float* out);

// Largest of n >= 1 values.
float max_value(const float* x, size_t n);

// x <- exp(x - shift); returns the sum. -inf gives 0.
float exp_in_place(float* x, size_t n, float shift);

// The sum of exp(x - shift), x unchanged.
float sum_exp(const float* x, size_t n, float shift);

// out += scale * exp(x - shift).
void add_exp(const float* x, size_t n, float shift, float scale, float* out);

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Stored rows read as f32: what every statistic that is a pass over keys or values starts from.
#pragma once

#include <ggml.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvase {

// Contiguous rows of `head_dim` elements of type f32, f16 or bf16, as Cache::key_rows() gives them.
struct StoredRows {
  ggml_type type = GGML_TYPE_F16;
  const std::byte* data = nullptr;
  uint32_t head_dim = 0;
  // Rows of the first slots that are not stored but rebuilt: f32 [head_dim, n].
  std::span<const float> rebuilt = {};
};

// Rows in f32 are padded with zeros to a multiple of this, so that no kernel has a remainder.
inline constexpr uint32_t kStoredRowPad = 16;
constexpr uint32_t padded_dim(uint32_t head_dim) {
  return (head_dim + kStoredRowPad - 1) / kStoredRowPad * kStoredRowPad;
}

//   out  f32 [n]
void to_f32(ggml_type type, const std::byte* stored, size_t n, float* out);

//   out  f32 [padded_dim, slots.size()], rows in the order of `slots`
void gather_rows(const StoredRows& rows, std::span<const uint32_t> slots, float* out);

}  // namespace kvase

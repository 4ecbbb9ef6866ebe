// SPDX-License-Identifier: MIT
// Conversion by ggml's own loops.
#include "stats/rows.h"

#include <ggml-cpu.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace kvase {

void to_f32(ggml_type type, const std::byte* stored, size_t n, float* out) {
  switch (type) {
    case GGML_TYPE_F32:
      std::memcpy(out, stored, n * sizeof(float));
      return;
    case GGML_TYPE_F16:
      ggml_cpu_fp16_to_fp32(reinterpret_cast<const ggml_fp16_t*>(stored), out, static_cast<int64_t>(n));
      return;
    case GGML_TYPE_BF16:
      ggml_cpu_bf16_to_fp32(reinterpret_cast<const ggml_bf16_t*>(stored), out, static_cast<int64_t>(n));
      return;
    default:
      KVASE_CHECK(false, "no statistic of {} rows", ggml_type_name(type));
  }
}

void gather_rows(const StoredRows& rows, std::span<const uint32_t> slots, float* out) {
  const size_t row_bytes = ggml_row_size(rows.type, rows.head_dim);
  const size_t stride = padded_dim(rows.head_dim);
  for (size_t place = 0; place < slots.size(); ++place) {
    float* row = out + place * stride;
    const size_t start = size_t{slots[place]} * rows.head_dim;
    if (start < rows.rebuilt.size()) {
      std::copy_n(rows.rebuilt.data() + start, rows.head_dim, row);
    } else {
      to_f32(rows.type, rows.data + slots[place] * row_bytes, rows.head_dim, row);
    }
    std::fill(row + rows.head_dim, row + stride, 0.0F);
  }
}

}  // namespace kvase

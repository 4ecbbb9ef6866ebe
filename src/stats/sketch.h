// SPDX-License-Identifier: MIT
// Squared norms of rows after a Gaussian projection: the statistic of CurDKV and VaSE-DKV.
#pragma once

#include <ggml.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "kvase/policy.h"

namespace kvase {

// G [rank, head_dim] in f32, rank fastest and padded with zeros to a multiple of kSketchPad.
inline constexpr uint32_t kSketchPad = 16;
struct SketchMatrix {
  uint32_t head_dim = 0;
  uint32_t padded_rank = 0;
  std::vector<float> g;
};

// The projection of one (seed, sequence, layer, event); without redraw, of event 0.
SketchMatrix make_sketch_matrix(const SketchSpec& spec, const EventContext& event, uint32_t head_dim);

// out[row] = |x_row G|^2.
//   rows  head_dim elements of type f32, f16 or bf16 each, contiguous
void sketch_rows(const SketchMatrix& matrix, ggml_type type, const std::byte* rows, std::span<float> out);

}  // namespace kvase

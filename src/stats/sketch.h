// SPDX-License-Identifier: MIT
// Squared norms of rows after a Gaussian projection: the statistic of CurDKV and VaSE-DKV.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "kvase/policy.h"
#include "stats/rows.h"

namespace kvase {

// G [rank, head_dim] in f32, rank fastest and padded with zeros to a multiple of kSketchPad.
inline constexpr uint32_t kSketchPad = 4;
struct SketchMatrix {
  uint32_t head_dim = 0;
  uint32_t padded_rank = 0;
  std::vector<float> g;
};

// The projection of one (seed, sequence, layer, event); without redraw, of event 0.
SketchMatrix make_sketch_matrix(const SketchSpec& spec, const EventContext& event, uint32_t head_dim);

// out[slot] = |x_slot G|^2 for every slot of `slots`; other elements are left as they are.
void sketch_rows(const SketchMatrix& matrix, const StoredRows& rows, std::span<const uint32_t> slots,
                 std::span<float> out);

}  // namespace kvase

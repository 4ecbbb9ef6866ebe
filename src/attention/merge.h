// SPDX-License-Identifier: MIT
// Joins what the passes over slots left behind: chunks into one softmax, taped weights into attention mass.
// All sums run in a fixed order.
#pragma once

#include <cstddef>

#include "attention/tile.h"

namespace kvase {

// The softmax of every row over all chunks: max and sum.
//   chunk_max, chunk_sum  first chunk's [n_rows]; the next chunk's lie `stride` floats further
void merge_totals(const float* chunk_max, const float* chunk_sum, size_t stride, size_t n_chunks,
                  size_t n_rows, float* max, float* sum);

// out [head_dim] = one row's acc over all chunks, divided by its sum.
//   chunk_max, chunk_acc  the row's in the first chunk; the next chunk's lie `stride` floats further
void merge_output(const float* chunk_max, const float* chunk_acc, size_t stride, size_t n_chunks, float max,
                  float sum, size_t head_dim, float* out);

// How taped rows turn into mass: row r adds weight[r] times its probabilities, whose softmax has max[r] and
// sum[r].
struct MassRule {
  const float* max = nullptr;     // [n_rows] of the tape, in arrays padded to kRowPad
  const float* sum = nullptr;     // the same
  const float* weight = nullptr;  // the same; 0 leaves a row out
};

// mass[slot] += the rows' shares, for slots 0 .. n_slots - 1, which are the tape's blocks 0, 1, ...
//   factors  scratch, the same
void add_mass_narrow(const MassTape& tape, const MassRule& rule, size_t n_slots, float* factors, float* mass);
void add_mass_wide(const MassTape& tape, const MassRule& rule, size_t n_slots, float* factors, float* mass);

}  // namespace kvase

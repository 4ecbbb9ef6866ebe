// SPDX-License-Identifier: MIT
// The unit of attention work: some query rows of one (sequence, KV head) against a run of slots, with the
// state of an online softmax.
//
// Row `token * group + head` of a tile is query head `head` of the group, of the tile's token `token`. Slots
// are taken kBlock at a time; all sums are f32 in a fixed order.
#pragma once

#include <ggml.h>

#include <cstddef>
#include <cstdint>

#include "value_map/rope_table.h"

namespace kvase {

inline constexpr uint32_t kBlock = 64;   // slots that one step of the online softmax takes
inline constexpr uint32_t kRowPad = 16;  // wide tiles pad rows and channels to the widest vector
inline constexpr uint32_t kFewRows = 8;  // most rows of a narrow tile
inline constexpr float kMaskedLogit = -3e38F;
inline constexpr float kNoMaximum =
    -1e30F;  // above kMaskedLogit, so that a masked slot weighs exp(-3e38) = 0

constexpr size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// One token of a step. Tokens of one sequence are consecutive, in order of position.
struct StepToken {
  uint32_t sequence = 0;
  uint32_t offset = 0;  // place among its sequence's tokens in this step; its slot is length + offset
  int32_t pos = 0;
};

// One KV head's rows [head_dim, n_slots], contiguous, and their positions.
struct KvHead {
  ggml_type type_k = GGML_TYPE_F16;
  ggml_type type_v = GGML_TYPE_F16;
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;     // null: weights alone are wanted, acc stays as it is, unless:
  const RopeTable* unrotates = nullptr;  // the keys before RoPE are the values
  const int32_t* pos = nullptr;
  size_t head_dim = 0;
  size_t n_slots = 0;  // that hold a token; no more of them is fetched ahead
};

struct Tile {
  const float* q = nullptr;           // row (token 0, head 0); a token's rows are contiguous
  size_t token_stride = 0;            // floats from one token to the next
  const StepToken* tokens = nullptr;  // [n_tokens]
  size_t n_tokens = 0;
  size_t group = 0;  // query heads
  float scale = 1;   // of q . k

  size_t n_rows() const { return n_tokens * group; }
};

// An online softmax: sum and acc are relative to exp(max).
struct SoftmaxState {
  float* max = nullptr;  // [rows]
  float* sum = nullptr;  // [rows]
  float* acc = nullptr;  // [round_up(head_dim, kRowPad), rows]
};

// What attention mass needs of a pass: the weights of every block, relative to exp(the running maximum at
// that block). Its rows are the tile's rows, or its tokens if `joined`: then a token's logit is the largest
// of its group's. A narrow tile lays a block out as [kBlock, n_rows], a wide one as [n_rows, kBlock].
struct MassTape {
  size_t n_rows = 0;            // padded to kRowPad in a wide tile
  float* weights = nullptr;     // [kBlock * n_rows, n_blocks]
  float* maxima = nullptr;      // [n_rows, n_blocks]
  float* joined_max = nullptr;  // [n_rows], the joined rows' own softmax; null if not joined
  float* joined_sum = nullptr;

  bool joined() const { return joined_max != nullptr; }
};

// Work space of one thread.
struct TileScratch {
  float* q = nullptr;        // [padded head_dim, padded rows]
  float* keys = nullptr;     // [padded head_dim, kBlock]
  float* values = nullptr;   // [padded head_dim, kBlock]
  float* weights = nullptr;  // [kBlock, padded rows]
  float* shrink = nullptr;   // [padded rows]
};

// Both fold slots first .. last - 1 into `state`, and write blocks 0, 1, ... of `tape` unless it is null. A
// slot counts for a token if its position is not behind the token's.

// REQUIRES: at most kFewRows rows; head_dim a multiple of kRowPad. Bound by reading K and V once.
void attend_narrow(const KvHead& head, const Tile& tile, size_t first, size_t last, const SoftmaxState& state,
                   const MassTape* tape, const TileScratch& scratch);

// Any number of rows and any head size. Bound by multiply-adds.
void attend_wide(const KvHead& head, const Tile& tile, size_t first, size_t last, const SoftmaxState& state,
                 const MassTape* tape, const TileScratch& scratch);

}  // namespace kvase

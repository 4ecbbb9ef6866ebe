// SPDX-License-Identifier: MIT
// The attention of one KV head of one sequence's step, in pieces that threads take in any order, and what
// joins them.
//
// A sequence whose query rows fit one tile (decode) is split by slots, into chunks; a longer one (a prompt)
// by tokens, into parts of whole tiles, each over all slots, of which only mass is left to join.
#pragma once

#include <cstdint>

#include "attention/scratch.h"
#include "attention/split.h"
#include "attention/tile.h"
#include "kvase/policy.h"
#include "value_map/value_map.h"

namespace kvase {

inline constexpr uint32_t kTileRows = 32;

// Tokens of a tile, at least one.
constexpr uint32_t tile_tokens(size_t group) {
  return group >= kTileRows ? 1 : kTileRows / static_cast<uint32_t>(group);
}

// Mass rows of one KV head, `stride` floats apart.
struct MassRows {
  float* first = nullptr;
  size_t stride = 0;
  uint32_t count = 0;  // 1, or the group's heads
};

// What stands for the values of approximate slots: a mean, or a map of their keys.
struct ValueStand {
  const float* mean = nullptr;  // [head_dim]
  const LayerMap* map = nullptr;
  const RopeTable* rope = nullptr;  // null if the map does not read keys
  uint32_t kv_head = 0;             // of the map
};

struct HeadWork {
  KvHead head;
  Tile step;             // all of the sequence's tokens in the step
  float* out = nullptr;  // laid out as step.q
  uint32_t length = 0;   // slots in use before the step; token t's slot is length + t
  SlotSplit slots;
  ValueStand stand;  // read if there are approximate slots
  MassSpec mass_spec;
  uint32_t first_mass_query = 0;  // slot of the first query that adds to mass
  MassRows mass;                  // read if the step has queries that add to mass
  float mass_weight = 0;          // of such a query's probabilities
  HeadSpace space;
};

uint32_t n_pieces(const HeadWork& work);

// About how long a piece takes beside the others.
uint64_t piece_cost(const HeadWork& work, uint32_t piece);

// Computes piece 0 .. n_pieces - 1.
void attend_piece(const HeadWork& work, uint32_t piece, const ThreadSpace& space);

// Bring all pieces together, in order: their outputs; their window queries' probabilities, added to mass
// rows. REQUIRES: the pieces are computed.
void join_output(const HeadWork& work, const ThreadSpace& space);
void join_mass(const HeadWork& work, const ThreadSpace& space);

}  // namespace kvase

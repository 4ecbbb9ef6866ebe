// SPDX-License-Identifier: MIT
// The slots that a sequence's step attends to, and where they are split: at borders that depend on that
// sequence's step alone, never on threads or on other sequences, so that neither changes a bit of the result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/tile.h"

namespace kvase {

inline constexpr uint32_t kChunk = 256;  // slots; a multiple of kBlock

// Slots first .. last - 1, and the first one's block among all blocks of the split.
struct SlotRange {
  uint32_t first = 0;
  uint32_t last = 0;
  uint32_t first_block = 0;
};

// The border between candidates and window is a border of chunks and blocks, so that the candidates' weights
// relate to the candidates' own maximum: with the global one, a recent token that dominates would give 0/0.
struct SlotSplit {
  uint32_t n_candidates = 0;  // slots that take mass; 0 if no query of the step adds to it
  uint32_t n_slots = 0;       // candidates included

  static uint32_t chunks(uint32_t n) { return (n + kChunk - 1) / kChunk; }
  static uint32_t blocks(uint32_t n) { return (n + kBlock - 1) / kBlock; }

  uint32_t n_candidate_chunks() const { return chunks(n_candidates); }
  uint32_t n_chunks() const { return n_candidate_chunks() + chunks(n_slots - n_candidates); }

  SlotRange candidates() const { return {0, n_candidates, 0}; }
  SlotRange window() const { return {n_candidates, n_slots, blocks(n_candidates)}; }
  SlotRange chunk(uint32_t index) const {
    const bool is_candidate = index < n_candidate_chunks();
    const SlotRange all = is_candidate ? candidates() : window();
    const uint32_t offset = kChunk * (is_candidate ? index : index - n_candidate_chunks());
    return {all.first + offset, std::min(all.first + offset + kChunk, all.last),
            all.first_block + offset / kBlock};
  }
};

}  // namespace kvase

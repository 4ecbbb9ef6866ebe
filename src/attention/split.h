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

  uint32_t size() const { return last - first; }
};

// Approximate slots come first, then exact candidates, then the window. The borders between them are borders
// of chunks and blocks: values of approximate slots are summed apart, and the candidates' weights relate to
// the candidates' own maximum: with the global one, a recent token that dominates would give 0/0.
struct SlotSplit {
  uint32_t n_approximate = 0;  // all of them candidates
  uint32_t n_candidates = 0;   // slots that take mass, approximate ones included; 0 if no query adds to it
  uint32_t n_slots = 0;        // candidates included

  static uint32_t chunks(uint32_t n) { return (n + kChunk - 1) / kChunk; }
  static uint32_t blocks(uint32_t n) { return (n + kBlock - 1) / kBlock; }

  SlotRange approximate() const { return {0, n_approximate, 0}; }
  SlotRange exact_candidates() const {
    return {n_approximate, std::max(n_candidates, n_approximate), blocks(n_approximate)};
  }
  SlotRange rest() const { return behind(exact_candidates(), n_slots); }

  uint32_t n_approximate_chunks() const { return chunks(n_approximate); }
  uint32_t n_candidate_chunks() const { return n_approximate_chunks() + chunks(exact_candidates().size()); }
  uint32_t n_chunks() const { return n_candidate_chunks() + chunks(rest().size()); }

  SlotRange chunk(uint32_t index) const {
    if (index < n_approximate_chunks()) return part(approximate(), index);
    if (index < n_candidate_chunks()) return part(exact_candidates(), index - n_approximate_chunks());
    return part(rest(), index - n_candidate_chunks());
  }

 private:
  static SlotRange behind(const SlotRange& range, uint32_t last) {
    return {range.last, last, range.first_block + blocks(range.size())};
  }
  static SlotRange part(const SlotRange& range, uint32_t chunk) {
    const uint32_t first = range.first + chunk * kChunk;
    return {first, std::min(first + kChunk, range.last), range.first_block + chunk * (kChunk / kBlock)};
  }
};

}  // namespace kvase

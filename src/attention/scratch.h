// SPDX-License-Identifier: MIT
// All working memory of attention, allocated once: tiles per thread, partial results and tapes per (sequence,
// KV head). Layers run one after the other and share it.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>

#include "attention/tile.h"

namespace kvase {

struct ScratchDims {
  size_t n_threads = 0;
  size_t n_sequences = 0;
  size_t n_kv_heads = 0;
  size_t head_dim = 0;
  size_t tile_rows = 0;  // a multiple of kRowPad
  size_t max_slots = 0;
  bool keeps_mass = false;
};

// The softmax of a tile's rows over some slots, and of its joined rows (see MassTape).
struct Partial {
  SoftmaxState state;
  float* joined_max = nullptr;  // [tile_rows]
  float* joined_sum = nullptr;  // [tile_rows]
};

struct TapeMemory {
  float* weights = nullptr;  // [kBlock * tile_rows, max_blocks]; null if mass is not kept
  float* maxima = nullptr;   // [tile_rows, max_blocks]
};

struct ThreadSpace {
  TileScratch tile;
  Partial partial;
  TapeMemory tape;
  float* max = nullptr;  // [tile_rows] each
  float* sum = nullptr;
  float* weights = nullptr;
  float* factors = nullptr;
};

struct HeadSpace {
  Partial first;              // of chunk 0
  size_t partial_stride = 0;  // floats from one chunk's partial result to the next
  size_t width = 0;           // floats of a row of acc: head_dim padded to kRowPad
  TapeMemory tape;

  Partial partial(size_t chunk) const {
    const size_t offset = chunk * partial_stride;
    return {.state = {first.state.max + offset, first.state.sum + offset, first.state.acc + offset},
            .joined_max = first.joined_max + offset,
            .joined_sum = first.joined_sum + offset};
  }
};

class Scratch {
 public:
  // Throws Error(out_of_memory).
  explicit Scratch(const ScratchDims& dims);

  ThreadSpace thread(size_t index) const;
  HeadSpace head(size_t sequence, size_t kv_head) const;
  size_t bytes() const { return n_floats_ * sizeof(float); }

 private:
  Partial partial_at(float* first) const;
  TapeMemory tape_at(float* first) const;
  size_t partial_stride() const { return (width_ + 4) * dims_.tile_rows; }
  size_t tape_floats() const { return dims_.keeps_mass ? max_blocks_ * (kBlock + 1) * dims_.tile_rows : 0; }
  size_t thread_floats() const;
  size_t head_floats() const { return max_chunks_ * partial_stride() + tape_floats(); }

  ScratchDims dims_;
  size_t width_;       // padded head_dim
  size_t max_blocks_;  // of a tape
  size_t max_chunks_;
  size_t n_floats_;
  hwy::AlignedFreeUniquePtr<float[]> memory_;
};

}  // namespace kvase

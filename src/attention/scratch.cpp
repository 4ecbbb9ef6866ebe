// SPDX-License-Identifier: MIT
// The layout of attention's working memory.
#include "attention/scratch.h"

#include <algorithm>

#include "attention/split.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/sizes.h"

namespace kvase {

// Two blocks and chunks more than the slots need: the borders of the approximate slots and of the window each
// split one.
Scratch::Scratch(const ScratchDims& dims)
    : dims_(dims),
      width_(round_up(dims.head_dim, kRowPad)),
      max_blocks_((dims.max_slots + kBlock - 1) / kBlock + 2),
      max_chunks_((dims.max_slots + kChunk - 1) / kChunk + 2),
      n_floats_(checked_sum(
          checked_product({dims.n_threads, thread_floats()}, "attention scratch"),
          checked_product({dims.n_sequences, dims.n_kv_heads, head_floats()}, "attention scratch"),
          "attention scratch")),
      memory_(hwy::AllocateAligned<float>(n_floats_)) {
  if (!memory_) fail(ErrorCode::out_of_memory, "attention: cannot allocate {} bytes of scratch", bytes());
  advise_huge_pages(memory_.get(), bytes());
  std::fill_n(memory_.get(), n_floats_, 0.0F);
}

size_t Scratch::thread_floats() const {
  const size_t tile = width_ * (dims_.tile_rows + 2 * kBlock) + (kBlock + 5) * dims_.tile_rows;
  return tile + partial_stride() + tape_floats();
}

ThreadSpace Scratch::thread(size_t index) const {
  float* next = memory_.get() + index * thread_floats();
  const auto take = [&next](size_t n) {
    float* taken = next;
    next += n;
    return taken;
  };
  ThreadSpace space;
  space.tile = {.q = take(width_ * dims_.tile_rows),
                .keys = take(width_ * kBlock),
                .values = take(width_ * kBlock),
                .weights = take(kBlock * dims_.tile_rows),
                .shrink = take(dims_.tile_rows)};
  space.max = take(dims_.tile_rows);
  space.sum = take(dims_.tile_rows);
  space.weights = take(dims_.tile_rows);
  space.factors = take(dims_.tile_rows);
  space.partial = partial_at(take(partial_stride()));
  space.tape = tape_at(next);
  return space;
}

HeadSpace Scratch::head(size_t sequence, size_t kv_head) const {
  float* first = memory_.get() + dims_.n_threads * thread_floats() +
                 (sequence * dims_.n_kv_heads + kv_head) * head_floats();
  return {.first = partial_at(first),
          .partial_stride = partial_stride(),
          .width = width_,
          .tape = tape_at(first + max_chunks_ * partial_stride())};
}

Partial Scratch::partial_at(float* first) const {
  const size_t rows = dims_.tile_rows;
  return {.state = {.max = first, .sum = first + rows, .acc = first + 4 * rows},
          .joined_max = first + 2 * rows,
          .joined_sum = first + 3 * rows};
}

TapeMemory Scratch::tape_at(float* first) const {
  if (!dims_.keeps_mass) return {};
  return {.weights = first, .maxima = first + max_blocks_ * kBlock * dims_.tile_rows};
}

}  // namespace kvase

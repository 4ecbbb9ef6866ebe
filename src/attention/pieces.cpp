// SPDX-License-Identifier: MIT
// Chunks of slots and parts of tokens.
#include "attention/pieces.h"

#include <algorithm>
#include <cmath>

#include "attention/merge.h"

namespace kvase {
namespace {

bool fits_tile(const HeadWork& work) { return work.step.n_tokens <= tile_tokens(work.step.group); }

bool is_narrow(const HeadWork& work) {
  return work.step.n_rows() <= kFewRows && work.head.head_dim % kRowPad == 0;
}

bool adds_mass(const HeadWork& work, size_t token) {
  return work.slots.n_candidates > 0 && work.length + token >= work.first_mass_query;
}

void start(const Partial& partial, size_t n_rows, size_t width) {
  std::fill_n(partial.state.max, n_rows, kNoMaximum);
  std::fill_n(partial.state.sum, n_rows, 0.0F);
  std::fill_n(partial.state.acc, n_rows * width, 0.0F);
  std::fill_n(partial.joined_max, n_rows, kNoMaximum);
  std::fill_n(partial.joined_sum, n_rows, 0.0F);
}

bool joins_group(const HeadWork& work) { return work.mass_spec.group == MassSpec::Group::max_logit; }

MassTape from_block(MassTape tape, uint32_t block) {
  tape.weights += block * tape.n_rows * kBlock;
  tape.maxima += block * tape.n_rows;
  return tape;
}

MassTape tape_from(const HeadWork& work, const Tile& tile, bool narrow, const TapeMemory& memory,
                   const Partial& partial, uint32_t first_block) {
  MassTape tape = {.n_rows = 0, .weights = memory.weights, .maxima = memory.maxima};
  const size_t rows = joins_group(work) ? tile.n_tokens : tile.n_rows();
  tape.n_rows = narrow ? rows : round_up(rows, kRowPad);
  if (joins_group(work)) {
    tape.joined_max = partial.joined_max;
    tape.joined_sum = partial.joined_sum;
  }
  return from_block(tape, first_block);
}

// Adds the queries' probabilities over the first n_slots candidates to mass rows.
//   tape         all blocks; space.max, space.sum hold its rows' softmax over the domain
//   first_token  the tile's, in the step
void add_mass(const HeadWork& work, const Tile& tile, size_t first_token, bool narrow, const MassTape& tape,
              uint32_t n_slots, const MassRows& mass, const ThreadSpace& space) {
  const size_t heads = tape.joined() ? 1 : tile.group;
  const float weight = work.mass_spec.group == MassSpec::Group::mean
                           ? work.mass_weight / static_cast<float>(tile.group)
                           : work.mass_weight;
  const MassRule rule = {space.max, space.sum, space.weights};
  const auto add = narrow ? add_mass_narrow : add_mass_wide;
  for (uint32_t mass_row = 0; mass_row < mass.count; ++mass_row) {
    std::fill_n(space.weights, tape.n_rows, 0.0F);
    for (size_t row = 0; row < tile.n_tokens * heads; ++row) {
      const bool is_counted = mass.count == 1 || row % heads == mass_row;
      if (is_counted && adds_mass(work, first_token + row / heads)) space.weights[row] = weight;
    }
    for (SlotRange slots : {work.slots.approximate(), work.slots.exact_candidates()}) {
      slots.last = std::min(slots.last, n_slots);
      if (slots.size() == 0) continue;
      add(from_block(tape, slots.first_block), rule, slots.size(), space.factors,
          mass.first + mass_row * mass.stride + slots.first);
    }
  }
}

// Approximate slots have no values to add, but perhaps keys.
void attend_range(const HeadWork& work, const Tile& tile, bool narrow, const SlotRange& slots,
                  const Partial& partial, const MassTape* tape, const ThreadSpace& space) {
  const auto attend = narrow ? attend_narrow : attend_wide;
  KvHead head = work.head;
  if (slots.first < work.slots.n_approximate) {
    head.values = nullptr;
    head.unrotates = work.stand.rope;
  }
  attend(head, tile, slots.first, slots.last, partial.state, tape, space.tile);
}

void attend_chunk(const HeadWork& work, uint32_t chunk, const ThreadSpace& space) {
  const bool narrow = is_narrow(work);
  const SlotRange slots = work.slots.chunk(chunk);
  const Partial partial = work.space.partial(chunk);
  start(partial, narrow ? work.step.n_rows() : round_up(work.step.n_rows(), kRowPad), work.space.width);
  if (work.slots.n_candidates > 0) {
    const MassTape tape = tape_from(work, work.step, narrow, work.space.tape, partial, slots.first_block);
    attend_range(work, work.step, narrow, slots, partial, &tape, space);
  } else {
    attend_range(work, work.step, narrow, slots, partial, nullptr, space);
  }
}

// Row `row` of the step, in the output.
float* output_row(const HeadWork& work, size_t row) {
  return work.out + row / work.step.group * work.step.token_stride +
         row % work.step.group * work.head.head_dim;
}

// out += what stands for the approximate slots' values, times their weights.
//   sum_keys    [head_dim], their keys before RoPE times their weights; read if the map reads keys
//   sum_weight  of their weights
void add_rebuilt(const ValueStand& stand, size_t head_dim, const float* sum_keys, float sum_weight,
                 float* out) {
  if (stand.map) {
    apply(*stand.map, stand.kv_head, sum_keys, sum_weight, out);
    return;
  }
  for (size_t channel = 0; channel < head_dim; ++channel) out[channel] += sum_weight * stand.mean[channel];
}

// Adds the approximate slots to every row of the output.
void join_approximate(const HeadWork& work, const ThreadSpace& space) {
  const Partial first = work.space.partial(0);
  float* max = space.weights;
  float* sum = space.factors;
  const uint32_t n_chunks = work.slots.n_approximate_chunks();
  merge_totals(first.state.max, first.state.sum, work.space.partial_stride, n_chunks, work.step.n_rows(), max,
               sum);
  for (size_t row = 0; row < work.step.n_rows(); ++row) {
    const float share = sum[row] * std::exp(max[row] - space.max[row]) / space.sum[row];
    if (work.stand.rope) {
      merge_output(first.state.max + row, first.state.acc + row * work.space.width, work.space.partial_stride,
                   n_chunks, space.max[row], space.sum[row], work.head.head_dim, space.tile.q);
    }
    add_rebuilt(work.stand, work.head.head_dim, space.tile.q, share, output_row(work, row));
  }
}

void join_chunks(const HeadWork& work, const ThreadSpace& space) {
  const Tile& tile = work.step;
  const size_t stride = work.space.partial_stride;
  const Partial first = work.space.partial(0);
  merge_totals(first.state.max, first.state.sum, stride, work.slots.n_chunks(), tile.n_rows(), space.max,
               space.sum);
  const uint32_t n_approximate = work.slots.n_approximate_chunks();
  const Partial exact = work.space.partial(n_approximate);
  for (size_t row = 0; row < tile.n_rows(); ++row) {
    merge_output(exact.state.max + row, exact.state.acc + row * work.space.width, stride,
                 work.slots.n_chunks() - n_approximate, space.max[row], space.sum[row], work.head.head_dim,
                 output_row(work, row));
  }
  if (n_approximate > 0) join_approximate(work, space);
}

void join_chunk_mass(const HeadWork& work, const ThreadSpace& space) {
  const Tile& tile = work.step;
  const size_t stride = work.space.partial_stride;
  const Partial first = work.space.partial(0);
  const MassTape tape = tape_from(work, tile, is_narrow(work), work.space.tape, first, 0);
  const bool over_candidates = work.mass_spec.domain == MassSpec::Domain::candidates;
  merge_totals(tape.joined() ? tape.joined_max : first.state.max,
               tape.joined() ? tape.joined_sum : first.state.sum, stride,
               over_candidates ? work.slots.n_candidate_chunks() : work.slots.n_chunks(),
               tape.joined() ? tile.n_tokens : tile.n_rows(), space.max, space.sum);
  add_mass(work, tile, 0, is_narrow(work), tape, work.slots.n_candidates, work.mass, space);
}

uint32_t n_tiles(const HeadWork& work) {
  const uint32_t tokens = tile_tokens(work.step.group);
  return (static_cast<uint32_t>(work.step.n_tokens) + tokens - 1) / tokens;
}

// Every part adds to mass rows of its own, which take the place of the tape that chunks would need: one row
// of slots per row of a tile. That bounds the number of parts.
uint32_t n_parts(const HeadWork& work) {
  const size_t tile_rows = round_up(tile_tokens(work.step.group) * work.step.group, kRowPad);
  const auto most = static_cast<uint32_t>(tile_rows / std::max(work.mass.count, 1U));
  return std::min(n_tiles(work), most);
}

uint32_t first_tile(const HeadWork& work, uint32_t part) { return n_tiles(work) * part / n_parts(work); }

MassRows part_mass(const HeadWork& work, uint32_t part) {
  const size_t stride = work.mass.stride;
  return {work.space.tape.weights + part * work.mass.count * stride, stride, work.mass.count};
}

// The softmax that mass is relative to, once the slots of its domain are in.
void keep_totals(const MassTape& tape, const Partial& partial, const ThreadSpace& space) {
  std::copy_n(tape.joined() ? tape.joined_max : partial.state.max, tape.n_rows, space.max);
  std::copy_n(tape.joined() ? tape.joined_sum : partial.state.sum, tape.n_rows, space.sum);
}

void write_output(const HeadWork& work, const Tile& tile, size_t first_token, const Partial& partial) {
  for (size_t row = 0; row < tile.n_rows(); ++row) {
    const float* acc = partial.state.acc + row * work.space.width;
    float* out = output_row(work, first_token * tile.group + row);
    for (size_t channel = 0; channel < work.head.head_dim; ++channel)
      out[channel] = acc[channel] / partial.state.sum[row];
  }
}

// Once a tile's rows have been through the approximate slots and nothing else: from weights to values.
void rebuild(const HeadWork& work, size_t n_rows, const Partial& partial, const ThreadSpace& space) {
  for (size_t row = 0; row < n_rows; ++row) {
    float* acc = partial.state.acc + row * work.space.width;
    std::copy_n(acc, work.head.head_dim, space.tile.q);
    std::fill_n(acc, work.head.head_dim, 0.0F);
    add_rebuilt(work.stand, work.head.head_dim, space.tile.q, partial.state.sum[row], acc);
  }
}

void attend_tile(const HeadWork& work, uint32_t tile_index, const MassRows& mass, const ThreadSpace& space) {
  const uint32_t first_token = tile_index * tile_tokens(work.step.group);
  Tile tile = work.step;
  tile.q += first_token * tile.token_stride;
  tile.tokens += first_token;
  tile.n_tokens = std::min<size_t>(tile_tokens(tile.group), work.step.n_tokens - first_token);
  const auto end = static_cast<uint32_t>(work.length + first_token + tile.n_tokens);
  const bool takes_mass = adds_mass(work, first_token + tile.n_tokens - 1);
  start(space.partial, round_up(tile.n_rows(), kRowPad), work.space.width);
  const auto attend = [&](const SlotRange& slots) {
    const MassTape tape = tape_from(work, tile, false, space.tape, space.partial, slots.first_block);
    attend_range(work, tile, false, slots, space.partial, takes_mass ? &tape : nullptr, space);
  };
  if (work.slots.n_approximate > 0) {
    attend(work.slots.approximate());
    rebuild(work, tile.n_rows(), space.partial, space);
  }
  SlotRange rest = work.slots.rest();
  rest.last = end;
  if (!takes_mass) {
    attend({work.slots.n_approximate, end, 0});
  } else {
    const bool over_candidates = work.mass_spec.domain == MassSpec::Domain::candidates;
    const MassTape tape = tape_from(work, tile, false, space.tape, space.partial, 0);
    SlotRange candidates = work.slots.exact_candidates();
    candidates.last = std::min(candidates.last, end);
    attend(candidates);
    if (over_candidates) keep_totals(tape, space.partial, space);
    attend(rest);
    if (!over_candidates) keep_totals(tape, space.partial, space);
    add_mass(work, tile, first_token, false, tape, candidates.last, mass, space);
  }
  write_output(work, tile, first_token, space.partial);
}

// True if a tile of the part holds a query that adds to mass.
bool part_takes_mass(const HeadWork& work, uint32_t part) {
  const uint32_t tokens = std::min<uint32_t>(first_tile(work, part + 1) * tile_tokens(work.step.group),
                                             static_cast<uint32_t>(work.step.n_tokens));
  return adds_mass(work, tokens - 1);
}

void attend_part(const HeadWork& work, uint32_t part, const ThreadSpace& space) {
  MassRows mass;
  if (part_takes_mass(work, part)) {
    mass = part_mass(work, part);
    std::fill_n(mass.first, mass.count * mass.stride, 0.0F);
  }
  for (uint32_t tile = first_tile(work, part); tile < first_tile(work, part + 1); ++tile)
    attend_tile(work, tile, mass, space);
}

void join_part_mass(const HeadWork& work) {
  for (uint32_t part = 0; part < n_parts(work); ++part) {
    if (!part_takes_mass(work, part)) continue;
    const MassRows share = part_mass(work, part);
    for (uint32_t row = 0; row < share.count; ++row) {
      const float* from = share.first + row * share.stride;
      float* to = work.mass.first + row * share.stride;
      for (uint32_t slot = 0; slot < work.slots.n_candidates; ++slot) to[slot] += from[slot];
    }
  }
}

}  // namespace

uint32_t n_pieces(const HeadWork& work) { return fits_tile(work) ? work.slots.n_chunks() : n_parts(work); }

// Per slot and query row 3 for both products, 2 for logits alone, 4 where keys are un-rotated: measured with
// a group of 3 and a head size of 64.
uint64_t piece_cost(const HeadWork& work, uint32_t piece) {
  if (!fits_tile(work)) {
    const uint32_t n_tiles_in = first_tile(work, piece + 1) - first_tile(work, piece);
    return uint64_t{3} * n_tiles_in * tile_tokens(work.step.group) * work.step.group * work.slots.n_slots;
  }
  const SlotRange slots = work.slots.chunk(piece);
  const bool is_exact = slots.first >= work.slots.n_approximate;
  const uint64_t per_slot = is_exact ? 3 : work.stand.rope ? 4 : 2;
  return per_slot * slots.size() * work.step.n_rows();
}

void attend_piece(const HeadWork& work, uint32_t piece, const ThreadSpace& space) {
  if (fits_tile(work)) {
    attend_chunk(work, piece, space);
  } else {
    attend_part(work, piece, space);
  }
}

// Parts have written their outputs themselves.
void join_output(const HeadWork& work, const ThreadSpace& space) {
  if (fits_tile(work)) join_chunks(work, space);
}

void join_mass(const HeadWork& work, const ThreadSpace& space) {
  if (work.slots.n_candidates == 0) return;
  if (fits_tile(work)) {
    join_chunk_mass(work, space);
  } else {
    join_part_mass(work);
  }
}

}  // namespace kvase

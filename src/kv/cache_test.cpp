// SPDX-License-Identifier: MIT
// The cache keeps rows, positions and nothing else, through appends and compactions of every shape.
#include "kv/cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"
#include "tensor/compute.h"

namespace kvase {
namespace {

constexpr uint32_t kHeadDim = 8;

float key_of(int32_t pos, uint32_t kv_head, uint32_t channel) {
  return static_cast<float>(pos * 4 + static_cast<int32_t>(kv_head)) + 0.125F * static_cast<float>(channel);
}

struct Fixture {
  explicit Fixture(uint32_t capacity, uint32_t n_sequences = 2)
      : arena(2 * Cache::kTensorsPerLayer),
        cache(arena, {.n_layers = 2,
                      .n_kv_heads = 3,
                      .head_dim = kHeadDim,
                      .n_sequences = n_sequences,
                      .capacity = {capacity, capacity + 3},
                      .type_k = GGML_TYPE_F32,
                      .type_v = GGML_TYPE_F16}) {
    arena.allocate(compute.backend());
  }

  void append(uint32_t layer, uint32_t sequence, int32_t pos) {
    for (uint32_t kv_head = 0; kv_head < 3; ++kv_head) {
      std::vector<float> key(kHeadDim);
      std::vector<float> value(kHeadDim);
      for (uint32_t channel = 0; channel < kHeadDim; ++channel) {
        key[channel] = key_of(pos, kv_head, channel);
        value[channel] = -static_cast<float>(pos);
      }
      cache.append_row(layer, sequence, kv_head, cache.length(layer, sequence), pos, key.data(),
                       value.data());
    }
    cache.commit(layer, sequence, 1);
  }

  // Every slot in use holds the row that belongs to its position.
  void expect_rows_follow_positions(uint32_t layer, uint32_t sequence) const {
    for (uint32_t kv_head = 0; kv_head < 3; ++kv_head) {
      const auto* keys = reinterpret_cast<const float*>(cache.key_rows(layer, sequence, kv_head));
      const auto* values = reinterpret_cast<const ggml_fp16_t*>(cache.value_rows(layer, sequence, kv_head));
      for (uint32_t slot = 0; slot < cache.length(layer, sequence); ++slot) {
        const int32_t pos = cache.pos(layer, sequence, kv_head)[slot];
        EXPECT_EQ(keys[slot * kHeadDim + 5], key_of(pos, kv_head, 5)) << "slot " << slot;
        EXPECT_EQ(ggml_fp16_to_fp32(values[slot * kHeadDim]), -static_cast<float>(pos)) << "slot " << slot;
      }
    }
  }

  std::set<int32_t> positions(uint32_t layer, uint32_t sequence, uint32_t kv_head) const {
    const auto all = cache.pos(layer, sequence, kv_head);
    return {all.begin(), all.begin() + cache.length(layer, sequence)};
  }

  Compute compute{1};
  Arena arena;
  Cache cache;
};

TEST(Cache, BytesAreRowsAndPositionsAndNothingElse) {
  const Fixture f(10);
  const size_t slots = (10 + 13) * 3 * 2;
  EXPECT_EQ(f.cache.kv_bytes(), slots * kHeadDim * (sizeof(float) + sizeof(ggml_fp16_t)));
  EXPECT_EQ(f.cache.pos_bytes(), slots * sizeof(int32_t));
  EXPECT_EQ(f.arena.bytes(), f.cache.kv_bytes() + f.cache.pos_bytes());
}

TEST(Cache, HeadsDropDifferentSlotsAndRowsFollow) {
  Fixture f(10);
  for (int32_t pos = 0; pos < 10; ++pos) f.append(0, 1, pos);
  const std::vector<std::vector<uint32_t>> drops = {{0, 1, 2}, {7, 8, 9}, {0, 5, 9}};
  const auto moves = f.cache.compact(0, 1, drops);
  EXPECT_EQ(f.cache.length(0, 1), 7U);
  EXPECT_EQ(f.cache.length(1, 1), 0U) << "another layer";
  EXPECT_EQ(f.cache.length(0, 0), 0U) << "another sequence";
  EXPECT_EQ(moves.size(), 3U + 0U + 2U) << "only holes are filled";
  EXPECT_EQ(f.positions(0, 1, 0), (std::set<int32_t>{3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(f.positions(0, 1, 1), (std::set<int32_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(f.positions(0, 1, 2), (std::set<int32_t>{1, 2, 3, 4, 6, 7, 8}));
  f.expect_rows_follow_positions(0, 1);
}

TEST(Cache, DroppingNothingOrEverythingIsExact) {
  Fixture f(10);
  for (int32_t pos = 0; pos < 4; ++pos) f.append(0, 0, pos);
  EXPECT_TRUE(f.cache.compact(0, 0, std::vector<std::vector<uint32_t>>(3)).empty());
  EXPECT_EQ(f.cache.length(0, 0), 4U);
  EXPECT_TRUE(f.cache.compact(0, 0, std::vector<std::vector<uint32_t>>(3, {0, 1, 2, 3})).empty());
  EXPECT_EQ(f.cache.length(0, 0), 0U);
}

// Many events with random verdicts, against a plain map from position to presence.
TEST(Cache, ManyRandomEventsMatchAModel) {
  constexpr uint32_t kCapacity = 13;
  Fixture f(kCapacity, 1);
  std::vector<std::set<int32_t>> model(3);
  int32_t pos = 0;
  for (uint32_t event = 0; event < 300; ++event) {
    while (f.cache.length(0, 0) < kCapacity) {
      for (auto& kept : model) kept.insert(pos);
      f.append(0, 0, pos++);
    }
    const uint32_t n_drop = 1 + event % (kCapacity - 1);
    std::vector<std::vector<uint32_t>> drops(3);
    for (uint32_t kv_head = 0; kv_head < 3; ++kv_head) {
      std::map<double, uint32_t> shuffled;
      for (uint32_t slot = 0; slot < kCapacity; ++slot) {
        shuffled[noise_uniform({.seed = 7, .head = kv_head, .event = event}, NoiseStream::race, slot)] = slot;
      }
      for (const auto& [key, slot] : shuffled) {
        if (drops[kv_head].size() < n_drop) drops[kv_head].push_back(slot);
      }
      std::ranges::sort(drops[kv_head]);
      for (const uint32_t slot : drops[kv_head]) model[kv_head].erase(f.cache.pos(0, 0, kv_head)[slot]);
    }
    const auto moves = f.cache.compact(0, 0, drops);
    EXPECT_LE(moves.size(), size_t{3} * n_drop) << "never more moves than drops";
    for (uint32_t kv_head = 0; kv_head < 3; ++kv_head) EXPECT_EQ(f.positions(0, 0, kv_head), model[kv_head]);
    f.expect_rows_follow_positions(0, 0);
  }
}

TEST(Cache, ClearFreesOneSequenceOnly) {
  Fixture f(10);
  f.append(0, 0, 0);
  f.append(0, 1, 0);
  f.cache.clear(0);
  EXPECT_EQ(f.cache.length(0, 0), 0U);
  EXPECT_EQ(f.cache.length(0, 1), 1U);
}

}  // namespace
}  // namespace kvase

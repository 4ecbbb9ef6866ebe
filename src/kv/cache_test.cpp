// SPDX-License-Identifier: MIT
// The cache keeps rows, positions and nothing else, through appends and compactions of every shape.
#include "kv/cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

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
      : Fixture({.n_layers = 2,
                 .n_kv_heads = 3,
                 .head_dim = kHeadDim,
                 .n_sequences = n_sequences,
                 .capacity = {capacity, capacity + 3},
                 .type_k = GGML_TYPE_F32,
                 .type_v = GGML_TYPE_F16}) {}
  explicit Fixture(const CacheDims& dims)
      : arena(dims.n_layers * Cache::kTensorsPerLayer), cache(arena, dims) {
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
  EXPECT_EQ(f.cache.side_bytes(), slots * sizeof(int32_t));
  EXPECT_EQ(f.arena.bytes(), f.cache.kv_bytes() + f.cache.side_bytes());
}

TEST(Cache, HeadsDropDifferentSlotsAndRowsFollow) {
  Fixture f(10);
  for (int32_t pos = 0; pos < 10; ++pos) f.append(0, 1, pos);
  const std::vector<HeadVerdict> drops = {{{0, 1, 2}, {}, {}}, {{7, 8, 9}, {}, {}}, {{0, 5, 9}, {}, {}}};
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
  EXPECT_TRUE(f.cache.compact(0, 0, std::vector<HeadVerdict>(3)).empty());
  EXPECT_EQ(f.cache.length(0, 0), 4U);
  EXPECT_TRUE(f.cache.compact(0, 0, std::vector<HeadVerdict>(3, {{0, 1, 2, 3}, {}, {}})).empty());
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
    std::vector<HeadVerdict> verdicts(3);
    for (uint32_t kv_head = 0; kv_head < 3; ++kv_head) {
      std::map<double, uint32_t> shuffled;
      for (uint32_t slot = 0; slot < kCapacity; ++slot) {
        shuffled[noise_uniform({.seed = 7, .head = kv_head, .event = event}, NoiseStream::race, slot)] = slot;
      }
      for (const auto& [key, slot] : shuffled) {
        if (verdicts[kv_head].drop.size() < n_drop) verdicts[kv_head].drop.push_back(slot);
      }
      std::ranges::sort(verdicts[kv_head].drop);
      for (const uint32_t slot : verdicts[kv_head].drop)
        model[kv_head].erase(f.cache.pos(0, 0, kv_head)[slot]);
    }
    const auto moves = f.cache.compact(0, 0, verdicts);
    EXPECT_LE(moves.size(), size_t{3} * n_drop) << "never more moves than drops";
    for (uint32_t kv_head = 0; kv_head < 3; ++kv_head) EXPECT_EQ(f.positions(0, 0, kv_head), model[kv_head]);
    f.expect_rows_follow_positions(0, 0);
  }
}

// ---- approximate tier

constexpr uint32_t kBudget = 20, kInterval = 7;

CacheDims tier_dims(ggml_type type) {
  return {.n_layers = 2,
          .n_kv_heads = 3,
          .head_dim = kHeadDim,
          .n_sequences = 2,
          .capacity = {kBudget + kInterval, kBudget + kInterval + 3},
          .type_k = type,
          .type_v = type,
          .n_recruits = {kBudget / 2, 4}};
}

TEST(CacheTier, TakesTheBytesOfTheCacheWithout) {
  CacheDims dims = tier_dims(GGML_TYPE_F16);
  const Fixture tier(dims);
  dims.n_recruits.clear();
  const Fixture plain(dims);
  EXPECT_EQ(tier.cache.kv_bytes(), plain.cache.kv_bytes());
  const size_t heads = size_t{3} * 2;
  EXPECT_EQ(tier.cache.side_bytes() - plain.cache.side_bytes(),
            heads * (sizeof(int32_t) * (kBudget / 2 + 4) + 2 * (kHeadDim * sizeof(float) + sizeof(int32_t))));
}

// What one head should hold: positions, and which of them still have a value.
struct TierModel {
  std::map<int32_t, bool> has_value;
  std::set<int32_t> dropped;
  double value_sum = 0;
  uint32_t n_values = 0;
};

// Random slots of first .. last - 1, ascending.
std::vector<uint32_t> draw(uint32_t first, uint32_t last, uint32_t n, uint32_t kv_head, uint32_t event) {
  std::map<double, uint32_t> shuffled;
  for (uint32_t slot = first; slot < last; ++slot) {
    shuffled[noise_uniform({.seed = 9, .head = kv_head, .event = event}, NoiseStream::race, slot)] = slot;
  }
  std::vector<uint32_t> slots;
  for (const auto& [key, slot] : shuffled) {
    if (slots.size() < n) slots.push_back(slot);
  }
  std::ranges::sort(slots);
  return slots;
}

// A verdict that leaves kBudget + r slots, 2 r of them approximate, dropping `n_gone` of the approximate
// ones.
HeadVerdict random_verdict(uint32_t length, uint32_t n_approximate, uint32_t r, uint32_t kv_head,
                           uint32_t event) {
  const uint32_t n_drop = length - kBudget - r;
  const uint32_t n_gone = std::min({n_approximate, n_drop, (event + kv_head) % (n_drop + 1)});
  HeadVerdict verdict;
  verdict.drop = draw(0, n_approximate, n_gone, kv_head, event);
  const uint32_t n_demote = 2 * r - (n_approximate - n_gone);
  const std::vector<uint32_t> chosen =
      draw(n_approximate, length, n_drop - n_gone + n_demote, kv_head, 1000 + event);
  for (size_t index = 0; index < chosen.size(); ++index) {
    const bool drops = verdict.drop.size() < n_drop &&
                       (index % 2 == event % 2 || chosen.size() - index <= n_drop - verdict.drop.size());
    (drops || verdict.demote.size() == n_demote ? verdict.drop : verdict.demote).push_back(chosen[index]);
  }
  return verdict;
}

TEST(CacheTier, SixHundredEventsKeepEveryInvariant) {
  Fixture f(tier_dims(GGML_TYPE_F32));
  std::vector<TierModel> model(3);
  std::vector<std::vector<int32_t>> column(3, std::vector<int32_t>(f.cache.dims().max_slots(0), -1));
  int32_t pos = 0;
  for (uint32_t event = 0; event < 600; ++event) {
    const uint32_t length = f.cache.n_slots(0, 0);
    while (f.cache.length(0, 0) < length) {
      for (uint32_t kv_head = 0; kv_head < 3; ++kv_head) {
        model[kv_head].has_value[pos] = true;
        column[kv_head][f.cache.length(0, 0)] = pos;
      }
      f.append(0, 0, pos++);
    }
    const uint32_t r = std::min(static_cast<uint32_t>(pos) - kBudget, kBudget) / 2;
    std::vector<HeadVerdict> verdicts;
    for (uint32_t kv_head = 0; kv_head < 3; ++kv_head) {
      verdicts.push_back(random_verdict(length, f.cache.n_approximate(0, 0), r, kv_head, event));
      const auto positions = f.cache.pos(0, 0, kv_head);
      for (const uint32_t slot : verdicts.back().drop) {
        model[kv_head].has_value.erase(positions[slot]);
        model[kv_head].dropped.insert(positions[slot]);
      }
      for (const uint32_t slot : verdicts.back().demote) {
        ASSERT_TRUE(model[kv_head].has_value[positions[slot]]) << "states only move down";
        model[kv_head].has_value[positions[slot]] = false;
        model[kv_head].value_sum += -static_cast<double>(positions[slot]);
        ++model[kv_head].n_values;
      }
    }
    for (const Move& move : f.cache.compact(0, 0, verdicts)) {
      auto& slots = column[move.kv_head];
      if (move.is_swap) std::swap(slots[move.from], slots[move.to]);
      if (!move.is_swap) slots[move.to] = slots[move.from];
    }
    const uint32_t n_approximate = f.cache.n_approximate(0, 0), end = f.cache.length(0, 0);
    ASSERT_EQ(n_approximate, 2 * r);
    ASSERT_EQ(end + (end - n_approximate), 2 * kBudget) << "keys and values take the rows of the budget";
    for (uint32_t kv_head = 0; kv_head < 3; ++kv_head) {
      const auto positions = f.cache.pos(0, 0, kv_head);
      const auto* keys = reinterpret_cast<const float*>(f.cache.key_rows(0, 0, kv_head));
      const auto* values = reinterpret_cast<const float*>(f.cache.value_rows(0, 0, kv_head));
      ASSERT_EQ(f.positions(0, 0, kv_head).size(), end) << "a position twice";
      for (uint32_t slot = 0; slot < end; ++slot) {
        const int32_t at = positions[slot];
        ASSERT_TRUE(model[kv_head].has_value.contains(at) && !model[kv_head].dropped.contains(at));
        ASSERT_EQ(model[kv_head].has_value[at], slot >= n_approximate)
            << "event " << event << " slot " << slot;
        ASSERT_EQ(column[kv_head][slot], at) << "columns follow the moves";
        ASSERT_EQ(keys[slot * kHeadDim + 5], key_of(at, kv_head, 5));
        if (slot < n_approximate) continue;
        ASSERT_EQ(values[slot * kHeadDim], -static_cast<float>(at));
      }
      ASSERT_EQ(model[kv_head].has_value.size(), end);
      if (r == 0) continue;
      const std::span<const float> mean = f.cache.mean_dropped_value(0, 0, kv_head);
      ASSERT_EQ(mean.size(), kHeadDim);
      ASSERT_NEAR(mean[3], model[kv_head].value_sum / model[kv_head].n_values, 1e-3 * pos);
    }
  }
}

TEST(CacheTier, ClearForgetsTheTier) {
  Fixture f(tier_dims(GGML_TYPE_F16));
  for (int32_t pos = 0; pos < 8; ++pos) f.append(0, 0, pos);
  f.cache.compact(0, 0, std::vector<HeadVerdict>(3, {{2}, {0, 5}, {}}));
  EXPECT_EQ(f.cache.n_approximate(0, 0), 2U);
  EXPECT_EQ(f.cache.n_slots(0, 0), kBudget + kInterval + 1);
  EXPECT_EQ(f.cache.mean_dropped_value(0, 0, 1)[0], -2.5F);
  f.cache.clear(0);
  EXPECT_EQ(f.cache.n_approximate(0, 0), 0U);
  EXPECT_TRUE(f.cache.mean_dropped_value(0, 0, 1).empty());
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

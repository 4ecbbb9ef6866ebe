// SPDX-License-Identifier: MIT
// Columns follow their tokens through compaction, whatever else moves.
#include "stats/columns.h"

#include <gtest/gtest.h>

#include "tensor/compute.h"

namespace kvase {
namespace {

constexpr uint32_t kHeadDim = 4;
constexpr uint32_t kCapacity = 6;

struct Fixture {
  explicit Fixture(const Needs& needs)
      : arena(Cache::kTensorsPerLayer + Columns::max_tensors_per_layer()),
        cache(arena, {.n_layers = 1,
                      .n_kv_heads = 2,
                      .head_dim = kHeadDim,
                      .n_sequences = 1,
                      .capacity = {kCapacity},
                      .type_k = GGML_TYPE_F32,
                      .type_v = GGML_TYPE_F32}),
        columns(arena, cache, /*n_heads=*/6, needs) {
    arena.allocate(compute.backend());
  }

  // Token `pos` has a value row of range pos and a key of length 2 pos.
  void append(int32_t pos) {
    const auto size = static_cast<float>(pos);
    const std::vector<float> key = {size, size, size, size};
    const std::vector<float> value = {-size / 2, 0, 0, size / 2};
    for (uint32_t kv_head = 0; kv_head < 2; ++kv_head) {
      columns.append(0, 0, kv_head, cache.length(0, 0), key, value);
      cache.append_row(0, 0, kv_head, cache.length(0, 0), pos, key.data(), value.data());
    }
    cache.commit(0, 0, 1);
  }

  Compute compute{1};
  Arena arena;
  Cache cache;
  Columns columns;
};

TEST(Columns, OnlyWhatIsAskedForTakesMemory) {
  EXPECT_EQ(Fixture(Needs{}).columns.bytes(), 0U);
  const Needs one{.statistics = {Statistic::v_range}, .mass = {}, .sketch = {}};
  EXPECT_EQ(Fixture(one).columns.bytes(), kCapacity * 2 * sizeof(float));
  const Needs per_head{
      .statistics = {Statistic::mass}, .mass = {.group = MassSpec::Group::per_head}, .sketch = {}};
  EXPECT_EQ(Fixture(per_head).columns.bytes(), kCapacity * 2 * 3 * sizeof(float));
  const Needs sketch{.statistics = {Statistic::k_sketch, Statistic::v_sketch}, .mass = {}, .sketch = {}};
  EXPECT_EQ(Fixture(sketch).columns.bytes(), 0U) << "sketches live for one event only";
}

TEST(Columns, EveryColumnFollowsItsToken) {
  Fixture f({.statistics = {Statistic::v_range, Statistic::k_l2}, .mass = {}, .sketch = {}, .rank = true});
  for (int32_t pos = 0; pos < 6; ++pos) f.append(pos);
  // Layout order as a policy might give it: best first.
  f.columns.set_order(0, 0, 0, std::vector<uint32_t>{5, 2, 1, 4});
  f.columns.set_order(0, 0, 1, std::vector<uint32_t>{0, 1, 2, 3});
  const auto moves = f.cache.compact(0, 0, std::vector<HeadVerdict>{{{0, 3}, {}, {}}, {{4, 5}, {}, {}}});
  f.columns.apply(0, 0, moves);
  for (uint32_t kv_head = 0; kv_head < 2; ++kv_head) {
    const HeadView head = f.columns.view(0, 0, kv_head);
    ASSERT_EQ(head.length(), 4U);
    for (size_t slot = 0; slot < 4; ++slot) {
      EXPECT_EQ(head[Statistic::v_range][slot], static_cast<float>(head.pos[slot]));
      EXPECT_EQ(head[Statistic::k_l2][slot], 2 * static_cast<float>(head.pos[slot]));
      const int32_t expected_rank = kv_head == 1          ? head.pos[slot]
                                    : head.pos[slot] == 5 ? 0
                                    : head.pos[slot] == 2 ? 1
                                    : head.pos[slot] == 1 ? 2
                                                          : 3;
      EXPECT_EQ(head.rank[slot], expected_rank);
    }
  }
  f.append(6);
  EXPECT_EQ(f.columns.view(0, 0, 0).rank[4], 4) << "a new token ranks last";
}

TEST(Columns, MassFollowsItsTokenAndStartsAtZero) {
  Fixture f({.statistics = {Statistic::mass}, .mass = {.queries = MassSpec::Queries::all}, .sketch = {}});
  for (int32_t pos = 0; pos < 4; ++pos) f.append(pos);
  const auto mass = f.columns.mass(0, 0, 0, 0);
  for (size_t slot = 0; slot < 4; ++slot) mass[slot] = static_cast<float>(slot);
  f.columns.apply(0, 0, f.cache.compact(0, 0, std::vector<HeadVerdict>(2, {{1}, {}, {}})));
  f.append(4);
  const HeadView head = f.columns.view(0, 0, 0);
  for (size_t slot = 0; slot < 4; ++slot)
    EXPECT_EQ(head[Statistic::mass][slot], head.pos[slot] == 4 ? 0.0F : static_cast<float>(head.pos[slot]));
}

TEST(Columns, MassIsClearedPerSequence) {
  Fixture f({.statistics = {Statistic::mass}, .mass = {}, .sketch = {}});
  f.append(0);
  f.columns.mass(0, 0, 1, 0)[0] = 0.5F;
  f.columns.clear_mass(0, 0);
  EXPECT_EQ(f.columns.view(0, 0, 1)[Statistic::mass][0], 0.0F);
}

}  // namespace
}  // namespace kvase

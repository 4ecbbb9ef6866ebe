// SPDX-License-Identifier: MIT
// The attention op against the double-precision oracle: every group, head size, row type, mass rule,
// instruction set; short and long contexts; several tokens, several sequences; before and after compaction;
// and the same bits for any number of threads and beside any other sequence.
#include "attention/cached_attention.h"

#include <ggml-cpu.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "attention/reference.h"
#include "base/random.h"
#include "tensor/compute.h"

namespace kvase {
namespace {

// Bound on |op - oracle| relative to the largest value, given the same rounded rows. f32 sums over a few
// hundred rows.
constexpr double kRelativeBound = 1e-5;

struct Shape {
  uint32_t n_kv_heads = 2;
  uint32_t group = 3;
  uint32_t head_dim = 64;
  ggml_type type = GGML_TYPE_F16;
  uint32_t capacity = 48;
  uint32_t window = 16;
  uint32_t n_sequences = 2;
  uint32_t n_threads = 2;
  MassSpec mass = {};
  std::vector<uint32_t> n_recruits = {};  // of the one layer, for an approximate tier
  bool has_map = false;                   // else the mean stands for values that are gone
};

// Random maps, and RoPE as the oracle has it.
ValueMaps random_maps(const Shape& s) {
  LayerMap map = {.mode = TierMode::linear, .head_dim = s.head_dim};
  const auto noise = [&](uint32_t seed, size_t index) {
    return static_cast<float>(
        2 * noise_uniform({.seed = seed}, NoiseStream::race, static_cast<uint32_t>(index)) - 1);
  };
  for (size_t index = 0; index < size_t{s.n_kv_heads} * s.head_dim * s.head_dim; ++index)
    map.weight.push_back(noise(21, index) / std::sqrt(static_cast<float>(s.head_dim)));
  for (size_t index = 0; index < size_t{s.n_kv_heads} * s.head_dim; ++index)
    map.bias.push_back(noise(22, index));
  const RopeSetting rope = {.n_rot = s.head_dim};
  return {.layers = {map},
          .rope_inverse = RopeInverse(rope, s.head_dim),
          .rope_table = RopeTable(rope, s.head_dim)};
}

struct Fixture {
  explicit Fixture(const Shape& s)
      : setup(s),
        compute(s.n_threads),
        arena(Cache::kTensorsPerLayer + Columns::max_tensors_per_layer()),
        cache(arena, {.n_layers = 1,
                      .n_kv_heads = s.n_kv_heads,
                      .head_dim = s.head_dim,
                      .n_sequences = s.n_sequences,
                      .capacity = {s.capacity},
                      .type_k = s.type,
                      .type_v = s.type,
                      .n_recruits = s.n_recruits}),
        columns(arena, cache, s.n_kv_heads * s.group,
                {.statistics = {Statistic::mass, Statistic::v_range, Statistic::residual},
                 .mass = s.mass,
                 .sketch = {}}),
        maps(random_maps(s)),
        attention(cache, columns, s.n_kv_heads * s.group, 1.0F / std::sqrt(static_cast<float>(s.head_dim)),
                  s.n_threads, s.has_map ? &maps : nullptr) {
    arena.allocate(compute.backend());
    for (uint32_t sequence = 0; sequence < s.n_sequences; ++sequence) {
      attention.watch_mass(0, sequence, s.capacity, s.window);
    }
  }

  // Element of q (which 0), k (1) or v (2) of a token: a pure function of its place.
  float element(uint32_t which, uint32_t sequence, int32_t pos, size_t index) const {
    const auto counter = static_cast<uint32_t>(index);
    const double u = noise_uniform({.seed = which, .sequence = sequence, .event = static_cast<uint32_t>(pos)},
                                   NoiseStream::race, counter);
    return static_cast<float>((2 * u - 1) * (which == 0 ? 3.0 : 1.5));
  }

  std::vector<float> rows(uint32_t which, uint32_t n_heads, const std::vector<StepToken>& tokens) const {
    std::vector<float> values;
    for (const StepToken& token : tokens) {
      for (size_t index = 0; index < size_t{n_heads} * setup.head_dim; ++index) {
        values.push_back(element(which, token.sequence, token.pos, index));
      }
    }
    return values;
  }

  // Runs one step of new tokens: n_new[sequence] each. Returns the op's output [head_dim * n_heads,
  // n_tokens].
  std::vector<float> run(const std::vector<uint32_t>& n_new) {
    std::vector<StepToken> tokens;
    for (uint32_t sequence = 0; sequence < n_new.size(); ++sequence) {
      for (uint32_t offset = 0; offset < n_new[sequence]; ++offset) {
        tokens.push_back({sequence, offset, next_pos[sequence]++});
      }
    }
    const GgmlContext context(
        ggml_init({.mem_size = size_t{64} << 20, .mem_buffer = nullptr, .no_alloc = false}));
    const auto input = [&](uint32_t which, uint32_t n_heads) {
      ggml_tensor* tensor = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, setup.head_dim, n_heads,
                                               static_cast<int64_t>(tokens.size()));
      const std::vector<float> values = rows(which, n_heads, tokens);
      std::copy(values.begin(), values.end(), static_cast<float*>(tensor->data));
      return tensor;
    };
    attention.set_step(tokens);
    ggml_tensor* out = attention.build(context.get(), 0, input(0, n_heads()), input(1, setup.n_kv_heads),
                                       input(2, setup.n_kv_heads));
    ggml_cgraph* graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, out);
    compute.run(graph);
    for (uint32_t sequence = 0; sequence < n_new.size(); ++sequence)
      cache.commit(0, sequence, n_new[sequence]);
    const auto* data = static_cast<const float*>(out->data);
    return {data, data + ggml_nelements(out)};
  }

  uint32_t n_heads() const { return setup.n_kv_heads * setup.group; }

  std::vector<float> stored(const std::byte* bytes, uint32_t n_rows) const {
    std::vector<float> values(size_t{n_rows} * setup.head_dim);
    const auto n = static_cast<int64_t>(values.size());
    if (setup.type == GGML_TYPE_F32) {
      std::copy_n(reinterpret_cast<const float*>(bytes), values.size(), values.data());
    } else {
      ggml_get_type_traits(setup.type)->to_float(bytes, values.data(), n);
    }
    return values;
  }

  // Values of the rows in use, those of approximate slots rebuilt one by one.
  std::vector<float> rebuilt_values(uint32_t sequence, uint32_t kv_head) const {
    std::vector<float> values = stored(cache.value_rows(0, sequence, kv_head), cache.length(0, sequence));
    const uint32_t n_approximate = cache.n_approximate(0, sequence);
    const std::vector<float> keys = stored(cache.key_rows(0, sequence, kv_head), n_approximate);
    for (uint32_t slot = 0; slot < n_approximate; ++slot) {
      const auto value = values.begin() + static_cast<ptrdiff_t>(slot * setup.head_dim);
      if (!setup.has_map) {
        std::ranges::copy(cache.mean_dropped_value(0, sequence, kv_head), value);
        continue;
      }
      const std::vector<double> rebuilt = reference_value(
          reference_map(kv_head), std::span(keys).subspan(slot * setup.head_dim, setup.head_dim),
          cache.pos(0, sequence, kv_head)[slot]);
      std::ranges::transform(rebuilt, value, [](double x) { return static_cast<float>(x); });
    }
    return values;
  }
  ReferenceMap reference_map(uint32_t kv_head) const {
    const size_t square = size_t{setup.head_dim} * setup.head_dim;
    return {.weight = std::span(maps.layers[0].weight).subspan(kv_head * square, square),
            .bias = std::span(maps.layers[0].bias).subspan(size_t{kv_head} * setup.head_dim, setup.head_dim)};
  }

  // Compares the newest n_new tokens of a sequence with the oracle over the rows that the cache holds now.
  void expect_matches_oracle(uint32_t sequence, uint32_t n_new, const float* out) const {
    const uint32_t length = cache.length(0, sequence);
    for (uint32_t kv_head = 0; kv_head < setup.n_kv_heads; ++kv_head) {
      const std::vector<float> keys = stored(cache.key_rows(0, sequence, kv_head), length);
      const std::vector<float> values = rebuilt_values(sequence, kv_head);
      const ReferenceHead head{.head_dim = setup.head_dim,
                               .keys = keys,
                               .values = values,
                               .pos = cache.pos(0, sequence, kv_head).first(length),
                               .scale = 1.0 / std::sqrt(static_cast<double>(setup.head_dim))};
      for (uint32_t token = 0; token < n_new; ++token) {
        const int32_t pos = next_pos[sequence] - static_cast<int32_t>(n_new - token);
        const std::vector<float> q = rows(0, n_heads(), {{sequence, 0, pos}});
        for (uint32_t member = 0; member < setup.group; ++member) {
          const size_t query_head = size_t{kv_head} * setup.group + member;
          const auto expected = reference_attention(
              head, std::span(q).subspan(query_head * setup.head_dim, setup.head_dim), pos);
          for (uint32_t channel = 0; channel < setup.head_dim; ++channel) {
            ASSERT_NEAR(out[(token * n_heads() + query_head) * setup.head_dim + channel], expected[channel],
                        kRelativeBound)
                << "sequence " << sequence << " token " << token << " head " << query_head;
          }
        }
      }
    }
  }

  // The mass columns against the oracle summed over the window's queries, or the last one's, at an event.
  void expect_mass_matches_oracle(uint32_t sequence) const {
    const uint32_t length = cache.length(0, sequence);
    ASSERT_EQ(length, cache.n_slots(0, sequence));
    const int32_t window_begin = next_pos[sequence] - static_cast<int32_t>(setup.window);
    const bool only_last = setup.mass.queries == MassSpec::Queries::last;
    const int32_t first_query = only_last ? next_pos[sequence] - 1 : window_begin;
    const double n_averaged = only_last ? 1 : setup.window;
    for (uint32_t kv_head = 0; kv_head < setup.n_kv_heads; ++kv_head) {
      const std::vector<float> keys = stored(cache.key_rows(0, sequence, kv_head), length);
      const auto pos = cache.pos(0, sequence, kv_head).first(length);
      const ReferenceHead head{.head_dim = setup.head_dim,
                               .keys = keys,
                               .values = keys,
                               .pos = pos,
                               .scale = 1.0 / std::sqrt(static_cast<double>(setup.head_dim))};
      std::vector<uint8_t> is_candidate(length);
      for (uint32_t slot = 0; slot < length; ++slot) is_candidate[slot] = pos[slot] < window_begin;
      std::vector<std::vector<double>> expected(columns.n_mass_rows(), std::vector<double>(length, 0.0));
      for (int32_t query_pos = first_query; query_pos < next_pos[sequence]; ++query_pos) {
        const std::vector<float> q = rows(0, n_heads(), {{sequence, 0, query_pos}});
        std::vector<std::span<const float>> queries;
        for (uint32_t member = 0; member < setup.group; ++member) {
          queries.push_back(std::span(q).subspan((size_t{kv_head} * setup.group + member) * setup.head_dim,
                                                 setup.head_dim));
        }
        const auto share = reference_mass(head, queries, query_pos, is_candidate, setup.mass);
        for (size_t row = 0; row < share.size(); ++row) {
          for (uint32_t slot = 0; slot < length; ++slot) expected[row][slot] += share[row][slot] / n_averaged;
        }
      }
      for (uint32_t row = 0; row < columns.n_mass_rows(); ++row) {
        const auto mass = columns.mass(0, sequence, kv_head, row);
        for (uint32_t slot = 0; slot < length; ++slot) {
          ASSERT_NEAR(mass[slot], expected[row][slot], kRelativeBound * expected[row][slot] + 1e-12)
              << "sequence " << sequence << " kv_head " << kv_head << " row " << row << " slot " << slot;
        }
      }
    }
  }

  // Drops n slots of each head, spread by a stride that differs between heads, and starts the next interval.
  void compact(uint32_t sequence, uint32_t n) {
    std::vector<HeadVerdict> verdicts(setup.n_kv_heads);
    for (uint32_t kv_head = 0; kv_head < setup.n_kv_heads; ++kv_head) {
      std::vector<uint32_t>& drop = verdicts[kv_head].drop;
      for (uint32_t slot = kv_head; drop.size() < n; slot += 2) drop.push_back(slot);
    }
    columns.apply(0, sequence, cache.compact(0, sequence, verdicts));
    if (!columns.carries_mass()) columns.clear_mass(0, sequence);
  }

  // Slots first .. last - 1 in an order of each head's own.
  static std::vector<uint32_t> shuffled(uint32_t first, uint32_t last, uint32_t kv_head) {
    std::vector<uint32_t> slots;
    for (uint32_t slot = first; slot < last; ++slot) slots.push_back(slot);
    std::ranges::sort(slots, {}, [&](uint32_t slot) {
      return noise_uniform({.seed = 5, .head = kv_head}, NoiseStream::race, slot);
    });
    return slots;
  }

  // Drops n_gone approximate slots of each head and n_drop exact ones, takes the value of n_demote others,
  // and starts the next interval.
  void demote(uint32_t sequence, uint32_t n_gone, uint32_t n_drop, uint32_t n_demote) {
    const uint32_t n_approximate = cache.n_approximate(0, sequence);
    std::vector<HeadVerdict> verdicts(setup.n_kv_heads);
    for (uint32_t kv_head = 0; kv_head < setup.n_kv_heads; ++kv_head) {
      auto& [drop, demoted, order] = verdicts[kv_head];
      drop = shuffled(0, n_approximate, kv_head);
      drop.resize(n_gone);
      const std::vector<uint32_t> exact =
          shuffled(n_approximate, cache.length(0, sequence) - setup.window, kv_head);
      drop.insert(drop.end(), exact.begin(), exact.begin() + n_drop);
      demoted.assign(exact.begin() + n_drop, exact.begin() + n_drop + n_demote);
      std::ranges::sort(drop);
      std::ranges::sort(demoted);
    }
    columns.apply(0, sequence, cache.compact(0, sequence, verdicts));
    columns.clear_mass(0, sequence);
    attention.watch_mass(0, sequence, cache.n_slots(0, sequence), setup.window);
  }

  Shape setup;
  Compute compute;
  Arena arena;
  Cache cache;
  Columns columns;
  ValueMaps maps;
  CachedAttention attention;
  std::vector<int32_t> next_pos = std::vector<int32_t>(8, 0);
};

// Prompt in one step, then tokens one by one and in blocks, two sequences apart in time, through two events.
void run_and_compare(const Shape& setup) {
  Fixture f(setup);
  const std::vector<std::vector<uint32_t>> steps = {{20, 5}, {1, 1}, {1, 1}, {10, 3}, {15, 1}, {1, 36}};
  for (const auto& n_new : steps) {
    const std::vector<float> out = f.run(n_new);
    f.expect_matches_oracle(0, n_new[0], out.data());
    f.expect_matches_oracle(1, n_new[1], out.data() + size_t{n_new[0]} * f.n_heads() * setup.head_dim);
    if (::testing::Test::HasFatalFailure()) return;
  }
  f.run({0, 1});
  f.expect_mass_matches_oracle(0);
  f.expect_mass_matches_oracle(1);
  f.compact(0, setup.window);
  f.compact(1, setup.window);
  for (uint32_t step = 0; step < setup.window; step += 4) {
    const std::vector<float> out = f.run({4, 4});
    f.expect_matches_oracle(0, 4, out.data());
    f.expect_matches_oracle(1, 4, out.data() + size_t{4} * f.n_heads() * setup.head_dim);
    if (::testing::Test::HasFatalFailure()) return;
  }
  f.expect_mass_matches_oracle(0);
  f.expect_mass_matches_oracle(1);
}

// Fills the room of both sequences in steps of `step` tokens, comparing each.
void fill_and_compare(Fixture& f, uint32_t step) {
  while (f.cache.length(0, 0) < f.cache.n_slots(0, 0)) {
    const uint32_t n = std::min(step, f.cache.n_slots(0, 0) - f.cache.length(0, 0));
    const std::vector<float> out = f.run({n, n});
    f.expect_matches_oracle(0, n, out.data());
    f.expect_matches_oracle(1, n, out.data() + size_t{n} * f.n_heads() * f.setup.head_dim);
    if (::testing::Test::HasFatalFailure()) return;
  }
  f.expect_mass_matches_oracle(0);
  f.expect_mass_matches_oracle(1);
}

// Three events: 16 of 40 slots approximate, then 32 of 48, then as many.
void run_one_tier_and_compare(const Shape& setup) {
  Fixture f(setup);
  fill_and_compare(f, 16);
  const std::vector<std::vector<uint32_t>> events = {{0, 8, 16}, {0, 8, 16}, {5, 11, 5}};
  const std::vector<uint32_t> steps = {1, 5, 16};
  for (size_t event = 0; event < events.size(); ++event) {
    for (const uint32_t sequence : {0U, 1U})
      f.demote(sequence, events[event][0], events[event][1], events[event][2]);
    fill_and_compare(f, steps[event]);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

void run_tiered_and_compare(Shape setup) {
  setup.n_recruits = {16};
  for (const bool has_map : {false, true}) {
    SCOPED_TRACE(has_map ? "map" : "mean");
    setup.has_map = has_map;
    run_one_tier_and_compare(setup);
  }
}

TEST(CachedAttention, EveryGroupSize) {
  for (const uint32_t group : {1U, 2U, 3U, 4U, 7U, 8U}) {
    SCOPED_TRACE(group);
    run_and_compare({.group = group});
  }
}

TEST(CachedAttention, MultiQueryHasOneKvHead) { run_and_compare({.n_kv_heads = 1, .group = 8}); }

TEST(CachedAttention, EveryHeadSizeAndRowType) {
  for (const uint32_t head_dim : {64U, 80U, 96U, 128U, 256U}) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
      SCOPED_TRACE(std::to_string(head_dim) + " " + ggml_type_name(type));
      run_and_compare({.head_dim = head_dim, .type = type});
    }
  }
}

TEST(CachedAttention, EveryMassRule) {
  for (const auto domain : {MassSpec::Domain::candidates, MassSpec::Domain::all}) {
    for (const auto group : {MassSpec::Group::mean, MassSpec::Group::per_head, MassSpec::Group::max_logit}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(domain)) + " " + std::to_string(static_cast<int>(group)));
      run_and_compare({.mass = {.domain = domain, .group = group}});
    }
  }
}

TEST(CachedAttention, MassOfTheLastQuery) {
  for (const auto domain : {MassSpec::Domain::candidates, MassSpec::Domain::all}) {
    SCOPED_TRACE(static_cast<int>(domain));
    run_and_compare({.mass = {.queries = MassSpec::Queries::last, .domain = domain}});
  }
}

// Sums of what every query of a sequence gave each token, by KV head, mass row and pos.
class TotalMass {
 public:
  // The newest n_new queries over the rows that the cache holds now.
  void add_queries(const Fixture& f, uint32_t n_new) {
    for (uint32_t kv_head = 0; kv_head < f.setup.n_kv_heads; ++kv_head) {
      const uint32_t length = f.cache.length(0, 0);
      const std::vector<float> keys = f.stored(f.cache.key_rows(0, 0, kv_head), length);
      const auto pos = f.cache.pos(0, 0, kv_head).first(length);
      const ReferenceHead head{.head_dim = f.setup.head_dim,
                               .keys = keys,
                               .values = keys,
                               .pos = pos,
                               .scale = 1.0 / std::sqrt(static_cast<double>(f.setup.head_dim))};
      const std::vector<uint8_t> all_count(length, 1);
      for (int32_t query_pos = f.next_pos[0] - static_cast<int32_t>(n_new); query_pos < f.next_pos[0];
           ++query_pos) {
        const std::vector<float> q = f.rows(0, f.n_heads(), {{0, 0, query_pos}});
        std::vector<std::span<const float>> queries;
        for (uint32_t member = 0; member < f.setup.group; ++member) {
          queries.push_back(std::span(q).subspan(
              (size_t{kv_head} * f.setup.group + member) * f.setup.head_dim, f.setup.head_dim));
        }
        const auto share = reference_mass(head, queries, query_pos, all_count, f.setup.mass);
        for (uint32_t row = 0; row < share.size(); ++row) {
          for (uint32_t slot = 0; slot < length; ++slot)
            totals_[{kv_head, row, pos[slot]}] += share[row][slot];
        }
      }
    }
  }

  void expect_in(const Fixture& f) const {
    for (uint32_t kv_head = 0; kv_head < f.setup.n_kv_heads; ++kv_head) {
      const auto pos = f.cache.pos(0, 0, kv_head).first(f.cache.length(0, 0));
      for (uint32_t row = 0; row < f.columns.n_mass_rows(); ++row) {
        const auto mass = f.columns.mass(0, 0, kv_head, row);
        for (uint32_t slot = 0; slot < pos.size(); ++slot) {
          const double expected = totals_.at({kv_head, row, pos[slot]});
          ASSERT_NEAR(mass[slot], expected, kRelativeBound * expected)
              << "kv_head " << kv_head << " row " << row << " pos " << pos[slot];
        }
      }
    }
  }

 private:
  std::map<std::tuple<uint32_t, uint32_t, int32_t>, double> totals_;
};

// Prompts of many tiles, blocks, single tokens, before and after events: nobody is forgotten, and sums move
// with their slots.
TEST(CachedAttention, MassOfAllQueriesIsCarried) {
  for (const auto group : {MassSpec::Group::mean, MassSpec::Group::per_head, MassSpec::Group::max_logit}) {
    SCOPED_TRACE(static_cast<int>(group));
    Fixture f({.capacity = 400,
               .window = 30,
               .n_sequences = 1,
               .mass = {.queries = MassSpec::Queries::all, .group = group}});
    TotalMass total;
    for (const uint32_t n_new : {1U, 290U, 5U, 1U, 103U}) {
      f.run({n_new});
      total.add_queries(f, n_new);
      total.expect_in(f);
      if (::testing::Test::HasFatalFailure()) return;
    }
    for (uint32_t event = 0; event < 2; ++event) {
      f.compact(0, 70);
      for (const uint32_t n_new : {1U, 66U, 3U}) {
        f.run({n_new});
        total.add_queries(f, n_new);
        total.expect_in(f);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// One tile of one token is wider than a tile's usual rows.
TEST(CachedAttention, MoreQueryHeadsThanATileHasRows) { run_and_compare({.n_kv_heads = 1, .group = 40}); }

TEST(CachedAttention, HeadSizesThatNoVectorDivides) {
  for (const uint32_t head_dim : {4U, 20U, 72U}) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
      SCOPED_TRACE(std::to_string(head_dim) + " " + ggml_type_name(type));
      run_and_compare({.head_dim = head_dim, .type = type});
    }
  }
}

// Restores the choice of the machine's best instruction set.
struct ChosenTarget {
  explicit ChosenTarget(int64_t target) { choose(target); }
  ~ChosenTarget() { choose(0); }
  static void choose(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

TEST(CachedAttention, EveryInstructionSet) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const ChosenTarget chosen(target);
    for (const uint32_t group : {1U, 2U, 4U, 7U}) {
      SCOPED_TRACE(std::string(hwy::TargetName(target)) + " group " + std::to_string(group));
      run_and_compare({.group = group});
    }
    run_and_compare({.head_dim = 80, .type = GGML_TYPE_BF16});
    run_and_compare({.type = GGML_TYPE_F32, .mass = {.group = MassSpec::Group::max_logit}});
  }
}

// Sequences of uneven length: a prompt of many tiles beside one of a few tokens, chunks of slots that the
// window's border cuts, blocks of tokens, up to the event.
const Shape kLong = {.capacity = 700, .window = 100};
const std::vector<std::vector<uint32_t>> kLongSteps = {{570, 3}, {1, 300}, {5, 1}, {30, 390}, {94, 6}};

TEST(CachedAttention, LongContextsOfUnevenLength) {
  for (const auto mass_group : {MassSpec::Group::mean, MassSpec::Group::per_head}) {
    Shape setup = kLong;
    setup.mass.group = mass_group;
    Fixture f(setup);
    for (const auto& n_new : kLongSteps) {
      const std::vector<float> out = f.run(n_new);
      f.expect_matches_oracle(0, n_new[0], out.data());
      f.expect_matches_oracle(1, n_new[1], out.data() + size_t{n_new[0]} * f.n_heads() * kLong.head_dim);
      if (::testing::Test::HasFatalFailure()) return;
    }
    f.expect_mass_matches_oracle(0);
    f.expect_mass_matches_oracle(1);
  }
}

TEST(CachedAttention, AnyNumberOfThreadsGivesTheSameBits) {
  std::vector<std::vector<float>> results;
  for (const uint32_t n_threads : {1U, 2U, 3U, 5U}) {
    Shape setup = kLong;
    setup.n_kv_heads = 3;
    setup.n_threads = n_threads;
    Fixture f(setup);
    std::vector<float> all;
    for (const auto& n_new : kLongSteps) {
      const std::vector<float> out = f.run(n_new);
      all.insert(all.end(), out.begin(), out.end());
    }
    for (uint32_t kv_head = 0; kv_head < setup.n_kv_heads; ++kv_head) {
      for (const uint32_t sequence : {0U, 1U}) {
        const auto mass = f.columns.mass(0, sequence, kv_head, 0);
        all.insert(all.end(), mass.begin(), mass.end());
      }
    }
    results.push_back(std::move(all));
    EXPECT_EQ(results.front(), results.back()) << n_threads << " threads";
  }
}

TEST(CachedAttention, AnotherSequenceChangesNoBit) {
  Fixture beside(kLong);
  Fixture alone(kLong);
  for (const auto& n_new : kLongSteps) {
    const std::vector<float> both = beside.run(n_new);
    const std::vector<float> one = alone.run({n_new[0]});
    EXPECT_TRUE(std::equal(one.begin(), one.end(), both.begin())) << n_new[0] << " tokens";
  }
  const auto mass = beside.columns.mass(0, 0, 1, 0);
  EXPECT_TRUE(std::ranges::equal(mass, alone.columns.mass(0, 0, 1, 0)));
}

TEST(ApproximateTier, EveryGroupSizeHeadSizeAndRowType) {
  for (const uint32_t group : {1U, 3U, 8U, 40U}) {
    SCOPED_TRACE(group);
    run_tiered_and_compare({.group = group});
  }
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
    for (const uint32_t head_dim : {20U, 80U, 128U}) {
      SCOPED_TRACE(std::to_string(head_dim) + " " + ggml_type_name(type));
      run_tiered_and_compare({.head_dim = head_dim, .type = type});
    }
  }
}

TEST(ApproximateTier, EveryMassRule) {
  for (const auto domain : {MassSpec::Domain::candidates, MassSpec::Domain::all}) {
    for (const auto group : {MassSpec::Group::mean, MassSpec::Group::per_head, MassSpec::Group::max_logit}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(domain)) + " " + std::to_string(static_cast<int>(group)));
      run_tiered_and_compare({.mass = {.domain = domain, .group = group}});
    }
  }
}

TEST(ApproximateTier, EveryInstructionSet) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const ChosenTarget chosen(target);
    SCOPED_TRACE(hwy::TargetName(target));
    run_tiered_and_compare({});
  }
}

// Chunks of approximate slots, and prompts of many tiles over them.
TEST(ApproximateTier, LongContexts) {
  Shape setup = kLong;
  setup.n_recruits = {250};
  for (const uint32_t step : {1U, 7U, 100U}) {
    SCOPED_TRACE(step);
    setup.has_map = step != 7;
    Fixture f(setup);
    f.run({setup.capacity, setup.capacity});
    f.demote(0, 0, 100, 500);
    f.demote(1, 0, 100, 500);
    f.run({f.cache.n_slots(0, 0) - f.cache.length(0, 0) - 2 * step,
           f.cache.n_slots(0, 1) - f.cache.length(0, 1) - 2 * step});
    fill_and_compare(f, step);
  }
}

TEST(ApproximateTier, AnyNumberOfThreadsGivesTheSameBits) {
  std::vector<std::vector<float>> results;
  for (const uint32_t n_threads : {1U, 2U, 5U}) {
    Shape setup = kLong;
    setup.n_threads = n_threads;
    setup.n_recruits = {250};
    setup.has_map = true;
    Fixture f(setup);
    f.run({setup.capacity, 5});
    f.demote(0, 0, 100, 500);
    results.push_back(f.run({1, 1}));
    const std::vector<float> prompt = f.run({60, 1});
    results.back().insert(results.back().end(), prompt.begin(), prompt.end());
    EXPECT_EQ(results.front(), results.back()) << n_threads << " threads";
  }
}

// W = 0 and b = the mean of the dropped values is +zero.
TEST(ApproximateTier, AMapOfNothingIsTheMean) {
  Shape setup = {.n_recruits = {16}};
  Fixture mean(setup);
  setup.has_map = true;
  Fixture map(setup);
  for (Fixture* f : {&mean, &map}) {
    f->run({48, 48});
    for (const uint32_t sequence : {0U, 1U}) f->demote(sequence, 0, 8, 16);
  }
  LayerMap& layer = map.maps.layers[0];
  std::ranges::fill(layer.weight, 0.0F);
  for (uint32_t kv_head = 0; kv_head < setup.n_kv_heads; ++kv_head)
    std::ranges::copy(mean.cache.mean_dropped_value(0, 0, kv_head),
                      layer.bias.begin() + static_cast<ptrdiff_t>(kv_head * setup.head_dim));
  for (const uint32_t n : {1U, 14U}) {
    const std::vector<float> expected = mean.run({n}), out = map.run({n});
    for (size_t index = 0; index < expected.size(); ++index) ASSERT_NEAR(out[index], expected[index], 1e-6);
  }
}

// Taken from the exact row when it comes, and carried along.
TEST(ApproximateTier, ResidualsAreThoseOfTheExactRows) {
  Fixture f({.type = GGML_TYPE_F32, .n_recruits = {16}, .has_map = true});
  f.run({48, 5});
  f.demote(0, 0, 8, 16);
  for (uint32_t kv_head = 0; kv_head < f.setup.n_kv_heads; ++kv_head) {
    const std::span<const float> residuals = f.columns.residual(0, 0, kv_head);
    for (uint32_t slot = 0; slot < f.cache.length(0, 0); ++slot) {
      const int32_t pos = f.cache.pos(0, 0, kv_head)[slot];
      const size_t first = size_t{kv_head} * f.setup.head_dim;
      const std::vector<float> keys = f.rows(1, f.setup.n_kv_heads, {{0, 0, pos}});
      const std::vector<float> values = f.rows(2, f.setup.n_kv_heads, {{0, 0, pos}});
      const std::vector<double> rebuilt =
          reference_value(f.reference_map(kv_head), std::span(keys).subspan(first, f.setup.head_dim), pos);
      double expected = 0;
      for (uint32_t channel = 0; channel < f.setup.head_dim; ++channel)
        expected += std::pow(double{values[first + channel]} - rebuilt[channel], 2);
      ASSERT_NEAR(residuals[slot], expected, 1e-4 * expected) << "slot " << slot << " pos " << pos;
    }
  }
}

TEST(CachedAttention, ScratchIsThereFromTheStart) {
  const Fixture small(Shape{});
  const Fixture large(kLong);
  EXPECT_GT(small.attention.scratch_bytes(), 0U);
  EXPECT_GT(large.attention.scratch_bytes(), small.attention.scratch_bytes());
}

// The window's own tokens dominate every softmax; normalised with the global maximum the candidates' mass
// would be 0/0.
TEST(CachedAttention, DominantRecentTokensLeaveCandidatesTheirMass) {
  Fixture f({.group = 1, .type = GGML_TYPE_F32});
  f.run({48, 1});
  double total = 0;
  for (const float mass : f.columns.mass(0, 0, 0, 0)) {
    EXPECT_TRUE(std::isfinite(mass));
    total += mass;
  }
  EXPECT_NEAR(total, 1, 1e-5) << "each query distributes mass 1 over the candidates";
}

}  // namespace
}  // namespace kvase

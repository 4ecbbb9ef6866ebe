// SPDX-License-Identifier: MIT
// One token's attention over slots with a value and slots whose value is rebuilt, against two second
// opinions: the reference's golden outputs, and a plain ggml graph. Every RoPE variant, pairing and width.
#include <ggml-cpu.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "attention/pieces.h"
#include "golden/golden_map.h"
#include "stats/rows.h"
#include "tensor/compute.h"

namespace kvase {
namespace {

// A token and one layer's slots. Each KV head's approximate slots come first, and have values here that
// nobody may read.
struct TierCase {
  uint32_t head_dim = 64;
  uint32_t n_kv_heads = 2;
  uint32_t group = 3;
  uint32_t n_approximate = 0;  // of n_slots
  uint32_t n_slots = 0;
  ggml_type type = GGML_TYPE_F32;
  RopeSetting rope = {};
  LayerMap map = {};
  std::vector<float> q = {};       // [head_dim, group, n_kv_heads]
  std::vector<float> keys = {};    // [head_dim, n_slots, n_kv_heads], after RoPE
  std::vector<float> values = {};  // likewise
  std::vector<int32_t> pos = {};   // [n_slots, n_kv_heads]

  float scale() const { return 1.0F / std::sqrt(static_cast<float>(head_dim)); }
};

std::vector<std::byte> stored(ggml_type type, const std::vector<float>& rows) {
  std::vector<std::byte> bytes(rows.size() * ggml_type_size(type));
  ggml_quantize_chunk(type, rows.data(), bytes.data(), 0, 1, static_cast<int64_t>(rows.size()), nullptr);
  return bytes;
}

// [head_dim, group, n_kv_heads] of the kernel.
std::vector<float> attend(const TierCase& c) {
  const std::vector<std::byte> keys = stored(c.type, c.keys), values = stored(c.type, c.values);
  const RopeTable rope(c.rope, c.head_dim);
  const Scratch scratch({.n_threads = 1,
                         .n_sequences = 1,
                         .n_kv_heads = c.n_kv_heads,
                         .head_dim = c.head_dim,
                         .tile_rows = round_up(size_t{tile_tokens(c.group)} * c.group, kRowPad),
                         .max_slots = c.n_slots});
  const StepToken token = {.pos = *std::ranges::max_element(c.pos) + 1};
  std::vector<float> out(c.q.size());
  for (uint32_t kv_head = 0; kv_head < c.n_kv_heads; ++kv_head) {
    const size_t first_row = size_t{kv_head} * c.n_slots;
    const size_t first_byte = first_row * ggml_row_size(c.type, c.head_dim);
    const size_t first_q = size_t{kv_head} * c.group * c.head_dim;
    HeadWork work;
    work.head = {.type_k = c.type,
                 .type_v = c.type,
                 .keys = keys.data() + first_byte,
                 .values = values.data() + first_byte,
                 .pos = c.pos.data() + first_row,
                 .head_dim = c.head_dim,
                 .n_slots = c.n_slots};
    work.step = {.q = c.q.data() + first_q,
                 .token_stride = c.q.size(),
                 .tokens = &token,
                 .n_tokens = 1,
                 .group = c.group,
                 .scale = c.scale()};
    work.out = out.data() + first_q;
    work.length = c.n_slots;
    work.slots = {.n_approximate = c.n_approximate, .n_slots = c.n_slots};
    work.stand = {.map = &c.map, .rope = &rope, .kv_head = kv_head};
    work.space = scratch.head(0, kv_head);
    for (uint32_t piece = 0; piece < n_pieces(work); ++piece) attend_piece(work, piece, scratch.thread(0));
    join_output(work, scratch.thread(0));
  }
  return out;
}

// A case of the file; `routing` names who is exact and who approximate.
TierCase golden_case(const golden::File& file, const std::string& name, const std::string& routing) {
  const auto keys = file.tensor<float>(name + ".k"), values = file.tensor<float>(name + ".v");
  const auto pos = file.tensor<int32_t>(name + ".pos");
  const auto exact = file.tensor<int32_t>(routing + "exact");
  const auto approximate = file.tensor<int32_t>(routing + "approx");
  TierCase c = {.head_dim = file.size(name + ".k", 0),
                .n_kv_heads = file.size(name + ".k", 2),
                .rope = golden::rope_of(file, name),
                .map = golden::map_of(file, name),
                .q = file.tensor<float>(name + ".q")};
  c.group = file.size(name + ".q", 1) / c.n_kv_heads;
  c.n_approximate = static_cast<uint32_t>(approximate.size()) / c.n_kv_heads;
  c.n_slots = c.n_approximate + static_cast<uint32_t>(exact.size()) / c.n_kv_heads;
  for (uint32_t kv_head = 0; kv_head < c.n_kv_heads; ++kv_head) {
    const auto add = [&](const std::vector<int32_t>& slots) {
      const size_t count = slots.size() / c.n_kv_heads;
      for (size_t index = kv_head * count; index < (kv_head + 1) * count; ++index) {
        const auto slot = static_cast<size_t>(slots[index]);
        const auto first = static_cast<ptrdiff_t>((kv_head * pos.size() + slot) * c.head_dim);
        c.keys.insert(c.keys.end(), keys.begin() + first, keys.begin() + first + c.head_dim);
        c.values.insert(c.values.end(), values.begin() + first, values.begin() + first + c.head_dim);
        c.pos.push_back(pos[slot]);
      }
    };
    add(approximate);
    add(exact);
  }
  return c;
}

// For every RoPE variant and both routings.
TEST(ApproximateTier, AgreesWithTheReference) {
  const golden::File file(golden::folder() + "/value_map.gguf");
  for (const std::string& name : file.texts("name")) {
    for (const std::string& routing : {name + ".", name + ".weighted_"}) {
      SCOPED_TRACE(routing);
      const auto expected = file.tensor<double>(routing + "out");
      const std::vector<float> out = attend(golden_case(file, name, routing));
      ASSERT_EQ(out.size(), expected.size());
      for (size_t index = 0; index < out.size(); ++index) ASSERT_NEAR(out[index], expected[index], 1e-4);
    }
  }
}

// What ggml's backward RoPE must be given so that it divides by the forward one's magnitude.
float inverse_attn_factor(const RopeSetting& rope) {
  const float of_yarn = rope.ext_factor == 0 ? 1.0F : 1.0F + 0.1F * std::log(1.0F / rope.freq_scale);
  return 1.0F / (rope.attn_factor * of_yarn * of_yarn);
}

// A graph of ggml's own operations on f32: one softmax over all slots, values where there are some, and W
// once per query head on the sum of keys whose RoPE is taken off.
class TierGraph {
 public:
  explicit TierGraph(const TierCase& c) : case_(c) {}

  std::vector<float> output() {
    const auto head_dim = int64_t{case_.head_dim}, n_slots = int64_t{case_.n_slots};
    const auto n_kv_heads = int64_t{case_.n_kv_heads}, group = int64_t{case_.group};
    const auto n_approximate = int64_t{case_.n_approximate};
    ggml_tensor* keys = input(rounded(case_.keys), head_dim, n_slots, n_kv_heads);
    ggml_tensor* values = input(rounded(case_.values), head_dim, n_slots, n_kv_heads);
    ggml_tensor* q = input(case_.q, head_dim, group, n_kv_heads);
    ggml_tensor* weight = input(case_.map.weight, head_dim, head_dim, n_kv_heads);
    ggml_tensor* bias = input(case_.map.bias, head_dim, 1, n_kv_heads);

    ggml_tensor* share = ggml_soft_max_ext(ctx(), ggml_mul_mat(ctx(), keys, q), nullptr, case_.scale(), 0);
    ggml_tensor* share_approximate = part(share, 0, 0, n_approximate);
    ggml_tensor* share_exact = part(share, 0, n_approximate, n_slots);
    ggml_tensor* exact_values = transposed(part(values, 1, n_approximate, n_slots));
    ggml_tensor* sum_keys =
        ggml_mul_mat(ctx(), transposed(unrotated(part(keys, 1, 0, n_approximate))), share_approximate);
    ggml_tensor* rebuilt = ggml_mul_mat(ctx(), weight, sum_keys);
    ggml_tensor* means =
        ggml_mul(ctx(), ggml_repeat(ctx(), bias, rebuilt), ggml_sum_rows(ctx(), share_approximate));
    ggml_tensor* out =
        ggml_add(ctx(), ggml_mul_mat(ctx(), exact_values, share_exact), ggml_add(ctx(), rebuilt, means));
    ggml_cgraph* graph = ggml_new_graph(ctx());
    ggml_build_forward_expand(graph, out);
    compute_.run(graph);
    const auto* data = static_cast<const float*>(out->data);
    return {data, data + ggml_nelements(out)};
  }

 private:
  ggml_context* ctx() const { return context_.get(); }

  std::vector<float> rounded(const std::vector<float>& rows) const {
    const std::vector<std::byte> bytes = stored(case_.type, rows);
    std::vector<float> result(rows.size());
    to_f32(case_.type, bytes.data(), rows.size(), result.data());
    return result;
  }

  ggml_tensor* input(const std::vector<float>& data, int64_t n0, int64_t n1, int64_t n2) const {
    ggml_tensor* tensor = ggml_new_tensor_3d(ctx(), GGML_TYPE_F32, n0, n1, n2);
    std::memcpy(tensor->data, data.data(), data.size() * sizeof(float));
    return tensor;
  }

  // Elements first .. last - 1 of an axis.
  ggml_tensor* part(ggml_tensor* x, int axis, int64_t first, int64_t last) const {
    int64_t size[3] = {x->ne[0], x->ne[1], x->ne[2]};
    size[axis] = last - first;
    return ggml_cont(ctx(), ggml_view_3d(ctx(), x, size[0], size[1], size[2], x->nb[1], x->nb[2],
                                         static_cast<size_t>(first) * x->nb[axis]));
  }

  ggml_tensor* transposed(ggml_tensor* x) const { return ggml_cont(ctx(), ggml_transpose(ctx(), x)); }

  // Keys of the approximate slots before RoPE: every row is a token of its own to ggml.
  ggml_tensor* unrotated(ggml_tensor* keys) const {
    const RopeSetting& rope = case_.rope;
    ggml_tensor* pos = ggml_new_tensor_1d(ctx(), GGML_TYPE_I32, keys->ne[1] * keys->ne[2]);
    for (uint32_t kv_head = 0; kv_head < case_.n_kv_heads; ++kv_head)
      std::copy_n(case_.pos.begin() + kv_head * case_.n_slots, case_.n_approximate,
                  static_cast<int32_t*>(pos->data) + kv_head * case_.n_approximate);
    ggml_tensor* divisors = rope.divisors.empty()
                                ? nullptr
                                : input(rope.divisors, static_cast<int64_t>(rope.divisors.size()), 1, 1);
    const int mode = rope.pairs == RopePairs::half_split ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;
    ggml_tensor* rows = ggml_reshape_3d(ctx(), keys, keys->ne[0], 1, pos->ne[0]);
    ggml_tensor* result =
        ggml_rope_ext_back(ctx(), rows, pos, divisors, static_cast<int>(rope.n_rot), mode,
                           static_cast<int>(rope.n_ctx_orig), rope.freq_base, rope.freq_scale,
                           rope.ext_factor, inverse_attn_factor(rope), rope.beta_fast, rope.beta_slow);
    return ggml_reshape_3d(ctx(), result, keys->ne[0], keys->ne[1], keys->ne[2]);
  }

  const TierCase& case_;
  Compute compute_{1};
  GgmlContext context_{ggml_init({.mem_size = size_t{64} << 20, .mem_buffer = nullptr, .no_alloc = false})};
};

void fill(std::vector<float>& rows, size_t n, float deviation, std::mt19937& random) {
  std::normal_distribution<float> normal(0, deviation);
  rows.resize(n);
  for (float& x : rows) x = normal(random);
}

// Random slots, in no order of position, below position 3,000, where ggml's f32 angles are good to 4e-4.
void expect_agreement(TierCase c) {
  std::mt19937 random(7);
  c.n_slots = 300;
  c.n_approximate = 190;
  const size_t n_rows = size_t{c.n_slots} * c.n_kv_heads, width = c.head_dim;
  fill(c.q, width * c.group * c.n_kv_heads, 1.5F, random);
  fill(c.keys, width * n_rows, 1, random);
  fill(c.values, width * n_rows, 1, random);
  c.map = {.mode = TierMode::linear, .head_dim = c.head_dim};
  fill(c.map.weight, width * width * c.n_kv_heads, 1 / std::sqrt(static_cast<float>(width)), random);
  fill(c.map.bias, width * c.n_kv_heads, 1, random);
  std::uniform_int_distribution<int32_t> anywhere(0, 2999);
  for (size_t row = 0; row < n_rows; ++row) c.pos.push_back(anywhere(random));
  const std::vector<float> out = attend(c), expected = TierGraph(c).output();
  ASSERT_EQ(out.size(), expected.size());
  for (size_t index = 0; index < out.size(); ++index) ASSERT_NEAR(out[index], expected[index], 3e-4) << index;
}

TEST(ApproximateTier, AgreesWithAPlainGgmlGraph) {
  std::vector<float> divisors;
  for (int pair = 0; pair < 32; ++pair) divisors.push_back(1.0F + 0.2F * static_cast<float>(pair));
  const std::vector<std::pair<const char*, RopeSetting>> variants = {
      {"plain", {.n_rot = 64}},
      {"partial", {.n_rot = 40}},
      {"linear", {.n_rot = 64, .freq_scale = 0.25F, .attn_factor = 1.3F}},
      {"yarn",
       {.n_rot = 64, .freq_scale = 0.25F, .ext_factor = 1.0F, .attn_factor = 0.8F, .n_ctx_orig = 512}},
      {"divisors", {.n_rot = 64, .divisors = divisors}}};
  for (const auto& [name, setting] : variants) {
    for (const RopePairs pairs : {RopePairs::adjacent, RopePairs::half_split}) {
      for (const uint32_t group : {1U, 3U, 8U, 12U}) {
        SCOPED_TRACE(std::string(name) + ", pairs " + std::to_string(static_cast<int>(pairs)) + ", group " +
                     std::to_string(group));
        RopeSetting rope = setting;
        rope.pairs = pairs;
        expect_agreement({.group = group, .rope = rope});
      }
    }
  }
}

TEST(ApproximateTier, AgreesWithAPlainGgmlGraphForEveryRowTypeAndHeadSize) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
    for (const uint32_t head_dim : {20U, 80U, 128U}) {
      for (const RopePairs pairs : {RopePairs::adjacent, RopePairs::half_split}) {
        SCOPED_TRACE(std::string(ggml_type_name(type)) + ", head size " + std::to_string(head_dim) +
                     ", pairs " + std::to_string(static_cast<int>(pairs)));
        expect_agreement({.head_dim = head_dim, .type = type, .rope = {.n_rot = head_dim, .pairs = pairs}});
      }
    }
  }
}

}  // namespace
}  // namespace kvase

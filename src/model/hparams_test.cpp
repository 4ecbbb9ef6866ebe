// SPDX-License-Identifier: MIT
// Tests of read_hparams: numbers come from the file, and what the graphs do not do is refused.
#include "model/hparams.h"

#include <cmath>

#include "tensor/test_gguf.h"

namespace kvase {
namespace {

using test::expect_error;
using test::TempDir;

class HParamsTest : public ::testing::Test {
 protected:
  void write(const ToyModelSpec& spec) { write_toy_model(dir_.file("toy.gguf"), spec); }

  // The parameters after changing keys of the file last written.
  HParams read(const std::function<void(gguf_context*)>& keys = [](gguf_context*) {}) {
    test::rewrite(dir_.file("toy.gguf"), dir_.file("edited.gguf"), {.keys = keys});
    return read_hparams(GgufFile(dir_.file("edited.gguf")));
  }

  void expect_refused(const std::function<void(gguf_context*)>& keys, ErrorCode code,
                      const std::string& part) {
    expect_error([&] { read(keys); }, code, part);
  }

  TempDir dir_;
};

void set_u32(gguf_context* gguf, const std::string& name, uint32_t value) {
  gguf_set_val_u32(gguf, ("llama." + name).c_str(), value);
}

TEST_F(HParamsTest, AreReadFromTheFile) {
  ToyModelSpec spec = test::tiny_spec();
  spec.freq_base = 5e5F;
  spec.rms_eps = 1e-6F;
  write(spec);
  const HParams params = read();
  EXPECT_EQ(params.architecture, "llama");
  EXPECT_EQ(params.n_layers, 1U);
  EXPECT_EQ(params.n_embd, 16U);
  EXPECT_EQ(params.n_ff, 16U);
  EXPECT_EQ(params.n_heads, 2U);
  EXPECT_EQ(params.n_kv_heads, 1U);
  EXPECT_EQ(params.head_dim, 8U);
  EXPECT_EQ(params.n_vocab, 300U);
  EXPECT_EQ(params.n_ctx_train, 256U);
  EXPECT_FLOAT_EQ(params.rms_eps, 1e-6F);
  EXPECT_FLOAT_EQ(params.attention_scale, 1.0F / std::sqrt(8.0F));
  EXPECT_EQ(params.rope.n_rot, 8U);
  EXPECT_FLOAT_EQ(params.rope.freq_base, 5e5F);
  EXPECT_FLOAT_EQ(params.rope.freq_scale, 1.0F);
  EXPECT_FLOAT_EQ(params.rope.ext_factor, 0.0F);
  EXPECT_FLOAT_EQ(params.rope.attn_factor, 1.0F);
  EXPECT_EQ(params.rope.n_ctx_orig, 256U);
}

// Width divided by heads is wrong for Qwen3. True sizes of published models: width, heads, head size.
TEST_F(HParamsTest, HeadSizeIsTheFilesNotWidthByHeads) {
  struct Row {
    uint32_t n_embd, n_heads, head_dim;
  };
  write(test::tiny_spec());
  for (const Row& row : {Row{1024, 16, 128}, Row{2560, 32, 128}, Row{5120, 64, 128}, Row{576, 9, 64}}) {
    const HParams params = read([&](gguf_context* gguf) {
      set_u32(gguf, "embedding_length", row.n_embd);
      set_u32(gguf, "attention.head_count", row.n_heads);
      set_u32(gguf, "attention.key_length", row.head_dim);
      set_u32(gguf, "attention.value_length", row.head_dim);
      set_u32(gguf, "rope.dimension_count", row.head_dim);
    });
    EXPECT_EQ(params.head_dim, row.head_dim) << row.n_embd << " wide, " << row.n_heads << " heads";
  }
}

TEST_F(HParamsTest, HeadSizeAndKvHeadsHaveDefaults) {
  write(test::tiny_spec());
  const HParams params = read([](gguf_context* gguf) {
    gguf_remove_key(gguf, "llama.attention.key_length");
    gguf_remove_key(gguf, "llama.attention.value_length");
    gguf_remove_key(gguf, "llama.rope.dimension_count");
    gguf_remove_key(gguf, "llama.attention.head_count_kv");
    gguf_remove_key(gguf, "llama.rope.freq_base");
  });
  EXPECT_EQ(params.head_dim, 8U);  // 16 / 2
  EXPECT_EQ(params.rope.n_rot, 8U);
  EXPECT_EQ(params.n_kv_heads, 2U);
  EXPECT_FLOAT_EQ(params.rope.freq_base, 10000.0F);
}

TEST_F(HParamsTest, EveryRequiredKeyIsMissedAndItsTypeChecked) {
  write(test::tiny_spec());
  for (const char* name : {"block_count", "context_length", "embedding_length", "feed_forward_length",
                           "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    SCOPED_TRACE(name);
    const std::string key = std::string("llama.") + name;
    expect_refused([&](gguf_context* gguf) { gguf_remove_key(gguf, key.c_str()); }, ErrorCode::bad_model_file,
                   "key \"" + key + "\" is missing");
  }
  for (const char* name :
       {"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
        "attention.head_count_kv", "attention.key_length", "attention.value_length",
        "attention.layer_norm_rms_epsilon", "attention.scale", "attention.causal", "attention.sliding_window",
        "expert_count", "rope.dimension_count", "rope.freq_base", "rope.scaling.factor",
        "rope.scaling.attn_factor", "rope.scaling.original_context_length"}) {
    SCOPED_TRACE(name);
    const std::string key = std::string("llama.") + name;
    expect_refused([&](gguf_context* gguf) { gguf_set_val_str(gguf, key.c_str(), "1"); },
                   ErrorCode::bad_model_file, "key \"" + key + "\": found str, allowed");
  }
  expect_refused([](gguf_context* gguf) { set_u32(gguf, "rope.scaling.type", 1); }, ErrorCode::bad_model_file,
                 "found u32, allowed str");
}

TEST_F(HParamsTest, NumbersOutOfRange) {
  write(test::tiny_spec());
  const auto refused = [&](const char* name, uint32_t value, const std::string& part) {
    SCOPED_TRACE(name);
    expect_refused([&](gguf_context* gguf) { set_u32(gguf, name, value); }, ErrorCode::bad_model_file, part);
  };
  refused("block_count", 0, "found 0, allowed 1..512");
  refused("block_count", 1000000, "found 1000000");
  refused("embedding_length", 0, "found 0, allowed 1..");
  refused("attention.head_count", 0, "found 0, allowed 1..4096");
  refused("attention.head_count_kv", 0, "found 0, allowed 1..4096");
  refused("attention.head_count_kv", 3, "found 3 KV heads, allowed a divisor of the 2 heads");
  refused("context_length", 0, "found 0, allowed 1..");
}

TEST_F(HParamsTest, OddAndUnequalHeadSizes) {
  write(test::tiny_spec());
  expect_refused(
      [](gguf_context* gguf) {
        gguf_remove_key(gguf, "llama.attention.key_length");
        gguf_remove_key(gguf, "llama.attention.value_length");
        set_u32(gguf, "attention.head_count", 17);
      },
      ErrorCode::bad_model_file, "found 0 dimensions per head");
  expect_refused(
      [](gguf_context* gguf) {
        set_u32(gguf, "attention.key_length", 7);
        set_u32(gguf, "attention.value_length", 7);
      },
      ErrorCode::bad_model_file, "found 7 dimensions per head, allowed an even number");
  expect_refused([](gguf_context* gguf) { set_u32(gguf, "attention.value_length", 4); },
                 ErrorCode::unsupported, "found keys of 8 and values of 4");
  for (const uint32_t n_rot : {0U, 3U, 10U}) {
    expect_refused([n_rot](gguf_context* gguf) { set_u32(gguf, "rope.dimension_count", n_rot); },
                   ErrorCode::bad_model_file, "allowed an even number in 2..8");
  }
}

TEST_F(HParamsTest, PerLayerArraysMustAgree) {
  ToyModelSpec spec = test::tiny_spec();
  spec.n_layers = 3;
  write(spec);
  const auto with = [](std::vector<int32_t> heads) {
    return [heads](gguf_context* gguf) {
      gguf_set_arr_data(gguf, "llama.attention.head_count_kv", GGUF_TYPE_INT32, heads.data(), heads.size());
    };
  };
  EXPECT_EQ(read(with({1, 1, 1})).n_kv_heads, 1U);
  expect_refused(with({1, 2, 1}), ErrorCode::unsupported, "found 1 and 2, allowed one number for all layers");
  expect_refused(with({1, 1}), ErrorCode::bad_model_file,
                 "found an array of 2 elements, allowed one per layer: 3");
  expect_refused(with({-1, -1, -1}), ErrorCode::bad_model_file, "found -1");
}

TEST_F(HParamsTest, FeaturesThatTheGraphsDoNotHave) {
  write(test::tiny_spec());
  for (const char* name :
       {"expert_count", "expert_used_count", "expert_group_count", "nextn_predict_layers"}) {
    SCOPED_TRACE(name);
    expect_refused([&](gguf_context* gguf) { set_u32(gguf, name, 2); }, ErrorCode::unsupported,
                   "found 2, allowed 0");
    read([&](gguf_context* gguf) { set_u32(gguf, name, 0); });
  }
  expect_refused([](gguf_context* gguf) { set_u32(gguf, "attention.sliding_window", 255); },
                 ErrorCode::unsupported, "sliding windows are not supported");
  read([](gguf_context* gguf) { set_u32(gguf, "attention.sliding_window", 256); });  // the whole context
  expect_refused([](gguf_context* gguf) { gguf_set_val_bool(gguf, "llama.attention.causal", false); },
                 ErrorCode::unsupported, "only causal");
}

TEST_F(HParamsTest, LinearRopeScaling) {
  ToyModelSpec spec = test::tiny_spec();
  spec.rope_scaling = ToyRopeScaling::linear;
  spec.rope_factor = 8.0F;
  write(spec);
  const RopeParams rope = read().rope;
  EXPECT_EQ(rope.scaling, RopeScaling::linear);
  EXPECT_FLOAT_EQ(rope.freq_scale, 1.0F / 8.0F);
  EXPECT_FLOAT_EQ(rope.ext_factor, 0.0F);
  const RopeParams old_key = read([](gguf_context* gguf) {
                               gguf_remove_key(gguf, "llama.rope.scaling.factor");
                               gguf_set_val_f32(gguf, "llama.rope.scale_linear", 2.0F);
                             }).rope;
  EXPECT_FLOAT_EQ(old_key.freq_scale, 0.5F);
  const RopeParams none =
      read([](gguf_context* gguf) { gguf_set_val_str(gguf, "llama.rope.scaling.type", "none"); }).rope;
  EXPECT_FLOAT_EQ(none.freq_scale, 1.0F);
}

TEST_F(HParamsTest, YarnRopeScaling) {
  ToyModelSpec spec = test::tiny_spec();
  spec.rope_scaling = ToyRopeScaling::yarn;
  spec.rope_factor = 4.0F;
  write(spec);
  const RopeParams rope = read().rope;
  EXPECT_EQ(rope.scaling, RopeScaling::yarn);
  EXPECT_FLOAT_EQ(rope.freq_scale, 0.25F);
  EXPECT_FLOAT_EQ(rope.ext_factor, 1.0F);
  EXPECT_FLOAT_EQ(rope.attn_factor, 1.0F);  // ggml multiplies by 1 + 0.1 ln 4 itself
  EXPECT_FLOAT_EQ(rope.beta_fast, 32.0F);
  EXPECT_FLOAT_EQ(rope.beta_slow, 1.0F);
  EXPECT_EQ(rope.n_ctx_orig, 64U);
  const RopeParams scaled =
      read([](gguf_context* gguf) { gguf_set_val_f32(gguf, "llama.rope.scaling.attn_factor", 0.5F); }).rope;
  EXPECT_FLOAT_EQ(scaled.attn_factor, 0.5F);
}

TEST_F(HParamsTest, RopeNumbersThatWouldGiveNoAngles) {
  write(test::tiny_spec());
  const auto refused = [&](const char* name, float value, const std::string& part) {
    SCOPED_TRACE(name);
    const std::string key = std::string("llama.") + name;
    expect_refused([&](gguf_context* gguf) { gguf_set_val_f32(gguf, key.c_str(), value); },
                   ErrorCode::bad_model_file, part);
  };
  refused("rope.freq_base", 0.0F, "found 0, allowed a positive number");
  refused("rope.freq_base", -1.0F, "found -1, allowed a positive number");
  refused("rope.scaling.factor", -2.0F, "found -2, allowed 0.001..1e6");
  refused("rope.scaling.factor", 1e9F, "found 1000000000, allowed 0.001..1e6");
  refused("attention.layer_norm_rms_epsilon", 0.0F, "allowed a positive number");
  refused("attention.scale", std::nanf(""), "allowed a finite number");
  expect_refused([](gguf_context* gguf) { gguf_set_val_str(gguf, "llama.rope.scaling.type", "longrope"); },
                 ErrorCode::unsupported, "found \"longrope\", allowed none, linear, yarn");
  expect_refused(
      [](gguf_context* gguf) {
        gguf_set_val_str(gguf, "llama.rope.scaling.type", "yarn");
        gguf_set_val_f32(gguf, "llama.rope.scaling.factor", 0.5F);
      },
      ErrorCode::bad_model_file, "found 0.5, allowed 1..1e6");
}

}  // namespace
}  // namespace kvase

// SPDX-License-Identifier: MIT
// Tests of the family table: each required tensor is missed, shapes and types are checked, extras are told
// apart.
#include "model/family.h"

#include "tensor/test_gguf.h"

namespace kvase {
namespace {

using test::expect_error;
using test::TempDir;

std::vector<std::string> check_file(const std::string& path) {
  const GgufFile file(path);
  const HParams params = read_hparams(file);
  return check_tensors(file, find_family(params.architecture), params);
}

class FamilyTest : public ::testing::Test {
 protected:
  std::string write(const ToyModelSpec& spec) {
    write_toy_model(dir_.file("toy.gguf"), spec);
    return dir_.file("toy.gguf");
  }
  // Warnings after an edit of the file last written.
  std::vector<std::string> check_edited(const test::Edit& edit) {
    test::rewrite(dir_.file("toy.gguf"), dir_.file("edited.gguf"), edit);
    return check_file(dir_.file("edited.gguf"));
  }
  TempDir dir_;
};

TEST_F(FamilyTest, PairingIsPerArchitecture) {
  EXPECT_EQ(find_family("llama").rope_pairing, RopePairing::neighbours);
  EXPECT_EQ(find_family("qwen2").rope_pairing, RopePairing::halves);
  EXPECT_EQ(find_family("qwen3").rope_pairing, RopePairing::halves);
}

TEST_F(FamilyTest, UnknownArchitecture) {
  expect_error([] { find_family("mamba"); }, ErrorCode::unsupported,
               "architecture \"mamba\" is not supported, allowed: llama, qwen2, qwen3");
}

TEST_F(FamilyTest, EveryRequiredTensorIsMissedAndEveryOptionalOneIsNot) {
  for (const char* architecture : {"llama", "qwen2", "qwen3"}) {
    ToyModelSpec spec = test::tiny_spec(architecture);
    spec.biases = spec.architecture == "llama";
    spec.rope_freqs = true;
    const GgufFile file(write(spec));
    const HParams params = read_hparams(file);
    size_t n_required = 0;
    for (const TensorSpec& tensor : tensor_list(find_family(architecture), params)) {
      SCOPED_TRACE(std::string(architecture) + " without " + tensor.name);
      ASSERT_NE(file.find_tensor(tensor.name), nullptr) << "the toy model lacks it";
      if (tensor.required) {
        ++n_required;
        expect_error([&] { check_edited({.drop = {tensor.name}}); }, ErrorCode::bad_model_file,
                     "tensor \"" + tensor.name + "\" is missing");
      } else {
        EXPECT_TRUE(check_edited({.drop = {tensor.name}}).empty());
      }
    }
    EXPECT_EQ(n_required, std::string(architecture) == "llama"   ? 11U
                          : std::string(architecture) == "qwen2" ? 14U
                                                                 : 13U);
  }
}

TEST_F(FamilyTest, TiedOutputNeedsNoTensorOfItsOwn) {
  ToyModelSpec spec = test::tiny_spec("qwen3");
  spec.tied = true;
  EXPECT_TRUE(check_file(write(spec)).empty());
  EXPECT_EQ(GgufFile(dir_.file("toy.gguf")).find_tensor("output.weight"), nullptr);
}

TEST_F(FamilyTest, FrequencyFactorsAreKnown) {
  ToyModelSpec spec = test::tiny_spec("llama");
  spec.rope_freqs = true;
  EXPECT_TRUE(check_file(write(spec)).empty());
  spec.rope_freqs = false;
  write(spec);
  expect_error(
      [&] {
        check_edited({.add = {{"rope_freqs.weight", GGML_TYPE_F32, {5}}}});
      },
      ErrorCode::bad_model_file, "tensor \"rope_freqs.weight\": found shape [5], allowed [4]");
}

TEST_F(FamilyTest, WrongShapes) {
  write(test::tiny_spec("qwen3"));
  const auto replaced = [](const std::string& name, std::vector<int64_t> shape) {
    return test::Edit{.drop = {name}, .add = {{name, GGML_TYPE_F32, std::move(shape)}}};
  };
  expect_error(
      [&] {
        check_edited(replaced("blk.0.attn_q.weight", {16, 8}));
      },
      ErrorCode::bad_model_file, "tensor \"blk.0.attn_q.weight\": found shape [16, 8], allowed [16, 16]");
  expect_error(
      [&] {
        check_edited(replaced("blk.0.attn_k.weight", {16, 16}));
      },
      ErrorCode::bad_model_file, "found shape [16, 16], allowed [16, 8]");
  expect_error([&] { check_edited(replaced("blk.0.attn_q_norm.weight", {16})); }, ErrorCode::bad_model_file,
               "found shape [16], allowed [8]");
  expect_error(
      [&] {
        check_edited(replaced("output.weight", {300, 16}));
      },
      ErrorCode::bad_model_file, "found shape [300, 16], allowed [16, 300]");
  expect_error(
      [&] {
        check_edited(replaced("blk.0.ffn_up.weight", {16, 16, 2}));
      },
      ErrorCode::bad_model_file, "found shape [16, 16, 2], allowed [16, 16]");
  EXPECT_TRUE(check_edited(replaced("blk.0.ffn_norm.weight", {16, 1})).empty());
}

TEST_F(FamilyTest, TypesThatTheGraphsCannotUse) {
  write(test::tiny_spec());
  const auto replaced = [](const std::string& name, std::vector<int64_t> shape, ggml_type type) {
    return test::Edit{.drop = {name}, .add = {{name, type, std::move(shape)}}};
  };
  expect_error([&] { check_edited(replaced("blk.0.attn_norm.weight", {16}, GGML_TYPE_F16)); },
               ErrorCode::bad_model_file, "tensor \"blk.0.attn_norm.weight\": found type f16, allowed f32");
  for (const ggml_type type : {GGML_TYPE_I8, GGML_TYPE_I32, GGML_TYPE_I64, GGML_TYPE_F64}) {
    expect_error(
        [&] {
          check_edited(replaced("blk.0.attn_q.weight", {16, 16}, type));
        },
        ErrorCode::unsupported,
        std::string("found type ") + ggml_type_name(type) + ", allowed f32, f16, bf16 or a quantised type");
  }
  EXPECT_TRUE(check_edited(replaced("blk.0.attn_q.weight", {16, 16}, GGML_TYPE_BF16)).empty());
}

TEST_F(FamilyTest, EveryWeightTypeThatToyModelsCanHave) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                               GGML_TYPE_Q5_0, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K}) {
    SCOPED_TRACE(ggml_type_name(type));
    ToyModelSpec spec = test::tiny_spec();
    spec.n_embd = 256;
    spec.n_ff = 256;
    spec.n_heads = 4;
    spec.head_dim = 64;
    spec.weight_type = type;
    EXPECT_TRUE(check_file(write(spec)).empty());
  }
}

TEST_F(FamilyTest, ExtraTensorsOfTheForwardPassAreRefusedOthersAreTold) {
  write(test::tiny_spec("qwen3"));
  for (const char* name : {"blk.0.attn_q.bias", "blk.0.ffn_gate_exps.weight", "blk.1.attn_norm.weight",
                           "blk.x", "output.bias", "token_embd_norm.weight", "rope_factors_long.weight"}) {
    SCOPED_TRACE(name);
    expect_error(
        [&] {
          check_edited({.add = {{name, GGML_TYPE_F32, {4}}}});
        },
        ErrorCode::unsupported, std::string("tensor \"") + name + "\" [4] is not one of architecture qwen3");
  }
  const std::vector<std::string> warnings =
      check_edited({.add = {{"v.patch_embd.weight", GGML_TYPE_F32, {4}}}});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0], "tensor \"v.patch_embd.weight\" [4] is not used");
}

TEST_F(FamilyTest, FewerLayersInTheHeaderThanInTheFile) {
  ToyModelSpec spec = test::tiny_spec();
  spec.n_layers = 2;
  write(spec);
  expect_error(
      [&] {
        check_edited({.keys = [](gguf_context* gguf) { gguf_set_val_u32(gguf, "llama.block_count", 1); }});
      },
      ErrorCode::unsupported, "with 1 layers");
  expect_error(
      [&] {
        check_edited({.keys = [](gguf_context* gguf) { gguf_set_val_u32(gguf, "llama.block_count", 3); }});
      },
      ErrorCode::bad_model_file, "tensor \"blk.2.attn_norm.weight\" is missing");
}

}  // namespace
}  // namespace kvase

// SPDX-License-Identifier: MIT
// Logits against libllama on the same file: f32 KV, no flash attention.
//
// Bound: the largest difference, as a share of the largest logit. With f32 weights both sides sum in f32, in
// different orders. With other weights ggml first rounds activations (to f16, bf16 or 8 bits), so that a
// last-bit difference moves a whole step: the bound is the rounding's own noise. libllama's two attention
// paths differ by as much from each other, which a test shows.
#include <gtest/gtest.h>
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "system/toy.h"

namespace kvase {
namespace {

double bound(ggml_type weight_type) {
  if (weight_type == GGML_TYPE_F32) return 2e-4;
  return weight_type == GGML_TYPE_F16 ? 2e-3 : 3e-2;
}

// libllama with the settings that leave nothing but f32 arithmetic between it and us.
class Peer {
 public:
  explicit Peer(const std::string& path, llama_flash_attn_type flash = LLAMA_FLASH_ATTN_TYPE_DISABLED) {
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    llama_model_params model_params = llama_model_default_params();
    model_.reset(llama_model_load_from_file(path.c_str(), model_params));
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 512;
    params.n_batch = 512;
    params.n_threads = params.n_threads_batch = 1;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = flash;
    if (model_) context_.reset(llama_init_from_model(model_.get(), params));
  }

  bool ok() const { return context_ != nullptr; }

  std::vector<float> feed(std::vector<Token> tokens) {
    const int status =
        llama_decode(context_.get(), llama_batch_get_one(tokens.data(), static_cast<int32_t>(tokens.size())));
    EXPECT_EQ(status, 0);
    const float* logits = llama_get_logits_ith(context_.get(), -1);
    return {logits, logits + llama_vocab_n_tokens(llama_model_get_vocab(model_.get()))};
  }

 private:
  template <auto Free>
  struct FreeWith {
    template <typename T>
    void operator()(T* object) const {
      Free(object);
    }
  };
  std::unique_ptr<llama_model, FreeWith<llama_model_free>> model_;
  std::unique_ptr<llama_context, FreeWith<llama_free>> context_;
};

EngineOptions full_f32(uint32_t n_ctx) {
  EngineOptions options;
  options.cache.policy = "full";
  options.cache.n_ctx = n_ctx;
  options.cache.type_k = options.cache.type_v = RowType::f32;
  options.n_threads = 1;  // spinning threads starve each other on a busy machine
  return options;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  for (size_t token = 0; token < a.size(); ++token)
    difference = std::max(difference, std::abs(double{a[token]} - b[token]));
  return difference;
}

double largest_magnitude(const std::vector<float>& logits) {
  return largest_difference(logits, std::vector<float>(logits.size(), 0.0F));
}

void expect_close(const std::vector<float>& ours, const std::vector<float>& theirs, ggml_type weight_type,
                  const std::string& when) {
  ASSERT_EQ(ours.size(), theirs.size());
  EXPECT_LE(largest_difference(ours, theirs), bound(weight_type) * largest_magnitude(theirs)) << when;
}

// A prompt in one step, then eight tokens one by one.
void expect_parity(const ToyModelSpec& spec, size_t n_tokens = 48) {
  const ToyFile file(spec);
  Peer peer(file.path());
  ASSERT_TRUE(peer.ok());
  Engine engine(file.load(), full_f32(512));
  const SequenceId sequence = engine.open({});
  const std::vector<Token> tokens = random_tokens(n_tokens, spec.n_vocab, 5);
  const std::vector<Token> prompt(tokens.begin(), tokens.end() - 8);
  expect_close(feed(engine, sequence, prompt), peer.feed(prompt), spec.weight_type, "after the prompt");
  for (size_t index = prompt.size(); index < tokens.size(); ++index) {
    const std::vector<Token> one = {tokens[index]};
    expect_close(feed(engine, sequence, one), peer.feed(one), spec.weight_type,
                 "after token " + std::to_string(index));
  }
}

struct Heads {
  uint32_t n_heads, n_kv_heads;
};

TEST(Parity, LlamaGroupsAndHeadSizes) {
  for (const Heads heads : {Heads{4, 4}, Heads{6, 2}, Heads{8, 2}, Heads{14, 2}, Heads{8, 1}}) {
    for (const uint32_t head_dim : {64U, 80U, 128U}) {
      for (const bool tied : {false, true}) {
        SCOPED_TRACE(testing::Message() << heads.n_heads << " heads on " << heads.n_kv_heads << ", head size "
                                        << head_dim << (tied ? ", tied" : ""));
        expect_parity(
            {.n_heads = heads.n_heads, .n_kv_heads = heads.n_kv_heads, .head_dim = head_dim, .tied = tied});
      }
    }
  }
}

TEST(Parity, LlamaWeightTypes) {
  for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                               GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_Q4_K,
                               GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS}) {
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(testing::Message() << ggml_type_name(type) << (tied ? ", tied" : ""));
      expect_parity({.n_embd = 256,
                     .n_heads = 4,
                     .n_kv_heads = 2,
                     .head_dim = 64,
                     .n_ff = 512,
                     .weight_type = type,
                     .tied = tied});
    }
  }
}

TEST(Parity, LlamaBiasesAndFrequencyFactors) {
  expect_parity({.head_dim = 64, .biases = true});
  expect_parity({.head_dim = 64, .rope_freqs = true});
}

// Every family, plain, with frequency factors, and with both scalings, at positions four times beyond the
// original context. In GGUF llama rotates neighbouring channels, qwen2 and qwen3 half against half; nothing
// in the file says so.
TEST(Parity, FamiliesWithAndWithoutRopeScalingPastTheKnee) {
  for (const char* architecture : {"llama", "qwen2", "qwen3"}) {
    for (const ToyRopeScaling scaling :
         {ToyRopeScaling::none, ToyRopeScaling::linear, ToyRopeScaling::yarn}) {
      for (const bool rope_freqs : {false, true}) {
        SCOPED_TRACE(testing::Message() << architecture << ", scaling " << static_cast<int>(scaling)
                                        << (rope_freqs ? ", factors" : ""));
        expect_parity({.architecture = architecture,
                       .n_embd = 256,
                       .n_heads = 4,
                       .n_kv_heads = 2,
                       .head_dim = 64,
                       .n_ctx_train = 256,
                       .tied = std::string(architecture) == "qwen3",
                       .rope_freqs = rope_freqs && std::string(architecture) == "llama",
                       .rope_scaling = scaling},
                      /*n_tokens=*/250);
      }
    }
  }
}

TEST(Parity, Qwen3HeadSizeComesFromTheFile) {
  expect_parity({.architecture = "qwen3", .n_embd = 128, .n_heads = 4, .n_kv_heads = 2, .head_dim = 128});
}

TEST(Parity, QwenWeightTypes) {
  for (const char* architecture : {"qwen2", "qwen3"}) {
    for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K}) {
      SCOPED_TRACE(testing::Message() << architecture << " " << ggml_type_name(type));
      expect_parity({.architecture = architecture,
                     .n_embd = 256,
                     .n_heads = 4,
                     .n_kv_heads = 2,
                     .head_dim = 64,
                     .weight_type = type,
                     .tied = true});
    }
  }
}

std::string demo_model() { return std::string(KVASE_SOURCE_DIR) + "/models/SmolLM2-135M-Instruct.Q4_1.gguf"; }

class DemoModel : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(demo_model())) << "scripts/fetch_model.sh fetches " << demo_model();
    model = std::make_unique<Model>(Model::load({.path = demo_model()}));
    engine = std::make_unique<Engine>(*model, full_f32(256));
  }
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
};

// A prompt whose every next token libllama prefers by at least 0.5; elsewhere its own two attention paths
// part ways.
TEST_F(DemoModel, Gives64GreedyTokensOfLibllama) {
  Peer peer(demo_model());
  ASSERT_TRUE(peer.ok());
  const std::vector<Token> prompt = model->tokenize("List the first ten prime numbers:", true, true);
  const std::vector<Token> ours = greedy(*engine, prompt, 64, {});
  std::vector<Token> theirs;
  std::vector<float> logits = peer.feed(prompt);
  while (theirs.size() < 64) {
    theirs.push_back(best(logits));
    logits = peer.feed({theirs.back()});
  }
  EXPECT_EQ(ours, theirs);
}

TEST_F(DemoModel, DiffersFromLibllamaNoMoreThanItsFlashAttentionDoes) {
  Peer plain(demo_model());
  Peer flash(demo_model(), LLAMA_FLASH_ATTN_TYPE_ENABLED);
  ASSERT_TRUE(plain.ok() && flash.ok());
  const SequenceId sequence = engine->open({});
  std::vector<Token> tokens = model->tokenize("The three laws of motion say that", true, true);
  double ours = 0;
  double theirs = 0;
  for (int step = 0; step < 48; ++step) {
    const std::vector<float> expected = plain.feed(tokens);
    ours = std::max(ours, largest_difference(feed(*engine, sequence, tokens), expected));
    theirs = std::max(theirs, largest_difference(flash.feed(tokens), expected));
    tokens = {best(expected)};
  }
  EXPECT_GT(theirs, 0) << "the peers must really take two paths";
  EXPECT_LE(ours, 2 * theirs);
}

}  // namespace
}  // namespace kvase

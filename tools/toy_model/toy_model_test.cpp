// SPDX-License-Identifier: MIT
// Tests of the toy models themselves: libllama runs every one, and greedy text varies.
#include "toy_model/toy_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "kvase/error.h"
#include "llama.h"

namespace kvase {
namespace {

std::string temp_file(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("kvase_toy_" + std::to_string(::getpid()) + "_" + name))
      .string();
}

std::vector<char> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct GreedyRun {
  std::vector<llama_token> tokens;
  bool finite = true;
};

// Greedy text by libllama; empty if it cannot load the model.
GreedyRun run_greedy(const std::string& path, size_t n_predict) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  GreedyRun run;
  llama_model* model = llama_model_load_from_file(path.c_str(), llama_model_default_params());
  if (model == nullptr) {
    return run;
  }
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 256;
  params.n_threads = 1;
  params.n_threads_batch = 1;
  llama_context* context = llama_init_from_model(model, params);
  const llama_vocab* vocab = llama_model_get_vocab(model);
  const int32_t n_vocab = llama_vocab_n_tokens(vocab);
  std::vector<llama_token> batch{'t', 'h', 'e', ' '};
  while (run.tokens.size() < n_predict) {
    EXPECT_EQ(llama_decode(context, llama_batch_get_one(batch.data(), static_cast<int32_t>(batch.size()))),
              0);
    const float* logits = llama_get_logits_ith(context, -1);
    run.finite =
        run.finite && std::all_of(logits, logits + n_vocab, [](float logit) { return std::isfinite(logit); });
    run.tokens.push_back(static_cast<llama_token>(std::max_element(logits, logits + n_vocab) - logits));
    batch = {run.tokens.back()};
  }
  llama_free(context);
  llama_model_free(model);
  return run;
}

void expect_lively(const std::string& name, const ToyModelSpec& spec) {
  SCOPED_TRACE(name);
  const std::string path = temp_file(name + ".gguf");
  write_toy_model(path, spec);
  const GreedyRun run = run_greedy(path, 40);
  ASSERT_EQ(run.tokens.size(), 40U) << "libllama does not load it";
  EXPECT_TRUE(run.finite);
  EXPECT_GE(std::set<llama_token>(run.tokens.begin(), run.tokens.end()).size(), 10U)
      << "greedy text is stuck";
  std::filesystem::remove(path);
}

TEST(ToyModel, EveryFamilyRunsInLibllamaAndItsTextVaries) {
  for (const char* architecture : {"llama", "qwen2", "qwen3"}) {
    ToyModelSpec spec;
    spec.architecture = architecture;
    if (spec.architecture == "qwen2") {
      spec.head_dim = 32;  // libllama's qwen2 has heads * head_dim == n_embd
    }
    expect_lively(architecture, spec);
    spec.tied = true;
    expect_lively(std::string(architecture) + "-tied", spec);
  }
}

TEST(ToyModel, EveryOptionRunsInLibllama) {
  ToyModelSpec spec;
  spec.biases = true;
  spec.rope_freqs = true;
  expect_lively("biases", spec);
  spec.rope_scaling = ToyRopeScaling::yarn;
  expect_lively("yarn", spec);
  spec.rope_scaling = ToyRopeScaling::linear;
  spec.vocab = ToyVocab::sentence_piece;
  expect_lively("spm", spec);
}

TEST(ToyModel, EveryWeightTypeRunsInLibllama) {
  ToyModelSpec spec;
  spec.architecture = "qwen3";
  spec.n_embd = 256;
  spec.head_dim = 64;
  for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q8_0,
                               GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL}) {
    spec.weight_type = type;
    expect_lively(ggml_type_name(type), spec);
  }
}

TEST(ToyModel, SameSeedSameBytes) {
  const std::string path = temp_file("seed.gguf");
  ToyModelSpec spec;
  write_toy_model(path, spec);
  const std::vector<char> first = read_file(path);
  write_toy_model(path, spec);
  EXPECT_EQ(first, read_file(path));
  spec.seed = 2;
  write_toy_model(path, spec);
  EXPECT_NE(first, read_file(path));
  std::filesystem::remove(path);
}

TEST(ToyModel, ImpossibleSpecsAreRefused) {
  const auto message = [](const ToyModelSpec& spec) -> std::string {
    try {
      write_toy_model(temp_file("never.gguf"), spec);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message({.architecture = "bert"}).find("allowed llama, qwen2, qwen3"), std::string::npos);
  EXPECT_NE(message({.n_kv_heads = 3}).find("KV heads"), std::string::npos);
  EXPECT_NE(message({.n_vocab = 299}).find("allowed at least 300"), std::string::npos);
  EXPECT_NE(
      message({.n_embd = 48, .weight_type = GGML_TYPE_Q8_0}).find("n_embd = 48, allowed a multiple of 32"),
      std::string::npos);
  EXPECT_NE(message({.weight_type = GGML_TYPE_IQ2_XXS}).find("importance matrix"), std::string::npos);
  EXPECT_NE(message({.weight_type = GGML_TYPE_Q8_K}).find("weight type q8_K"), std::string::npos);
  EXPECT_NE(message({.weight_type = GGML_TYPE_I32}).find("weight type i32"), std::string::npos);
  EXPECT_THROW(toy_shape("gpt-5"), Error);
  EXPECT_THROW(write_toy_model("/nowhere/toy.gguf", {}), Error);
}

}  // namespace
}  // namespace kvase

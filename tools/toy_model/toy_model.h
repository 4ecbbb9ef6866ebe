// SPDX-License-Identifier: MIT
// Writes small GGUF models with random weights: every architecture, head grouping, weight type and vocabulary
// that tests need.
//
// The same spec gives the same bytes. Weights are scaled so that activations stay near 1, attention is
// uneven, and greedy text does not get stuck on one token; control tokens get low logits, so that long runs
// are not cut short.
#pragma once

#include <cstdint>
#include <string>

#include "ggml.h"

namespace kvase {

enum class ToyVocab : uint8_t {
  byte_pair,  // gpt2: byte-level BPE, pre-tokenizer qwen2, <|endoftext|> <|im_start|> <|im_end|>, a ChatML
              // template
  byte_pair_no_special,  // the same without control tokens, template, start or end token
  sentence_piece,        // llama: <unk> <s> </s>, 256 byte tokens, scores
};

enum class ToyRopeScaling : uint8_t { none, linear, yarn };

struct ToyModelSpec {
  std::string architecture = "llama";  // llama, qwen2, qwen3
  std::string name = "toy";
  uint32_t n_layers = 2;
  uint32_t n_embd = 128;
  uint32_t n_heads = 4;
  uint32_t n_kv_heads = 2;
  uint32_t head_dim = 32;
  uint32_t n_ff = 256;
  uint32_t n_vocab = 512;  // at least 300
  uint32_t n_ctx_train = 4096;
  float rms_eps = 1e-5f;
  float freq_base = 10000.0f;
  ToyVocab vocab = ToyVocab::byte_pair;
  ggml_type weight_type = GGML_TYPE_F32;  // of matrices; rows must divide its blocks. Vectors are f32
  bool tied = false;                      // no output.weight
  bool biases = false;                    // llama: all its optional biases. qwen2 has its own in any case
  bool rope_freqs = false;                // frequency factors as Llama 3 has, from 1 to 8
  ToyRopeScaling rope_scaling = ToyRopeScaling::none;
  float rope_factor = 4.0f;  // of linear and yarn; the original context is n_ctx_train / factor
  uint64_t seed = 1;
};

// Writes the model row by row, so that memory stays small whatever its size.
// Throws Error(invalid_argument): an impossible spec, or a path that cannot be written.
void write_toy_model(const std::string& path, const ToyModelSpec& spec);

// The exact shape of a real model: "qwen3-0.6b", "smollm2-135m". Throws Error(invalid_argument) for another
// name.
ToyModelSpec toy_shape(const std::string& name);

}  // namespace kvase

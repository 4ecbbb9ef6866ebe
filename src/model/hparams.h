// SPDX-License-Identifier: MIT
// The numbers of a model that its graph needs, read from a GGUF file and checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/gguf_file.h"

namespace kvase {

enum class RopeScaling : uint8_t { none, linear, yarn };

// The arguments of ggml_rope_ext, ready to pass. They equal libllama's for the same file (llama-context.cpp):
// the file's scaling factor s gives freq_scale = 1/s; YaRN has ext_factor = 1, and attn_factor is divided by
// 1 + 0.1 ln s because ggml multiplies by it whenever ext_factor is not 0. YaRN's own magnitude 1 + 0.1 ln s
// is in attn_factor before that division, so what is left is the file's rope.scaling.attn_factor (default 1),
// and ggml's product has the magnitude once.
struct RopeParams {
  uint32_t n_rot = 0;  // dimensions of a head that are rotated
  RopeScaling scaling = RopeScaling::none;
  float freq_base = 10000.0f;
  float freq_scale = 1.0f;
  float ext_factor = 0.0f;
  float attn_factor = 1.0f;
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
  uint32_t n_ctx_orig = 0;  // context before scaling, tokens
};

struct HParams {
  std::string architecture;
  uint32_t n_layers = 0;
  uint32_t n_embd = 0;
  uint32_t n_ff = 0;
  uint32_t n_heads = 0;     // query heads
  uint32_t n_kv_heads = 0;  // divides n_heads
  uint32_t head_dim = 0;    // of keys and of values, even
  uint32_t n_vocab = 0;     // rows of token_embd.weight
  uint32_t n_ctx_train = 0;
  float rms_eps = 0.0f;
  float attention_scale = 0.0f;  // of q.k; the file's, else 1/sqrt(head_dim)
  RopeParams rope;
};

// Throws Error: bad_model_file (a key missing, of a wrong type, out of range, or against another),
// unsupported (a feature that would change the result: experts, sliding windows, per-layer sizes, unequal key
// and value sizes, long-context scalings). The architecture is only read here; find_family() says whether it
// is supported.
HParams read_hparams(const GgufFile& file);

// One line per key of this architecture that read_hparams() does not know. The text may differ from what its
// author meant.
std::vector<std::string> unknown_keys(const GgufFile& file, const std::string& architecture);

}  // namespace kvase

// SPDX-License-Identifier: MIT
// A model read from a GGUF file: its shape, its weights, its tokenizer.
//
// Loading checks the whole file before anything that could abort sees it. A Model is a shared handle,
// immutable and safe to use from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvase/options.h"

namespace kvase {

using Token = int32_t;

struct ModelInfo {
  std::string architecture;  // general.architecture
  std::string name;          // general.name, may be empty
  std::string path;
  uint32_t n_layers = 0;
  uint32_t n_heads = 0;     // query heads
  uint32_t n_kv_heads = 0;  // divides n_heads
  uint32_t head_dim = 0;    // of keys and of values
  uint32_t n_embd = 0;
  uint32_t n_ff = 0;
  uint32_t n_vocab = 0;
  uint32_t n_ctx_train = 0;           // trained context, tokens
  size_t weights_bytes = 0;           // tensors as stored in the file
  std::vector<std::string> warnings;  // e.g. tensors that this architecture does not use
};

// Reads and checks everything except the weights' values.
// Throws Error: bad_model_file, unsupported (an architecture or feature that is not there), invalid_argument
// (no such file).
ModelInfo read_model_info(const std::string& path);

// Weight matrices of one type and memory layout.
struct WeightKind {
  std::string type;       // ggml's name: "q4_1"
  bool repacked = false;  // rearranged for the CPU's kernels
  uint32_t count = 0;
  // A token's row of a product with these has the same bits whatever else is in the batch. If this holds for
  // all kinds, so does the promise of the same text beside other sequences (docs/decisions/0003).
  bool ignores_batch = false;
};

class Model {
 public:
  // Throws as read_model_info(), and out_of_memory.
  static Model load(const ModelOptions& options);

  const ModelInfo& info() const;
  std::vector<WeightKind> weight_kinds() const;

  // Token ids of UTF-8 text; any bytes are accepted. add_special: the vocabulary's own start token, if it has
  // one. parse_special: text such as "<|im_end|>" becomes its one token.
  std::vector<Token> tokenize(std::string_view text, bool add_special, bool parse_special) const;
  // The bytes of one token; may be part of a UTF-8 character. Control tokens give nothing unless `special`.
  std::string piece(Token token, bool special = false) const;
  bool is_end(Token token) const;  // ends the answer

  struct Impl;
  explicit Model(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace kvase

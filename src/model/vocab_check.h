// SPDX-License-Identifier: MIT
// Checks a file's vocabulary before libllama loads it, so that neither loading nor tokenizing can abort.
//
// After this check libllama may still refuse the vocabulary (an unknown pre-tokenizer), which it says with a
// null model.
#pragma once

#include <cstdint>
#include <string>

#include "tensor/gguf_file.h"

namespace kvase {

enum class VocabKind : uint8_t {
  byte_pair,       // tokenizer.ggml.model = gpt2: byte-level BPE with merges
  sentence_piece,  // tokenizer.ggml.model = llama: scores, byte fallback
};

struct VocabInfo {
  VocabKind kind = VocabKind::byte_pair;
  std::string pre;  // tokenizer.ggml.pre, may be empty
  // Whether the file names a start and an end token. Where it does not, libllama takes an id of its own (11
  // in BPE), which is an ordinary word: it must be neither added to a prompt nor end an answer.
  bool has_bos = false;
  bool has_eos = false;
};

// n_vocab: rows of the embedding. Throws Error: bad_model_file, unsupported (another kind of tokenizer).
VocabInfo check_vocab(const GgufFile& file, uint32_t n_vocab);

}  // namespace kvase

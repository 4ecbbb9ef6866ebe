// SPDX-License-Identifier: MIT
// Small vocabularies that libllama's tokenizers load.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "toy_model/toy_model.h"

namespace kvase {

struct ToyTokens {
  std::vector<std::string> texts;   // n_vocab of them, all different
  std::vector<int32_t> types;       // GGUF token types
  std::vector<float> scores;        // sentence_piece only
  std::vector<std::string> merges;  // byte pair only
  int32_t bos = -1, eos = -1;       // -1: none
  bool is_control(size_t id) const { return types[id] == 3; }
};

ToyTokens make_toy_tokens(ToyVocab vocab, uint32_t n_vocab);

}  // namespace kvase

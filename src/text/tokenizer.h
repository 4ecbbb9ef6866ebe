// SPDX-License-Identifier: MIT
// Text to token ids and back, by libllama's vocabulary of a GGUF file.
//
// Immutable after loading: const methods may run concurrently.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvase/model.h"

struct llama_model;
struct llama_vocab;

namespace kvase {

class Tokenizer {
 public:
  // Reads the vocabulary only. The file was checked before (src/model): libllama aborts on some bad
  // vocabularies, for example on a token that occurs twice. Throws Error: bad_model_file with libllama's
  // reason; unsupported for a vocabulary that is neither byte-level BPE nor SentencePiece.
  explicit Tokenizer(const std::string& path);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  uint32_t n_vocab() const { return n_vocab_; }

  // Any bytes are accepted. Bytes that are not UTF-8 become byte tokens, so that joining the pieces gives
  // them back; a byte-level vocabulary that lacks such a token gets U+FFFD. add_special: the start token
  // first, if the vocabulary asks for one and has one. No end token is ever added: what follows is to be
  // continued.
  std::vector<Token> tokenize(std::string_view text, bool add_special, bool parse_special) const;

  // The bytes of a token. Control and unknown tokens give nothing unless `special`.
  // Throws Error(invalid_argument) for an id outside the vocabulary.
  std::string piece(Token token, bool special = false) const;

  bool is_end(Token token) const;      // ends the answer; false for ids outside the vocabulary
  bool is_control(Token token) const;  // structure, never text; false for ids outside the vocabulary

  static constexpr Token kNone = -1;
  Token bos() const { return bos_; }  // the start token that tokenize() adds, or kNone

  const std::string& chat_template() const {
    return chat_template_;
  }  // Jinja source, empty if the file has none

 private:
  struct FreeModel {
    void operator()(llama_model* model) const;
  };

  void find_special_tokens();
  void find_byte_tokens();
  void append_valid(std::string_view text, bool parse_special, std::vector<Token>& tokens) const;
  void append_by_libllama(std::string_view text, bool parse_special, std::vector<Token>& tokens) const;
  void append_byte(uint8_t byte, std::vector<Token>& tokens) const;

  std::unique_ptr<llama_model, FreeModel> model_;
  const llama_vocab* vocab_ = nullptr;  // owned by model_
  uint32_t n_vocab_ = 0;
  // SentencePiece with all 256 byte tokens: libllama itself keeps invalid bytes. One flaw remains: a space
  // that follows a cut character comes back as U+2581, since libllama escapes spaces before it splits
  // characters. Splitting the text ourselves would be worse: SentencePiece puts a space in front of every
  // part.
  bool keeps_bytes_ = false;
  Token bos_ = kNone;
  Token no_end_ =
      kNone;  // an ordinary token that libllama takes for the end token because the file names none
  std::array<Token, 256> byte_tokens_{};  // kNone where the vocabulary has no token for that byte alone
  std::string chat_template_;
};

}  // namespace kvase

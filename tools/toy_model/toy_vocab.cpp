// SPDX-License-Identifier: MIT
// Builds the toy vocabularies: all bytes, some pairs, control tokens, and filler words up to the size asked
// for.
#include "toy_model/toy_vocab.h"

#include <fmt/format.h>

#include <array>

namespace kvase {

namespace {

enum TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6 };

// Left and right part of each merge, in rank order; every part is a byte or an earlier merge. '_' stands for
// a space.
constexpr std::array<std::array<const char*, 2>, 28> kMerges = {
    {{"h", "e"}, {"t", "he"}, {"_", "the"}, {"i", "n"},   {"a", "n"},   {"e", "r"},  {"o", "n"},
     {"_", "a"}, {"_", "t"},  {"r", "e"},   {"_", "s"},   {"_", "w"},   {"o", "u"},  {"in", "g"},
     {"_", "o"}, {"a", "t"},  {"e", "n"},   {"e", "s"},   {"o", "r"},   {"_", "c"},  {"_", "p"},
     {"i", "s"}, {"l", "l"},  {"an", "d"},  {"_", "and"}, {"u", "ser"}, {"s", "er"}, {"_", "is"}}};

std::string utf8(uint32_t code_point) {
  if (code_point < 0x80) {
    return {static_cast<char>(code_point)};
  }
  return {static_cast<char>(0xC0 | (code_point >> 6)), static_cast<char>(0x80 | (code_point & 0x3F))};
}

// GPT-2 writes each byte as a printable character: itself if printable in Latin-1, else the next one from
// U+0100 on.
std::vector<std::string> byte_characters() {
  std::vector<std::string> characters(256);
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    characters[byte] = utf8(printable ? byte : next++);
  }
  return characters;
}

std::string with_space(std::string text, const std::string& space) {
  if (text.starts_with('_')) {
    text.replace(0, 1, space);
  }
  return text;
}

void add(ToyTokens& tokens, std::string text, TokenType type) {
  tokens.texts.push_back(std::move(text));
  tokens.types.push_back(type);
}

// Words that no merge reaches: they come out of a model, never out of a text.
void fill(ToyTokens& tokens, uint32_t n_vocab, const std::string& space) {
  while (tokens.texts.size() < n_vocab) {
    add(tokens, fmt::format("{}w{}", space, tokens.texts.size()), kNormal);
  }
}

ToyTokens byte_pair_tokens(uint32_t n_vocab, bool special) {
  ToyTokens tokens;
  const std::vector<std::string> bytes = byte_characters();
  for (const std::string& character : bytes) {
    add(tokens, character, kNormal);
  }
  const std::string space = bytes[' '];
  // "user" needs "ser", which is ranked after it on purpose: libllama must find the order itself.
  for (const auto& [left, right] : kMerges) {
    const std::string left_text = with_space(left, space);
    tokens.merges.push_back(left_text + " " + right);
    add(tokens, left_text + right, kNormal);
  }
  if (special) {
    tokens.bos = static_cast<int32_t>(tokens.texts.size());
    add(tokens, "<|endoftext|>", kControl);
    add(tokens, "<|im_start|>", kControl);
    tokens.eos = static_cast<int32_t>(tokens.texts.size());
    add(tokens, "<|im_end|>", kControl);
  }
  fill(tokens, n_vocab, space);
  return tokens;
}

ToyTokens sentence_piece_tokens(uint32_t n_vocab) {
  const std::string space = "\xE2\x96\x81";  // U+2581
  ToyTokens tokens;
  add(tokens, "<unk>", kUnknown);
  add(tokens, "<s>", kControl);
  add(tokens, "</s>", kControl);
  tokens.bos = 1;
  tokens.eos = 2;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    add(tokens, fmt::format("<0x{:02X}>", byte), kByte);
  }
  add(tokens, space, kNormal);
  for (const char* const letter : {"e", "t", "a", "o", "i", "n"}) {
    add(tokens, letter, kNormal);
  }
  for (const auto& [left, right] : kMerges) {
    add(tokens, with_space(left, space) + right, kNormal);
  }
  fill(tokens, n_vocab, space);
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    tokens.scores.push_back(-static_cast<float>(id));
  }
  return tokens;
}

}  // namespace

ToyTokens make_toy_tokens(ToyVocab vocab, uint32_t n_vocab) {
  if (vocab == ToyVocab::sentence_piece) {
    return sentence_piece_tokens(n_vocab);
  }
  return byte_pair_tokens(n_vocab, vocab == ToyVocab::byte_pair);
}

}  // namespace kvase

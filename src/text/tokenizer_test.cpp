// SPDX-License-Identifier: MIT
// Tokenizers of two made-up vocabularies: byte-level BPE and SentencePiece, with and without their byte
// tokens.
#include "text/tokenizer.h"

#include <gguf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <random>

#include "base/errors.h"
#include "base/printable.h"
#include "text/deep_stack.h"
#include "text/utf8.h"

namespace kvase {
namespace {

enum TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6 };

struct Vocabulary {
  std::string model;          // tokenizer.ggml.model
  std::string pre = "gpt-2";  // tokenizer.ggml.pre
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
  std::vector<std::string> merges;
  bool add_bos = true;
  int32_t bos = -1;  // -1: not in the file
  int32_t eos = -1;
  std::string chat_template;

  Token add(const std::string& text, TokenType type = kNormal, float score = 0) {
    tokens.push_back(text);
    types.push_back(type);
    scores.push_back(score);
    return static_cast<Token>(tokens.size()) - 1;
  }
};

// The visible character that a byte-level vocabulary writes for a byte: printable Latin-1 as itself, the rest
// from U+0100 on.
std::string visible(int byte) {
  const auto printable = [](int b) { return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD); };
  int code_point = byte;
  if (!printable(byte)) {
    code_point = 0x100;
    for (int before = 0; before < byte; ++before) code_point += printable(before) ? 0 : 1;
  }
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | (code_point >> 6)), static_cast<char>(0x80 | (code_point & 0x3F))};
}

Vocabulary byte_level() {
  Vocabulary vocabulary;
  vocabulary.model = "gpt2";
  for (int byte = 0; byte < 256; ++byte) vocabulary.add(visible(byte));
  vocabulary.add("he");
  vocabulary.merges = {"h e"};
  vocabulary.bos = vocabulary.add("<|start|>", kControl);
  vocabulary.eos = vocabulary.add("<|im_end|>", kControl);
  vocabulary.chat_template = "{{ messages }}";
  return vocabulary;
}

Vocabulary sentence_piece(bool with_bytes) {
  Vocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.add("<unk>", kUnknown);
  vocabulary.bos = vocabulary.add("<s>", kControl);
  vocabulary.eos = vocabulary.add("</s>", kControl);
  for (int byte = 0; with_bytes && byte < 256; ++byte) vocabulary.add(fmt::format("<0x{:02X}>", byte), kByte);
  for (const char* text : {"\xE2\x96\x81", "h", "e", "he", "\n"}) vocabulary.add(text, kNormal, -1);
  return vocabulary;
}

class TokenizerTest : public testing::Test {
 protected:
  ~TokenizerTest() override { std::remove(path_.c_str()); }

  Tokenizer load(const Vocabulary& vocabulary) {
    write(vocabulary);
    return Tokenizer(path_);
  }

  void write(const Vocabulary& vocabulary) {
    gguf_context* file = gguf_init_empty();
    gguf_set_val_str(file, "general.architecture", "llama");
    gguf_set_val_str(file, "tokenizer.ggml.model", vocabulary.model.c_str());
    if (vocabulary.model == "gpt2") {
      gguf_set_val_str(file, "tokenizer.ggml.pre", vocabulary.pre.c_str());
      set_strings(file, "tokenizer.ggml.merges", vocabulary.merges);
    }
    set_strings(file, "tokenizer.ggml.tokens", vocabulary.tokens);
    gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, vocabulary.types.data(),
                      vocabulary.types.size());
    gguf_set_arr_data(file, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, vocabulary.scores.data(),
                      vocabulary.scores.size());
    gguf_set_val_bool(file, "tokenizer.ggml.add_bos_token", vocabulary.add_bos);
    if (vocabulary.bos >= 0)
      gguf_set_val_u32(file, "tokenizer.ggml.bos_token_id", static_cast<uint32_t>(vocabulary.bos));
    if (vocabulary.eos >= 0)
      gguf_set_val_u32(file, "tokenizer.ggml.eos_token_id", static_cast<uint32_t>(vocabulary.eos));
    if (!vocabulary.chat_template.empty()) {
      gguf_set_val_str(file, "tokenizer.chat_template", vocabulary.chat_template.c_str());
    }
    ASSERT_TRUE(gguf_write_to_file(file, path_.c_str(), /*only_meta=*/false));
    gguf_free(file);
  }

  const std::string path_ =
      testing::TempDir() + "kvase_" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".gguf";

 private:
  static void set_strings(gguf_context* file, const char* key, const std::vector<std::string>& strings) {
    std::vector<const char*> pointers;
    for (const std::string& text : strings) pointers.push_back(text.c_str());
    gguf_set_arr_str(file, key, pointers.data(), pointers.size());
  }
};

std::string join(const Tokenizer& tokenizer, const std::vector<Token>& tokens) {
  std::string bytes;
  for (const Token token : tokens) bytes += tokenizer.piece(token);
  return bytes;
}

TEST_F(TokenizerTest, ByteLevelIds) {
  const Tokenizer tokenizer = load(byte_level());
  EXPECT_EQ(tokenizer.n_vocab(), 259u);
  EXPECT_EQ(tokenizer.bos(), 257);
  EXPECT_EQ(tokenizer.chat_template(), "{{ messages }}");
  EXPECT_THAT(tokenizer.tokenize("hehh", false, false), testing::ElementsAre(256, 'h', 'h'));
  EXPECT_THAT(tokenizer.tokenize("he", true, false), testing::ElementsAre(257, 256));
  EXPECT_THAT(tokenizer.tokenize("", true, true), testing::ElementsAre(257));
  EXPECT_THAT(tokenizer.tokenize("", false, true), testing::IsEmpty());
  EXPECT_THAT(tokenizer.tokenize("h<|im_end|>h", false, true), testing::ElementsAre('h', 258, 'h'));
  EXPECT_EQ(join(tokenizer, tokenizer.tokenize("h<|im_end|>h", false, false)), "h<|im_end|>h");
  EXPECT_TRUE(tokenizer.is_end(258));
  EXPECT_FALSE(tokenizer.is_end('h'));
  EXPECT_FALSE(tokenizer.is_end(-1));
  EXPECT_FALSE(tokenizer.is_end(1 << 30));
  EXPECT_EQ(tokenizer.piece(258), "");
  EXPECT_EQ(tokenizer.piece(258, /*special=*/true), "<|im_end|>");
  EXPECT_EQ(tokenizer.piece(0), std::string(1, '\0'));
}

// ggml-org/llama.cpp#8691: half of a character threw. libllama now gives U+FFFD, which loses the bytes.
TEST_F(TokenizerTest, HalfACharacterBecomesByteTokens) {
  const Tokenizer byte_level_tokenizer = load(byte_level());
  EXPECT_THAT(byte_level_tokenizer.tokenize("\xE6\xAD", false, false), testing::ElementsAre(0xE6, 0xAD));
  EXPECT_THAT(byte_level_tokenizer.tokenize("he\xE6\xADhe", false, false),
              testing::ElementsAre(256, 0xE6, 0xAD, 256));
  const Tokenizer pieces = load(sentence_piece(true));
  EXPECT_THAT(pieces.tokenize("\xE6\xAD", false, false),
              testing::ElementsAre(testing::_, 3 + 0xE6, 3 + 0xAD));
}

TEST_F(TokenizerTest, AnyBytesComeBack) {
  const Tokenizer byte_level_tokenizer = load(byte_level());
  const Tokenizer pieces = load(sentence_piece(true));
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    for (size_t n = random() % 30; n > 0; --n)
      bytes += static_cast<char>(random() % 4 == 0 ? 'h' : random() % 256);
    EXPECT_EQ(join(byte_level_tokenizer, byte_level_tokenizer.tokenize(bytes, false, true)), bytes)
        << "round " << round;

    std::erase(bytes, ' ');  // see keeps_bytes_
    const std::string expected = bytes.empty() ? "" : " " + bytes;
    EXPECT_EQ(join(pieces, pieces.tokenize(bytes, false, true)), expected) << "round " << round;
  }
}

TEST_F(TokenizerTest, NoByteTokenGivesTheReplacementCharacter) {
  Vocabulary vocabulary = byte_level();
  vocabulary.tokens[0xE6] = "lost";
  const Tokenizer tokenizer = load(vocabulary);
  EXPECT_EQ(join(tokenizer, tokenizer.tokenize("h\xE6", false, false)), "h" + std::string(kReplacement));
}

TEST_F(TokenizerTest, CharacterThatCannotBeWrittenIsAnError) {
  const Tokenizer tokenizer = load(sentence_piece(false));
  EXPECT_THAT(tokenizer.tokenize("he", false, false), testing::SizeIs(2));
  try {
    tokenizer.tokenize("he?", false, false);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), testing::HasSubstr("vocabulary"));
  }
}

// ggml-org/llama.cpp#18321: a file without start and end tokens. libllama aborts when one is asked for.
TEST_F(TokenizerTest, FileWithoutStartAndEndTokens) {
  Vocabulary vocabulary = byte_level();
  vocabulary.bos = vocabulary.eos = -1;
  vocabulary.tokens[257] = "<|x|>";
  vocabulary.tokens[258] = "<|y|>";
  const Tokenizer tokenizer = load(vocabulary);
  EXPECT_EQ(tokenizer.bos(), Tokenizer::kNone);
  EXPECT_THAT(tokenizer.tokenize("he", true, true), testing::ElementsAre(256));
  for (Token token = 0; token < 259; ++token) EXPECT_FALSE(tokenizer.is_end(token)) << token;
}

TEST_F(TokenizerTest, StartTokenOnlyIfTheVocabularyAsksForIt) {
  Vocabulary vocabulary = byte_level();
  vocabulary.add_bos = false;
  const Tokenizer tokenizer = load(vocabulary);
  EXPECT_EQ(tokenizer.bos(), Tokenizer::kNone);
  EXPECT_THAT(tokenizer.tokenize("he", true, false), testing::ElementsAre(256));
}

TEST_F(TokenizerTest, TokenOutsideTheVocabularyIsAnError) {
  const Tokenizer tokenizer = load(byte_level());
  for (const Token token : {-1, 259, 1 << 30}) {
    EXPECT_THROW(tokenizer.piece(token), Error) << token;
  }
}

TEST_F(TokenizerTest, BadFilesSayWhy) {
  Vocabulary unknown = byte_level();
  unknown.model = "no-such-tokenizer";
  write(unknown);
  try {
    const Tokenizer tokenizer(path_);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_model_file);
    EXPECT_THAT(error.what(), testing::HasSubstr("no-such-tokenizer"));
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
  }
  std::ofstream(path_) << "not a model";
  EXPECT_THROW(Tokenizer{path_}, Error);
  EXPECT_THROW(Tokenizer{path_ + ".missing"}, Error);
}

TEST_F(TokenizerTest, OtherKindsOfVocabularyAreRefused) {
  Vocabulary none;
  none.model = "no_vocab";
  none.add("x");
  write(none);
  try {
    const Tokenizer tokenizer(path_);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), testing::HasSubstr("allowed: gpt2"));
  }
}

TEST_F(TokenizerTest, LongRunsOfOneCharacterDoNotOverflowTheStack) {
  for (const char* pre : {"gpt-2", "deepseek-llm"}) {  // the second by std::regex
    Vocabulary vocabulary = byte_level();
    vocabulary.pre = pre;
    const Tokenizer tokenizer = load(vocabulary);
    for (const char character : {'a', '1', '=', ' '}) {
      const std::string text(100000, character);
      EXPECT_EQ(join(tokenizer, tokenizer.tokenize(text, false, true)), text)
          << pre << ", character " << character;
    }
  }
}

TEST(DeepStack, PassesExceptionsThrough) {
  EXPECT_THROW(run_on_deep_stack(1, [] { invalid("as expected"); }), Error);
  bool ran = false;
  run_on_deep_stack(size_t{1} << 24, [&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(DeepStack, SaysIfThereIsNoMemoryForIt) {
  try {
    run_on_deep_stack(size_t{1} << 50, [] {});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
  }
}

}  // namespace
}  // namespace kvase

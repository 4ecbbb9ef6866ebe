// SPDX-License-Identifier: MIT
// Tests of check_vocab: every vocabulary on which libllama would abort is refused before.
#include "model/vocab_check.h"

#include <cmath>

#include "tensor/test_gguf.h"

namespace kvase {
namespace {

using test::expect_error;
using test::TempDir;

constexpr uint32_t kVocab = 300;

class VocabCheckTest : public ::testing::Test {
 protected:
  void write(ToyVocab vocab) {
    ToyModelSpec spec = test::tiny_spec();
    spec.vocab = vocab;
    write_toy_model(dir_.file("toy.gguf"), spec);
    const GgufFile file(dir_.file("toy.gguf"));
    tokens_ = *file.find_strings("tokenizer.ggml.tokens");
    types_.clear();
    const std::vector<int64_t> types = *file.find_integers("tokenizer.ggml.token_type");
    for (const int64_t type : types) {
      types_.push_back(static_cast<int32_t>(type));
    }
  }

  VocabInfo check(const std::function<void(gguf_context*)>& keys = [](gguf_context*) {}) {
    test::rewrite(dir_.file("toy.gguf"), dir_.file("edited.gguf"), {.keys = keys});
    return check_vocab(GgufFile(dir_.file("edited.gguf")), kVocab);
  }

  void expect_refused(const std::function<void(gguf_context*)>& keys, const std::string& part,
                      ErrorCode code = ErrorCode::bad_model_file) {
    expect_error([&] { check(keys); }, code, part);
  }

  TempDir dir_;
  std::vector<std::string> tokens_;
  std::vector<int32_t> types_;
};

void set_strings(gguf_context* gguf, const char* key, const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(text.c_str());
  }
  gguf_set_arr_str(gguf, key, pointers.data(), pointers.size());
}

void set_types(gguf_context* gguf, const std::vector<int32_t>& types) {
  gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
}

TEST_F(VocabCheckTest, GoodVocabularies) {
  write(ToyVocab::byte_pair);
  const VocabInfo byte_pair = check();
  EXPECT_EQ(byte_pair.kind, VocabKind::byte_pair);
  EXPECT_EQ(byte_pair.pre, "qwen2");
  EXPECT_TRUE(byte_pair.has_bos);
  EXPECT_TRUE(byte_pair.has_eos);
  write(ToyVocab::sentence_piece);
  EXPECT_EQ(check().kind, VocabKind::sentence_piece);
}

TEST_F(VocabCheckTest, NoStartAndNoEndTokenIsFine) {
  write(ToyVocab::byte_pair_no_special);
  const VocabInfo info = check();
  EXPECT_FALSE(info.has_bos);
  EXPECT_FALSE(info.has_eos);
}

TEST_F(VocabCheckTest, OtherTokenizers) {
  write(ToyVocab::byte_pair);
  for (const char* model : {"bert", "t5", "rwkv", "none", "plamo2", "gemma4", "hybriddna", "test", ""}) {
    expect_refused([&](gguf_context* gguf) { gguf_set_val_str(gguf, "tokenizer.ggml.model", model); },
                   std::string("found \"") + model + "\", allowed gpt2, llama", ErrorCode::unsupported);
  }
  expect_refused([](gguf_context* gguf) { gguf_remove_key(gguf, "tokenizer.ggml.model"); },
                 "key \"tokenizer.ggml.model\" is missing");
}

TEST_F(VocabCheckTest, PreTokenizersThatLookUpRawText) {
  write(ToyVocab::byte_pair);
  for (const char* pre : {"gemma4", "sarvam-moe", "whitespace", "granite-embed-multi-311m"}) {
    expect_refused([&](gguf_context* gguf) { gguf_set_val_str(gguf, "tokenizer.ggml.pre", pre); },
                   "allowed a byte-level pre-tokenizer", ErrorCode::unsupported);
  }
}

TEST_F(VocabCheckTest, Tokens) {
  write(ToyVocab::byte_pair);
  const char* key = "tokenizer.ggml.tokens";
  expect_refused([&](gguf_context* gguf) { gguf_remove_key(gguf, key); }, "tokens\" is missing");
  expect_refused([&](gguf_context* gguf) { gguf_set_val_str(gguf, key, "a"); },
                 "found str, allowed an array of str");
  expect_refused([&](gguf_context* gguf) { set_types(gguf, {}); }, "found 0 elements, allowed 300");
  auto fewer = tokens_;
  fewer.pop_back();
  expect_refused([&](gguf_context* gguf) { set_strings(gguf, key, fewer); },
                 "found 299 elements, allowed 300");
}

TEST_F(VocabCheckTest, TokensThatOccurTwice) {
  write(ToyVocab::byte_pair);
  const char* key = "tokenizer.ggml.tokens";
  auto twice = tokens_;
  twice[299] = twice[65];
  expect_refused([&](gguf_context* gguf) { set_strings(gguf, key, twice); },
                 "token 299 \"" + twice[65] + "\" is there twice");
  // Libllama invents a name for an empty token. One is fine; a second that equals the name is not.
  auto empty = tokens_;
  empty[298] = "";
  check([&](gguf_context* gguf) { set_strings(gguf, key, empty); });
  empty[299] = "[EMPTY_298]";
  expect_refused([&](gguf_context* gguf) { set_strings(gguf, key, empty); },
                 "token 299 \"[EMPTY_298]\" is there twice");
}

TEST_F(VocabCheckTest, TokenTypes) {
  write(ToyVocab::byte_pair);
  auto types = types_;
  types[7] = 7;
  expect_refused([&](gguf_context* gguf) { set_types(gguf, types); }, "token 7 has type 7, allowed 0..6");
  types[7] = 6;
  expect_refused([&](gguf_context* gguf) { set_types(gguf, types); }, "has the type of a byte");
  types.pop_back();
  expect_refused([&](gguf_context* gguf) { set_types(gguf, types); }, "found 299 elements");
  const std::vector<float> floats(kVocab);
  expect_refused(
      [&](gguf_context* gguf) {
        gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_FLOAT32, floats.data(), floats.size());
      },
      "found array of f32, allowed an array of i32");
  check([](gguf_context* gguf) { gguf_remove_key(gguf, "tokenizer.ggml.token_type"); });
}

TEST_F(VocabCheckTest, Scores) {
  write(ToyVocab::sentence_piece);
  std::vector<float> scores(kVocab);
  const auto set = [&](gguf_context* gguf) {
    gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(), scores.size());
  };
  check(set);
  scores[3] = std::nanf("");
  expect_refused(set, "found a score that is no number");
  scores.pop_back();
  expect_refused(set, "found 299 elements, allowed 300");
  expect_refused([](gguf_context* gguf) { gguf_set_val_u32(gguf, "tokenizer.ggml.scores", 1); },
                 "found u32, allowed an array of f32");
}

TEST_F(VocabCheckTest, Merges) {
  write(ToyVocab::byte_pair);
  const char* key = "tokenizer.ggml.merges";
  expect_refused([&](gguf_context* gguf) { gguf_remove_key(gguf, key); }, "merges\" is missing");
  for (const char* merge : {"", "ab", "a ", " b"}) {
    expect_refused(
        [&](gguf_context* gguf) {
          set_strings(gguf, key, {"h e", merge});
        },
        std::string("merge 1 is \"") + merge + "\"");
  }
  check([&](gguf_context* gguf) { set_strings(gguf, key, {}); });
}

TEST_F(VocabCheckTest, ByteFallbackMustBeComplete) {
  write(ToyVocab::sentence_piece);
  for (const size_t byte : {size_t{0}, size_t{10}, size_t{255}}) {
    auto tokens = tokens_;
    tokens[3 + byte] = "other";
    expect_refused(
        [&](gguf_context* gguf) {
          set_strings(gguf, "tokenizer.ggml.tokens", tokens);
          gguf_remove_key(gguf, "tokenizer.ggml.token_type");
        },
        "no token for byte <0x");
  }
}

TEST_F(VocabCheckTest, SpecialIdsOutsideTheVocabulary) {
  write(ToyVocab::byte_pair);
  for (const char* name : {"bos", "eos", "eot", "eom", "unknown"}) {
    SCOPED_TRACE(name);
    const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
    expect_refused([&](gguf_context* gguf) { gguf_set_val_u32(gguf, key.c_str(), kVocab); },
                   "found 300, allowed 0..299");
    expect_refused([&](gguf_context* gguf) { gguf_set_val_i32(gguf, key.c_str(), -1); },
                   "found -1, allowed 0..299");
  }
  // Some published files have such a padding id; nothing uses it.
  check([](gguf_context* gguf) { gguf_set_val_u32(gguf, "tokenizer.ggml.padding_token_id", kVocab); });
}

TEST_F(VocabCheckTest, ATokenThatMustBeAddedMustExist) {
  write(ToyVocab::byte_pair_no_special);
  for (const char* name : {"bos", "eos"}) {
    const std::string key = std::string("tokenizer.ggml.add_") + name + "_token";
    expect_refused([&](gguf_context* gguf) { gguf_set_val_bool(gguf, key.c_str(), true); },
                   std::string("tokenizer.ggml.") + name + "_token_id\" is missing");
    expect_refused([&](gguf_context* gguf) { gguf_set_val_u32(gguf, key.c_str(), 1); },
                   "found u32, allowed bool");
  }
}

TEST_F(VocabCheckTest, TemplateOfAnotherType) {
  write(ToyVocab::byte_pair);
  expect_refused([](gguf_context* gguf) { gguf_set_val_u32(gguf, "tokenizer.chat_template", 1); },
                 "key \"tokenizer.chat_template\": found u32, allowed str");
}

}  // namespace
}  // namespace kvase

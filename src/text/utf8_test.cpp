// SPDX-License-Identifier: MIT
// Hand-written cases, and two properties: cuts do not change the sum, and the output is always valid.
#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace kvase {
namespace {

std::string assemble(std::string_view bytes, const std::vector<size_t>& cuts = {}) {
  Utf8Assembler assembler;
  std::string text;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    text += assembler.push(bytes.substr(begin, cut - begin));
    EXPECT_EQ(find_invalid_utf8(text), std::nullopt) << "after " << cut << " bytes";
    begin = cut;
  }
  text += assembler.push(bytes.substr(begin));
  return text + assembler.flush();
}

TEST(Utf8, FindsTheFirstBadByte) {
  EXPECT_EQ(find_invalid_utf8(""), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("plain"), std::nullopt);
  EXPECT_EQ(
      find_invalid_utf8(
          "\x7F \xC2\x80 \xDF\xBF \xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80 \xF0\x90\x80\x80 \xF4\x8F\xBF\xBF"),
      std::nullopt);
  EXPECT_EQ(find_invalid_utf8("ab\xFF"), 2u);
  EXPECT_EQ(find_invalid_utf8("ab\x80"), 2u) << "a continuation byte alone";
  EXPECT_EQ(find_invalid_utf8("\xE6\xAD"), 0u) << "a cut character";
  EXPECT_EQ(find_invalid_utf8("\xC0\xAF"), 0u) << "overlong, 2 bytes";
  EXPECT_EQ(find_invalid_utf8("\xE0\x9F\xBF"), 0u) << "overlong, 3 bytes";
  EXPECT_EQ(find_invalid_utf8("\xF0\x8F\xBF\xBF"), 0u) << "overlong, 4 bytes";
  EXPECT_EQ(find_invalid_utf8("\xED\xA0\x80"), 0u) << "surrogate";
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0u) << "beyond U+10FFFF";
  EXPECT_EQ(find_invalid_utf8(std::string_view("a\0b", 3)), std::nullopt) << "NUL is a character";
}

TEST(Utf8Assembler, HoldsTheStartOfACharacter) {
  Utf8Assembler assembler;
  EXPECT_EQ(assembler.push("a\xF0\x9F"), "a");
  EXPECT_EQ(assembler.push("\x98"), "");
  EXPECT_EQ(assembler.push("\x80!"), "\xF0\x9F\x98\x80!");
  EXPECT_EQ(assembler.push("\xE6\xAD"), "");
  EXPECT_EQ(assembler.flush(), kReplacement);
  EXPECT_EQ(assembler.flush(), "");
}

// Unicode 15, section 3.9, tables 3-8 to 3-11: one U+FFFD for each maximal subpart.
TEST(Utf8Assembler, ReplacesMaximalSubparts) {
  const std::string r(kReplacement);
  EXPECT_EQ(assemble("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(assemble("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(assemble("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(assemble("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

std::vector<size_t> random_cuts(size_t n_bytes, std::mt19937& random) {
  std::vector<size_t> cuts;
  for (size_t offset = 0; offset <= n_bytes; ++offset) {
    if (random() % 3 == 0) cuts.push_back(offset);
  }
  return cuts;
}

TEST(Utf8Assembler, CutsDoNotChangeValidText) {
  const std::vector<std::string> characters = {
      "a", "\n", "\xC3\xA9", "\xE6\xAD\xA3", "\xF0\x9F\x98\x80", "\xEF\xBF\xBD"};
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (size_t n = random() % 20; n > 0; --n) text += characters[random() % characters.size()];
    ASSERT_EQ(assemble(text, random_cuts(text.size(), random)), text) << "round " << round;
  }
}

// ggml-org/llama.cpp#9195: invalid bytes of the model reached a JSON writer that threw.
TEST(Utf8Assembler, RandomBytesGiveValidTextWhateverTheCuts) {
  // Bytes that begin, continue and break characters are common here.
  const std::string bytes_to_draw = "\x41\x80\x9F\xA0\xBF\xC1\xC2\xE0\xE1\xED\xF0\xF1\xF4\xF5\xFF";
  std::mt19937 random(8);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (size_t n = random() % 24; n > 0; --n) bytes += bytes_to_draw[random() % bytes_to_draw.size()];
    const std::string whole = assemble(bytes);
    ASSERT_EQ(find_invalid_utf8(whole), std::nullopt) << "round " << round;
    ASSERT_EQ(assemble(bytes, random_cuts(bytes.size(), random)), whole) << "round " << round;
    if (!find_invalid_utf8(bytes)) {
      ASSERT_EQ(whole, bytes);
    }
  }
}

}  // namespace
}  // namespace kvase

// SPDX-License-Identifier: MIT
// Needles: where they are hidden, and when they count as found.
#include "eval/needle.h"

#include <gtest/gtest.h>

#include <set>

#include "kvase/error.h"

namespace kvase::eval {
namespace {

size_t count_words(std::string_view text) {
  size_t n_words = 0;
  for (const char character : text) n_words += character == ' ' ? 1 : 0;
  return n_words;
}

TEST(Needle, AllOfARunDiffer) {
  std::set<std::string> sentences, numbers;
  for (uint32_t number = 0; number < 20; ++number) {
    const Needle needle = make_needle(number);
    EXPECT_EQ(needle.number.size(), 5U);
    EXPECT_NE(needle.sentence().find(needle.number), std::string::npos);
    EXPECT_NE(needle.question().find(needle.place), std::string::npos);
    EXPECT_EQ(needle.question().find(needle.number), std::string::npos);
    EXPECT_TRUE(sentences.insert(needle.place).second) << needle.place;
    EXPECT_TRUE(numbers.insert(needle.number).second) << needle.number;
  }
}

TEST(Needle, SentencesJoinedAreTheText) {
  const std::string text = "One. Two 3.5 metres!  Three?\nFour";
  const auto sentences = split_sentences(text);
  ASSERT_EQ(sentences.size(), 4U);
  EXPECT_EQ(sentences[0], "One. ");
  EXPECT_EQ(sentences[1], "Two 3.5 metres!  ");
  std::string joined;
  for (const std::string& sentence : sentences) joined += sentence;
  EXPECT_EQ(joined, text);
}

TEST(Needle, MadeUpTextIsLongAndHasNoNumbers) {
  const std::string text = made_up_text(200, 7);
  EXPECT_EQ(split_sentences(text).size(), 200U);
  EXPECT_EQ(text.find_first_of("0123456789"), std::string::npos);
  EXPECT_EQ(text, made_up_text(200, 7));
  EXPECT_NE(text, made_up_text(200, 8));
}

TEST(Needle, IsHiddenAtItsDepthBetweenSentences) {
  const Haystack haystack(made_up_text(50, 1), count_words);
  const Needle needle = make_needle(3);
  size_t last = 0;
  for (const double depth : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const std::string text = haystack.with_needle(needle, 1000, depth, 17);
    const size_t found = text.find(needle.sentence());
    ASSERT_NE(found, std::string::npos) << depth;
    EXPECT_EQ(text.find(needle.sentence(), found + 1), std::string::npos);
    EXPECT_NEAR(static_cast<double>(count_words(text.substr(0, found))), 1000 * depth, 20) << depth;
    EXPECT_NEAR(static_cast<double>(count_words(text)), 1010, 30);
    EXPECT_TRUE(found == 0 || text.substr(found - 2, 2) == ". ") << depth;
    EXPECT_GE(found, last);
    last = found;
  }
  EXPECT_NE(haystack.with_needle(needle, 100, 0, 1), haystack.with_needle(needle, 100, 0, 2));
}

TEST(Needle, IsFoundAsANumberOfItsOwn) {
  const Needle needle{.place = "Oslo", .number = "12345"};
  for (const char* answer : {"12345", "It is 12345.", "12,345!", "no, 99999, or 12345"})
    EXPECT_TRUE(has_needle(answer, needle)) << answer;
  for (const char* answer : {"", "1234", "123456", "912345", "12 345", "12345678"})
    EXPECT_FALSE(has_needle(answer, needle)) << answer;
}

TEST(Needle, NoTextIsRefused) { EXPECT_THROW(Haystack(" \n", count_words), Error); }

}  // namespace
}  // namespace kvase::eval

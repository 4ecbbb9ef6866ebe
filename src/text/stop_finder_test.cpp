// SPDX-License-Identifier: MIT
// Hand-written cases, and random texts and cuts against a search over the whole text.
#include "text/stop_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "kvase/error.h"
#include "kvase/text.h"

namespace kvase {
namespace {

struct Outcome {
  std::string text;
  bool stopped = false;
  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << '"' << outcome.text << '"' << (outcome.stopped ? " stopped" : "");
}

Outcome stream(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopFinder finder(stops);
  Outcome outcome;
  for (const std::string& piece : pieces) outcome.text += finder.push(piece);
  outcome.stopped = finder.stopped();
  outcome.text += finder.flush();
  return outcome;
}

// The rule, by search: the first end of any stop string; of those that end there, the longest.
Outcome search(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string_view seen = std::string_view(text).substr(0, end);
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (seen.ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

std::vector<std::string> cut_at_random(const std::string& text, std::mt19937& random) {
  std::vector<std::string> pieces(1);
  for (const char byte : text) {
    if (random() % 3 == 0) pieces.emplace_back();
    pieces.back() += byte;
  }
  return pieces;
}

// ggml-org/llama.cpp#11538: a stop string spread over several tokens was never found.
TEST(StopFinder, StopStringOverSeveralTokens) {
  EXPECT_EQ(stream({"O P Q"}, {"G", " H", " I J K L M N", " O", " P", " Q", " R"}),
            (Outcome{"G H I J K L M N ", true}));
}

// vllm-project/vllm#3574: parts of a stop string were sent before it completed.
TEST(StopFinder, PartsOfAStopStringAreHeldBack) {
  StopFinder finder({"DEFGHIJ"});
  EXPECT_EQ(finder.push("ABC"), "ABC");
  EXPECT_EQ(finder.push("DEF"), "");
  EXPECT_EQ(finder.push("GHI"), "");
  EXPECT_FALSE(finder.stopped());
  EXPECT_EQ(finder.push("JKL"), "");
  EXPECT_TRUE(finder.stopped());
  EXPECT_EQ(finder.push("MNO"), "");
  EXPECT_EQ(finder.flush(), "");
}

TEST(StopFinder, WhatWaitedComesWhenItCannotBecomeAStopString) {
  StopFinder finder({"DEFGHIJ"});
  EXPECT_EQ(finder.push("ABCDE"), "ABC");
  EXPECT_EQ(finder.push("X"), "DEX");
  EXPECT_EQ(finder.push("DEF"), "");
  EXPECT_EQ(finder.flush(), "DEF");
  EXPECT_FALSE(finder.stopped());
}

TEST(StopFinder, FirstEndWinsThenTheLongest) {
  EXPECT_EQ(stream({"abcd", "bc"}, {"xabcdy"}), (Outcome{"xa", true}));
  EXPECT_EQ(stream({"c", "bc", "abc"}, {"xabc"}), (Outcome{"x", true}));
  EXPECT_EQ(stream({"second", "first"}, {"a first a second"}), (Outcome{"a ", true}));
}

TEST(StopFinder, OverlapWithItself) {
  EXPECT_EQ(stream({"aab"}, {"aaaab"}), (Outcome{"aa", true}));
  EXPECT_EQ(stream({"abab!"}, {"ab", "ab", "ab", "!"}), (Outcome{"ab", true}));
  EXPECT_EQ(stream({"\n\n"}, {"one\n", "two\n", "\n", "three"}), (Outcome{"one\ntwo", true}));
}

TEST(StopFinder, NoneGivenHoldsNothingBack) {
  StopFinder finder({});
  EXPECT_EQ(finder.push("abc"), "abc");
  EXPECT_EQ(finder.flush(), "");
  EXPECT_FALSE(finder.stopped());
}

TEST(StopFinder, HoldsWholeCharacters) {
  StopFinder finder({"\xC3\xA8!"});  // e with grave; e with acute begins with the same byte
  EXPECT_EQ(finder.push("\xC3\xA9"), "\xC3\xA9");
  EXPECT_EQ(finder.push("\xC3\xA8"), "");
  EXPECT_EQ(finder.push("?"), "\xC3\xA8?");
}

TEST(StopFinder, StreamEqualsSearchForRandomTextsAndCuts) {
  std::mt19937 random(11);
  int n_stopped = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto word = [&](size_t longest) {
      std::string text;
      for (size_t n = random() % longest; n > 0; --n) text += static_cast<char>('a' + random() % 3);
      return text;
    };
    std::vector<std::string> stops;
    for (size_t n = random() % 4; n > 0; --n)
      stops.push_back(word(7) + static_cast<char>('a' + random() % 3));
    const std::string text = word(60);
    const Outcome expected = search(stops, text);
    EXPECT_EQ(stream(stops, cut_at_random(text, random)), expected)
        << "round " << round << ", text " << text << ", stops " << testing::PrintToString(stops);
    n_stopped += expected.stopped ? 1 : 0;
  }
  EXPECT_GT(n_stopped, 500);
  EXPECT_LT(n_stopped, 2500);
}

TEST(StopFinder, NothingShownIsTakenBack) {
  std::mt19937 random(12);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int n = 0; n < 40; ++n) text += static_cast<char>('a' + random() % 2);
    const std::vector<std::string> stops = {"aabba", "bbbb"};
    const std::string expected = search(stops, text).text;
    StopFinder finder(stops);
    std::string shown;
    for (const std::string& piece : cut_at_random(text, random)) {
      shown += finder.push(piece);
      ASSERT_TRUE(expected.starts_with(shown)) << "round " << round << ", text " << text;
    }
  }
}

TEST(StopFinder, BadStopStringsAreRefused) {
  for (const auto& [stop, words] : {std::pair<std::string, std::string>{"", "at least one character"},
                                    std::pair<std::string, std::string>{"a\xFF", "UTF-8"}}) {
    try {
      check_stops({"fine", stop});
      ADD_FAILURE() << "no error for \"" << stop << '"';
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(error.what(), testing::HasSubstr("allowed: "));
      EXPECT_THAT(error.what(), testing::HasSubstr(words));
    }
    EXPECT_THROW(StopFinder({stop}), Error);
  }
}

}  // namespace
}  // namespace kvase

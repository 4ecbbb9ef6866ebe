// SPDX-License-Identifier: MIT
// The loop detector on texts whose loops are known.
#include "eval/loops.h"

#include <gtest/gtest.h>

#include <set>

namespace kvase::eval {
namespace {

std::vector<Token> varied(size_t n_tokens, Token first = 1000) {
  std::vector<Token> tokens;
  for (size_t at = 0; at < n_tokens; ++at) tokens.push_back(first + static_cast<Token>(at));
  return tokens;
}

std::vector<Token> repeated(const std::vector<Token>& block, size_t n_tokens) {
  std::vector<Token> tokens;
  for (size_t at = 0; at < n_tokens; ++at) tokens.push_back(block[at % block.size()]);
  return tokens;
}

std::vector<Token> joined(std::vector<Token> left, const std::vector<Token>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

TEST(Loops, FindsWhereARepetitionStarts) {
  for (const size_t period : {1, 2, 7, 100, 256}) {
    const size_t n_tokens = std::max<size_t>(64, 4 * period);
    const auto loop = find_loop(joined(varied(50), repeated(varied(period, 1), n_tokens)));
    ASSERT_TRUE(loop) << period;
    EXPECT_EQ(loop->begin, 50U) << period;
    EXPECT_EQ(loop->period, period);
    EXPECT_EQ(loop->n_tokens, n_tokens);
  }
}

TEST(Loops, OneTokenLessThanTheRuleIsNone) {
  EXPECT_FALSE(find_loop(joined(varied(50), repeated({1}, 63))));
  EXPECT_FALSE(find_loop(joined(varied(50), repeated(varied(100, 1), 399))));
  EXPECT_FALSE(find_loop(joined(varied(50), repeated(varied(257, 1), 2000))));
}

TEST(Loops, ACounterIsNone) {
  std::vector<Token> tokens;
  for (Token number = 0; number < 100; ++number) {
    for (const Token token : {1, 2, 100 + number, 3}) tokens.push_back(token);
  }
  EXPECT_FALSE(find_loop(tokens));
}

TEST(Loops, ALoopThatEndsCountsAndTheFirstOfTwoIsTaken) {
  const auto loop = find_loop(joined(joined(repeated({1, 2}, 80), varied(20)), repeated({7}, 90)));
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->begin, 0U);
  EXPECT_EQ(loop->period, 2U);
  EXPECT_EQ(loop->n_tokens, 80U);
}

TEST(Loops, TheShortestBlockNamesTheLoop) {
  const auto loop = find_loop(repeated({5}, 600));
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->period, 1U);
}

TEST(Loops, ShortTextsAreNone) {
  EXPECT_FALSE(find_loop({}));
  EXPECT_FALSE(find_loop(varied(1)));
}

TEST(Loops, PromptsHaveIdsOfTheirOwn) {
  std::set<std::string> ids;
  for (const LongPrompt& prompt : long_prompts()) EXPECT_TRUE(ids.insert(prompt.id).second) << prompt.id;
}

}  // namespace
}  // namespace kvase::eval

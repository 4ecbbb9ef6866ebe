// SPDX-License-Identifier: MIT
// Rows in the forms of GSM8K, MATH-500, AIME and HMMT, and rows that are refused.
#include "eval/questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvase/error.h"

namespace kvase::eval {
namespace {

TEST(Questions, ReadsEveryForm) {
  const auto questions = parse_questions(
      "{\"question\": \"How many?\", \"answer\": \"9 * 2 = <<9*2=18>>18\\n#### 1,018\"}\n"
      "\n"
      "{\"problem\": \" Where? \", \"solution\": \"so\", \"answer\": \"(3,4]\", \"unique_id\": "
      "\"a/b.json\"}\r\n"
      "{\"problem\": \"p\", \"answer\": 70, \"id\": 12}\n"
      "{\"problem\": \"q\", \"answer\": \"['70']\", \"id\": \"13\"}\n"
      "{\"problem\": \"r\", \"answer\": [\"71\"]}",
      "file");
  ASSERT_EQ(questions.size(), 5U);
  EXPECT_EQ(questions[0].id, "1");
  EXPECT_EQ(questions[0].gold, "1,018");
  EXPECT_EQ(questions[1].id, "a/b.json");
  EXPECT_EQ(questions[1].text, "Where?");
  EXPECT_EQ(questions[1].gold, "(3,4]");
  EXPECT_EQ(questions[2].id, "12");
  EXPECT_EQ(questions[2].gold, "70");
  EXPECT_EQ(questions[3].gold, "70");
  EXPECT_EQ(questions[4].id, "6");
  EXPECT_EQ(questions[4].gold, "71");
}

TEST(Questions, RefusesWithTheLine) {
  const auto message = [](const char* text) -> std::string {
    try {
      parse_questions(text, "file");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "";
  };
  using testing::HasSubstr;
  const std::string good = "{\"question\": \"q\", \"answer\": \"1\", \"id\": 1}\n";
  EXPECT_THAT(message((good + "nonsense").c_str()), HasSubstr("file: line 2: found no JSON object"));
  EXPECT_THAT(message("{\"answer\": \"1\"}"), HasSubstr("line 1: found no \"question\""));
  EXPECT_THAT(message("{\"question\": \"q\"}"), HasSubstr("line 1: found no \"answer\""));
  EXPECT_THAT(message("{\"question\": \"q\", \"answer\": \"x ####\"}"), HasSubstr("found no \"answer\""));
  EXPECT_THAT(message("{\"question\": \"q\", \"answer\": [1, 2]}"), HasSubstr("found no \"answer\""));
  EXPECT_THAT(message((good + good).c_str()), HasSubstr("line 2: found id \"1\" a second time"));
  EXPECT_THAT(message(" \n"), HasSubstr("found no questions"));
}

}  // namespace
}  // namespace kvase::eval

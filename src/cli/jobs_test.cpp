// SPDX-License-Identifier: MIT
// Job files, good and bad; and answer files that survive a stop.
#include "cli/jobs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kvase/error.h"

namespace kvase::cli {
namespace {

TEST(Jobs, IdsSeedsAndLineNumbers) {
  const auto jobs = parse_jobs(
      "{\"prompt\": \"a\"}\n\n{\"prompt\": \"b\", \"id\": 7, \"seed\": 3, \"extra\": []}\r\n{\"id\": \"x\", "
      "\"prompt\": \"c\"}",
      "f");
  ASSERT_EQ(jobs.size(), 3U);
  EXPECT_EQ(jobs[0].id, "1");
  EXPECT_EQ(jobs[1].id, "7");
  EXPECT_EQ(jobs[1].seed, 3U);
  EXPECT_EQ(jobs[2].id, "x");
  EXPECT_EQ(jobs[2].prompt, "c");
  EXPECT_FALSE(jobs[2].seed.has_value());
}

TEST(Jobs, BadLinesAreNamed) {
  struct Row {
    const char* text;
    const char* message;
  };
  for (const Row& row :
       {Row{"", "no prompts"}, Row{"\n \n", "line 2"},
        Row{"{\"prompt\": \"a\"}\n{", "line 2: found no JSON object"}, Row{"[1]", "line 1"},
        Row{"{\"prompt\": \"\"}", "found no prompt"}, Row{"{\"prompt\": 1}", "found no prompt"},
        Row{"{\"prompt\": \"a\", \"id\": 1.5}", "found id 1.5"},
        Row{"{\"prompt\": \"a\", \"seed\": -1}", "found seed -1"},
        Row{"{\"prompt\": \"a\", \"id\": 2}\n{\"prompt\": \"b\"}", "\"2\" a second time"}}) {
    try {
      parse_jobs(row.text, "jobs.jsonl");
      ADD_FAILURE() << row.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos) << error.what();
    }
  }
}

class AnswerFileTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path); }
  std::string content() const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string path =
      (std::filesystem::temp_directory_path() / ("kvase-answers-" + std::to_string(::getpid()))).string();
};

TEST_F(AnswerFileTest, TakesUpWhatIsThereAndDropsACutLine) {
  {
    AnswerFile file(path);
    EXPECT_EQ(file.size(), 0U);
    file.append("a", {{"id", "a"}, {"text", "1"}});
    file.append("7", {{"id", 7}, {"text", "2"}});
  }
  const std::string whole = content();
  std::ofstream(path, std::ios::app) << "{\"id\": \"cut";
  AnswerFile file(path);
  EXPECT_TRUE(file.has("a"));
  EXPECT_TRUE(file.has("7"));
  EXPECT_FALSE(file.has("cut"));
  EXPECT_EQ(content(), whole);
  file.append("b", {{"id", "b"}});
  EXPECT_EQ(content(), whole + "{\"id\":\"b\"}\n");
}

TEST_F(AnswerFileTest, RefusesAForeignFile) {
  std::ofstream(path) << "my notes\n";
  EXPECT_THROW(AnswerFile file(path), Error);
  EXPECT_EQ(content(), "my notes\n") << "nothing is lost";
  EXPECT_THROW(AnswerFile file("/proc/nowhere/answers"), Error);
}

}  // namespace
}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// Prompts that are refused, and why.
#include "cli/prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "kvase/error.h"

namespace kvase::cli {
namespace {

using testing::HasSubstr;

std::string error_of(const std::optional<std::string>& text, const std::optional<std::string>& path) {
  try {
    read_prompt(text, path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "no error";
}

class PromptFile : public testing::Test {
 protected:
  ~PromptFile() override { std::remove(path_.c_str()); }
  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  const std::string path_ =
      testing::TempDir() + "kvase_prompt_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST(Prompt, FromTheCommandLine) {
  EXPECT_EQ(read_prompt("text\n", std::nullopt), "text\n");
  EXPECT_THAT(error_of(std::nullopt, std::nullopt), HasSubstr("no prompt given"));
  EXPECT_THAT(error_of("a", "b"), HasSubstr("both given"));
  EXPECT_THAT(error_of("", std::nullopt), HasSubstr("empty prompt"));
  EXPECT_THAT(error_of("ab\xE6\xAD", std::nullopt), HasSubstr("byte 0xe6 at offset 2 is not UTF-8"));
}

TEST_F(PromptFile, OneNewlineAtTheEndIsDropped) {
  write("two\nlines\n\n");
  EXPECT_EQ(read_prompt(std::nullopt, path_), "two\nlines\n");
}

TEST_F(PromptFile, BadFilesAreRefused) {
  write("");
  EXPECT_THAT(error_of(std::nullopt, path_), HasSubstr("empty prompt"));
  write("\n");
  EXPECT_THAT(error_of(std::nullopt, path_), HasSubstr("empty prompt"));
  write(std::string("\xEF\xBB\xBF ok\0 \xFF", 9));
  EXPECT_THAT(error_of(std::nullopt, path_), HasSubstr("byte 0xff at offset 8"));
  EXPECT_THAT(error_of(std::nullopt, path_ + ".missing"), HasSubstr("No such file"));
  EXPECT_THAT(error_of(std::nullopt, testing::TempDir()), HasSubstr("directory"));
}

}  // namespace
}  // namespace kvase::cli

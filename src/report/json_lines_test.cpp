// SPDX-License-Identifier: MIT
// Rows survive a kill, a second start, and a second process.
#include "report/json_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "kvase/error.h"

namespace kvase::report {
namespace {

class JsonLinesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("kvase-lines-" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return (folder_ / "new" / "rows.jsonl").string(); }
  std::string content() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& text) const {
    std::filesystem::create_directories(folder_ / "new");
    std::ofstream(path(), std::ios::binary) << text;
  }
  std::string refusal(const Json& definition) const {
    try {
      const JsonLinesFile file(path(), definition);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "nothing was refused";
  }
  const Json definition_ = {{"model", "toy"}, {"n_tokens", 4096}};
  std::filesystem::path folder_;
};

TEST_F(JsonLinesTest, WritesDefinitionAndRowsAndTakesThemUp) {
  {
    JsonLinesFile file(path(), definition_);
    file.append("a", {{"kl", 0.5}});
  }
  JsonLinesFile again(path(), definition_);
  EXPECT_TRUE(again.has("a"));
  EXPECT_FALSE(again.has("b"));
  again.append("b", {{"kl", 1}});
  EXPECT_EQ(content(),
            "{\"definition\":{\"model\":\"toy\",\"n_tokens\":4096}}\n{\"key\":\"a\",\"kl\":0.5}\n{\"key\":"
            "\"b\",\"kl\":1}\n");
  ASSERT_EQ(again.rows().size(), 2U);
  EXPECT_EQ(again.rows()[1]["kl"], 1);
}

TEST_F(JsonLinesTest, DropsATornLastLineWhereverItWasCut) {
  const std::string first = "{\"definition\":{\"model\":\"toy\",\"n_tokens\":4096}}\n";
  const std::string whole = first + "{\"key\":\"a\"}\n{\"key\":\"b\"}\n";
  for (size_t length = 0; length <= whole.size(); ++length) {
    write(whole.substr(0, length));
    JsonLinesFile file(path(), definition_);
    if (!file.has("a")) file.append("a", Json::object());
    if (!file.has("b")) file.append("b", Json::object());
    EXPECT_EQ(content(), whole) << "cut after " << length << " bytes";
  }
}

TEST_F(JsonLinesTest, RefusesAnotherDefinition) {
  { const JsonLinesFile file(path(), definition_); }
  EXPECT_THAT(refusal({{"model", "toy"}, {"n_tokens", 2048}}),
              testing::HasSubstr("found rows with n_tokens 4096, this run has 2048, allowed: the same"));
  EXPECT_THAT(refusal({{"model", "toy"}, {"n_tokens", 4096}, {"interval", 64}}),
              testing::HasSubstr("found rows with interval none, this run has 64"));
}

TEST_F(JsonLinesTest, RefusesAFileThatIsSomethingElse) {
  write("hello\n");
  EXPECT_THAT(refusal(definition_), testing::HasSubstr("line 1: found no JSON object with a definition"));
  write(R"({"definition":{"model":"toy","n_tokens":4096}})"
        "\n{\"kl\":1}\n");
  EXPECT_THAT(refusal(definition_), testing::HasSubstr("line 2: found no JSON object with a key"));
  write(R"({"definition":{"model":"toy","n_tokens":4096}})"
        "\n{\"key\":\"a\"}\n{\"key\":\"a\"}\n");
  EXPECT_THAT(refusal(definition_), testing::HasSubstr("line 3: found key \"a\" a second time"));
}

TEST_F(JsonLinesTest, OneWriterAtATime) {
  const JsonLinesFile file(path(), definition_);
  EXPECT_THAT(refusal(definition_), testing::HasSubstr("another process writes to it"));
}

TEST_F(JsonLinesTest, ReadsWithoutTouching) {
  write("{\"definition\":{\"n\":1}}\n{\"key\":\"a\"}\n{\"ke");
  const JsonLines lines = read_json_lines(path());
  EXPECT_EQ(lines.definition["n"], 1);
  EXPECT_EQ(lines.rows.size(), 1U);
  EXPECT_THAT(content(), testing::EndsWith("{\"ke"));
  EXPECT_THROW(read_json_lines(path() + ".none"), Error);
}

}  // namespace
}  // namespace kvase::report

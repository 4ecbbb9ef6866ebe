// SPDX-License-Identifier: MIT
// Every item is done once, by whichever shard, whatever was done before.
#include "eval/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "kvase/error.h"

namespace kvase::eval {
namespace {

struct Item {
  std::string key;
};

class WorkTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string sub(const std::string& name) const { return (folder_ / name).string(); }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("kvase-work-" + std::to_string(::getpid()));
  const std::vector<Item> items_ = {{"a"}, {"b"}, {"c"}, {"d"}, {"e"}};
  const Json definition_ = {{"kind", "test"}};
};

TEST(Shard, ReadsAndRefuses) {
  EXPECT_EQ(parse_shard("2/8").index, 2U);
  EXPECT_EQ(parse_shard("2/8").count, 8U);
  for (const char* bad : {"", "1", "0/2", "3/2", "1/0", "a/2", "1/2/3", "1/", "/2", "-1/2", "1/1000000"})
    EXPECT_THROW(parse_shard(bad), Error) << bad;
}

TEST_F(WorkTest, ShardsCoverEverythingOnce) {
  const RowStore empty(std::nullopt, definition_);
  std::multiset<std::string> keys;
  for (uint32_t index = 1; index <= 3; ++index) {
    for (const Item& item : remaining(items_, {index, 3}, empty)) keys.insert(item.key);
  }
  EXPECT_THAT(keys, testing::ElementsAre("a", "b", "c", "d", "e"));
}

TEST_F(WorkTest, WhatHasARowIsNotDoneAgain) {
  {
    RowStore store(sub("run"), definition_);
    store.append("b", {{"value", 1}});
  }
  RowStore store(sub("run"), definition_);
  std::vector<std::string> keys;
  for (const Item& item : remaining(items_, {}, store)) keys.push_back(item.key);
  EXPECT_THAT(keys, testing::ElementsAre("a", "c", "d", "e"));
  EXPECT_EQ(store.lines().rows.size(), 1U);
}

TEST_F(WorkTest, AKeyTwiceIsRefused) {
  const RowStore empty(std::nullopt, definition_);
  EXPECT_THROW(remaining(std::vector<Item>{{"a"}, {"a"}}, {}, empty), Error);
}

TEST_F(WorkTest, MergesFoldersOfOneDefinition) {
  RowStore(sub("1"), definition_).append("a", {{"value", 1}});
  {
    RowStore second(sub("2"), definition_);
    second.append("a", {{"value", 9}});
    second.append("b", {{"value", 2}});
  }
  RowStore(sub("3"), Json{{"kind", "other"}});
  const JsonLines merged = merge_rows({sub("1"), sub("2")});
  ASSERT_EQ(merged.rows.size(), 2U);
  EXPECT_EQ(merged.rows[0]["value"], 1);
  EXPECT_EQ(merged.rows[1]["value"], 2);
  EXPECT_THROW(merge_rows({sub("1"), sub("3")}), Error);
  EXPECT_THROW(merge_rows({sub("none")}), Error);
}

TEST_F(WorkTest, WithoutAFolderRowsAreInMemory) {
  RowStore store(std::nullopt, definition_);
  store.append("a", {{"value", 1}});
  EXPECT_EQ(store.lines().rows.front().dump(), R"({"key":"a","value":1})");
}

TEST(Fingerprint, TellsInputsApart) {
  EXPECT_EQ(fingerprint(""), "cbf29ce484222325");
  EXPECT_NE(fingerprint("a"), fingerprint("b"));
}

}  // namespace
}  // namespace kvase::eval

// SPDX-License-Identifier: MIT
// Numbers and tables, at their edges.
#include "cli/format.h"

#include <gtest/gtest.h>

namespace kvase::cli {
namespace {

TEST(Format, Commas) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(48660480), "48,660,480");
  EXPECT_EQ(with_commas(18446744073709551615u), "18,446,744,073,709,551,615");
}

TEST(Format, Bytes) {
  EXPECT_EQ(human_bytes(0), "0 bytes");
  EXPECT_EQ(human_bytes(1023), "1023 bytes");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(48660480), "46.4 MiB");
  EXPECT_EQ(human_bytes(uint64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(human_bytes(uint64_t{5000} << 40), "5000.0 TiB");
}

TEST(Format, SecondsAndRates) {
  EXPECT_EQ(human_seconds(0.0124), "12 ms");
  EXPECT_EQ(human_seconds(12.34), "12.3 s");
  EXPECT_EQ(human_seconds(245), "4 min 05 s");
  EXPECT_EQ(human_rate(10, 4, "tokens"), "2.5 tokens/s");
  EXPECT_EQ(human_rate(0, 4, "tokens"), "-");
  EXPECT_EQ(human_rate(10, 0, "tokens"), "-");
}

TEST(Format, Wrap) {
  EXPECT_EQ(wrap("", 5), "");
  EXPECT_EQ(wrap("ab cd ef", 5), "ab cd\nef");
  EXPECT_EQ(wrap("abcdefg hi", 5), "abcdefg\nhi");
  EXPECT_EQ(wrap("a abcdefg", 5), "a\nabcdefg");
}

TEST(Format, Table) {
  EXPECT_EQ(
      table({Align::left, Align::right}, {{"POLICY", "BYTES"}, {"full", "1,000"}, {"vase-attnv", "20"}}),
      "POLICY      BYTES\n"
      "----------  -----\n"
      "full        1,000\n"
      "vase-attnv     20\n");
}

}  // namespace
}  // namespace kvase::cli

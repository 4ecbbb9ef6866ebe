// SPDX-License-Identifier: MIT
// Arguments: names, numbers that must not wrap, and complaints of one line.
#include "cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "cli/messages.h"

namespace kvase::cli {
namespace {

using testing::HasSubstr;

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "no error";
}

TEST(WithLongNames, RenamesFlagsButNeverValues) {
  EXPECT_EQ(with_long_names({"-ub", "8", "-ctk", "f32"}),
            (Arguments{"--ubatch-size", "8", "--cache-type-k", "f32"}));
  EXPECT_EQ(with_long_names({"-p", "-ub"}), (Arguments{"-p", "-ub"})) << "a prompt";
  EXPECT_EQ(with_long_names({"--json", "-ub", "8"}), (Arguments{"--json", "--ubatch-size", "8"}));
  EXPECT_EQ(with_long_names({"--temp=1", "-ub", "8"}), (Arguments{"--temp=1", "--ubatch-size", "8"}));
  EXPECT_EQ(with_long_names({"-n5", "-ub", "8"}), (Arguments{"-n5", "--ubatch-size", "8"}));
  EXPECT_EQ(with_long_names({"-n", "-1", "-ub", "8"}), (Arguments{"-n", "-1", "--ubatch-size", "8"}));
}

TEST(ParseNumber, TakesWholeNumbersThatFit) {
  EXPECT_EQ(parse_number<uint32_t>("--n", "4294967295"), 4294967295u);
  EXPECT_EQ(parse_number<uint64_t>("--seed", "18446744073709551615"), 18446744073709551615u);
  EXPECT_EQ(parse_number<int64_t>("--n", "-1"), -1);
  EXPECT_FLOAT_EQ(parse_number<float>("--temp", "1e-3"), 0.001f);
}

TEST(ParseNumber, RefusesEverythingElse) {
  for (const char* text : {"", "-1", "4294967296", "99999999999999999999", "abc", "12abc", " 12", "12 ",
                           "0x10", "1.5", "1e3", "+1"}) {
    EXPECT_THAT(
        error_of([&] { parse_number<uint32_t>("--kv-window", text); }),
        HasSubstr(std::string("--kv-window \"") + text + "\", allowed: a whole number from 0 to 4294967295"));
  }
  for (const char* text : {"", "abc", "1e999", "1,5", "0.5x"}) {
    EXPECT_THAT(error_of([&] { parse_number<float>("--temp", text); }), HasSubstr("--temp \"")) << text;
  }
}

class ParseTest : public testing::Test {
 protected:
  ParseTest() : app_("Test.", "kvase test") {
    add_number<uint32_t>(app_, "-n,--number", number_, "A number");
    app_.add_option("-p,--prompt", prompt_, "Text");
    app_.add_flag("--json", json_, "Flag");
  }

  CLI::App app_;
  std::optional<uint32_t> number_;
  std::string prompt_;
  bool json_ = false;
};

TEST_F(ParseTest, ReadsValues) {
  EXPECT_TRUE(parse(app_, {"--json", "-n", "7", "-p", "text"}));
  EXPECT_EQ(number_, 7u);
  EXPECT_EQ(prompt_, "text");
  EXPECT_TRUE(json_);
}

TEST_F(ParseTest, TextIsTakenAsItIs) {
  for (const char* text :
       {"[INST] a, b [/INST]", "\"quoted\"", "'quoted'", "--json", "-1", "{a,b}", "two words", "%x\\n"}) {
    EXPECT_TRUE(parse(app_, {"-p", text}));
    EXPECT_EQ(prompt_, text);
    EXPECT_FALSE(json_);
  }
}

TEST_F(ParseTest, ComplaintsNameTheCulprit) {
  EXPECT_THAT(error_of([&] { parse(app_, {"--bogus"}); }),
              HasSubstr("unknown argument \"--bogus\", see: kvase test --help"));
  EXPECT_THAT(error_of([&] { parse(app_, {"stray"}); }), HasSubstr("\"stray\""));
  EXPECT_THAT(error_of([&] { parse(app_, {"--number"}); }), HasSubstr("--number without a value"));
  EXPECT_THAT(error_of([&] { parse(app_, {"-n"}); }), HasSubstr("--number without a value"));
  EXPECT_THAT(error_of([&] {
                parse(app_, {"-n", "1", "-n", "2"});
              }),
              HasSubstr("--number given more than once"));
  EXPECT_THAT(error_of([&] { parse(app_, {"-n", "-3"}); }), HasSubstr("--number \"-3\""));
}

TEST(OneLine, TakesControlCharactersOut) { EXPECT_EQ(one_line("a\nb\r\tc\x1B[0m"), "a?b??c?[0m"); }

TEST(CommandLine, QuotesWhatAShellWouldTakeApart) {
  EXPECT_EQ(command_line("kvase run", {"-p", "it's two", "", "--kv", "snapkv:smooth=max,kernel=7"}),
            R"(kvase run -p 'it'\''s two' '' --kv snapkv:smooth=max,kernel=7)");
}

TEST(SplitCommas, KeepsEmptyParts) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(split_commas(""), Parts{""});
  EXPECT_EQ(split_commas("a"), Parts{"a"});
  EXPECT_EQ(split_commas("1,,2,"), (Parts{"1", "", "2", ""}));
}

}  // namespace
}  // namespace kvase::cli

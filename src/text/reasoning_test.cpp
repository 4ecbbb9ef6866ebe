// SPDX-License-Identifier: MIT
// Hand-written answers, and random ones: however the stream is cut, thinking and answer are those of the
// whole text.
#include "text/reasoning.h"

#include <gtest/gtest.h>

#include <ostream>
#include <random>

#include "kvase/error.h"

namespace kvase {
namespace {

struct Fields {
  std::string thinking;
  std::string answer;
  bool operator==(const Fields&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Fields& fields) {
  return out << "thinking \"" << fields.thinking << "\", answer \"" << fields.answer << '"';
}

void add(const std::vector<TextPart>& parts, Fields& fields) {
  for (size_t index = 0; index < parts.size(); ++index) {
    EXPECT_FALSE(parts[index].text.empty());
    EXPECT_TRUE(index == 0 || parts[index].thinking != parts[index - 1].thinking);
    (parts[index].thinking ? fields.thinking : fields.answer) += parts[index].text;
  }
}

Fields split(const std::vector<std::string>& pieces, bool starts_inside = false,
             const ReasoningMarks& marks = {}) {
  ReasoningSplitter splitter(marks, starts_inside);
  Fields fields;
  for (const std::string& piece : pieces) add(splitter.push(piece), fields);
  add(splitter.flush(), fields);
  return fields;
}

constexpr const char* kSpaces = " \n\r\t";

std::string without_spaces_in_front(const std::string& text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  return begin == std::string::npos ? "" : text.substr(begin);
}

// The rule, by search in the whole text; only for texts whose thinking is closed or absent.
Fields split_whole(const std::string& text, bool starts_inside, const ReasoningMarks& marks) {
  std::string rest = without_spaces_in_front(text);
  if (!starts_inside) {
    if (!rest.starts_with(marks.open)) return {"", text};
    rest = rest.substr(marks.open.size());
  }
  const size_t end = rest.find(marks.close);
  std::string thinking = without_spaces_in_front(rest.substr(0, end));
  thinking.resize(thinking.find_last_not_of(kSpaces) + 1);
  return {thinking, without_spaces_in_front(rest.substr(end + marks.close.size()))};
}

std::vector<std::string> cut_at_random(const std::string& text, std::mt19937& random) {
  std::vector<std::string> pieces(1);
  for (const char byte : text) {
    if (random() % 3 == 0) pieces.emplace_back();
    pieces.back() += byte;
  }
  return pieces;
}

TEST(ReasoningSplitter, ThinkingThenAnswer) {
  EXPECT_EQ(split({"<think>\nTwo and two.\n</think>\n\nFour."}), (Fields{"Two and two.", "Four."}));
  EXPECT_EQ(split({"\n<think>a\n\nb</think>c \n"}), (Fields{"a\n\nb", "c \n"}));
  EXPECT_EQ(split({"<think>\n\n</think>\n\nHi"}), (Fields{"", "Hi"})) << "an empty thought";
}

TEST(ReasoningSplitter, NoThinkingIsLeftAlone) {
  EXPECT_EQ(split({"Four.\n"}), (Fields{"", "Four.\n"}));
  EXPECT_EQ(split({"\n\n Four"}), (Fields{"", "\n\n Four"}));
  EXPECT_EQ(split({"", " \n"}), (Fields{"", " \n"}));
  EXPECT_EQ(split({}), (Fields{"", ""}));
}

TEST(ReasoningSplitter, TextAboutMarksIsText) {
  EXPECT_EQ(split({"Models write <think> and </think>."}),
            (Fields{"", "Models write <think> and </think>."}));
  EXPECT_EQ(split({"<think>a</think>Then <think>b</think>"}), (Fields{"a", "Then <think>b</think>"}));
  EXPECT_EQ(split({"<think>a</think><think>b</think>"}), (Fields{"a", "<think>b</think>"}));
  EXPECT_EQ(split({"<think>I write <think> here</think>c"}), (Fields{"I write <think> here", "c"}));
  EXPECT_EQ(split({"</think>a"}), (Fields{"", "</think>a"}));
  EXPECT_EQ(split({" <thin"}), (Fields{"", " <thin"}));
  EXPECT_EQ(split({"<thing>"}), (Fields{"", "<thing>"}));
}

// ggml-org/llama.cpp#11861: the template opens the thinking, the answer has no opening mark.
TEST(ReasoningSplitter, ThinkingOpenedByTheTemplate) {
  EXPECT_EQ(split({"\nTwo.\n</think>\n\nFour."}, true), (Fields{"Two.", "Four."}));
  EXPECT_EQ(split({"</think>Four."}, true), (Fields{"", "Four."}));
}

TEST(ReasoningSplitter, ThinkingThatIsCutOff) {
  EXPECT_EQ(split({"<think>\nLong"}), (Fields{"Long", ""}));
  EXPECT_EQ(split({"Long\n</thi"}, true), (Fields{"Long\n</thi", ""}));
  EXPECT_EQ(split({"</t"}, true), (Fields{"</t", ""}));
  EXPECT_EQ(split({"\n \n"}, true), (Fields{"", ""}));
}

// ggml-org/llama.cpp#13867: split in the plain answer, not while streaming. Here one byte at a time.
TEST(ReasoningSplitter, MarksCutIntoBytes) {
  std::vector<std::string> bytes;
  for (const char byte : std::string("<think>\n< a </ b </think </think>\n\n c")) bytes.emplace_back(1, byte);
  EXPECT_EQ(split(bytes), (Fields{"< a </ b </think", "c"}));
}

TEST(ReasoningSplitter, ShowsTextAtOnce) {
  ReasoningSplitter splitter({}, false);
  EXPECT_TRUE(splitter.push("<think>").empty());
  EXPECT_TRUE(splitter.inside());
  const std::vector<TextPart> thinking = splitter.push("\nso far ");
  ASSERT_EQ(thinking.size(), 1u);
  EXPECT_TRUE(thinking[0].thinking);
  EXPECT_EQ(thinking[0].text, "so far");
  const std::vector<TextPart> both = splitter.push("good\n</think>\nyes ");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].text, " good");
  EXPECT_FALSE(both[1].thinking);
  EXPECT_EQ(both[1].text, "yes ");
  EXPECT_FALSE(splitter.inside());
}

TEST(ReasoningSplitter, InsideFollowsTheMarks) {
  EXPECT_TRUE(ReasoningSplitter({}, true).inside());
  ReasoningSplitter splitter({}, false);
  EXPECT_FALSE(splitter.inside());
  splitter.push("<thi");
  EXPECT_FALSE(splitter.inside());
  splitter.push("nk>");
  EXPECT_TRUE(splitter.inside());
  splitter.push("</think>");
  EXPECT_FALSE(splitter.inside());
}

TEST(ReasoningSplitter, OtherMarks) {
  EXPECT_EQ(split({"[THINK]a</think>[/THI", "NK] b"}, false, {"[THINK]", "[/THINK]"}),
            (Fields{"a</think>", "b"}));
  EXPECT_EQ(split({"aabaabc!"}, true, {"x", "aabc"}), (Fields{"aab", "!"})) << "a mark that overlaps itself";
}

TEST(ReasoningSplitter, StreamEqualsTheWholeForRandomAnswersAndCuts) {
  std::mt19937 random(21);
  const std::vector<std::string> words = {"<",  "think", ">", "<think>", "</think>",
                                          "</", "\n",    " ", "a",       "\xC3\xA9"};
  int n_thinking = 0;
  for (int round = 0; round < 4000; ++round) {
    const bool starts_inside = random() % 2 == 0;
    const ReasoningMarks marks;
    std::string text;
    for (size_t n = random() % 4; n > 0; --n) text += "\n";
    if (random() % 2 == 0) text += marks.open;
    for (size_t n = random() % 12; n > 0; --n) text += words[random() % words.size()];
    text += marks.close;
    for (size_t n = random() % 8; n > 0; --n) text += words[random() % words.size()];

    const Fields expected = split_whole(text, starts_inside, marks);
    EXPECT_EQ(split({text}, starts_inside), expected) << "round " << round << ", whole text " << text;
    EXPECT_EQ(split(cut_at_random(text, random), starts_inside), expected)
        << "round " << round << ", text " << text;
    n_thinking += expected.thinking.empty() ? 0 : 1;
  }
  EXPECT_GT(n_thinking, 1000);
}

TEST(ReasoningSplitter, BadMarksAreRefused) {
  EXPECT_THROW(ReasoningSplitter({"", "</think>"}, false), Error);
  EXPECT_THROW(ReasoningSplitter({"<think>", ""}, false), Error);
  EXPECT_THROW(ReasoningSplitter({"\n<think>", "</think>"}, false), Error);
}

}  // namespace
}  // namespace kvase

// SPDX-License-Identifier: MIT
// Right and wrong answers, and where a text's answer is found.
#include "eval/grader.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace kvase::eval {
namespace {

struct Pair {
  const char* found;
  const char* gold;
};

constexpr std::array kRight = std::to_array<Pair>({
    // numbers
    {"18", "18"},
    {"016", "16"},
    {"16.0", "16"},
    {"18.", "18"},
    {".35625", "0.35625"},
    {"1450000", "1,450,000"},
    {"$1{,}450{,}000$", "1,450,000"},
    {"10080", "10,\\!080"},
    {"11111111100", "11,\\! 111,\\! 111,\\! 100"},
    {"58\\,500", "58,500"},
    {"-3", "\u22123"},
    {"+7", "7"},
    {"1.5 million", "1500000"},
    {"3 thousand", "3,000"},
    // money, percent, units
    {"$18", "18"},
    {"\\$18.90", "18.9"},
    {"18 dollars", "\\$18"},
    {"-$5", "-5"},
    {"18 eggs per day", "18"},
    {"50%", "50"},
    {"50\\%", "0.5"},
    {"12.5 percent", "12.5"},
    {"5.4", "5.4 \\text{ cents}"},
    {"15 cm^2", "15\\mbox{ cm}^2"},
    {"864 square inches", "864 \\mbox{ inches}^2"},
    {"90", "90^\\circ"},
    {"90\u00b0", "90^{\\circ}"},
    {"120 degrees", "120^\\circ"},
    {"\\frac{270}{7}", "\\frac{270}7\\text{ degrees}"},
    {"60 mph", "60 miles per hour"},
    // fractions and roots
    {"\\dfrac{14}{3}", "\\frac{14}{3}"},
    {"14/3", "\\frac{14}{3}"},
    {"\\frac43", "\\frac{4}{3}"},
    {"\\frac 59", "5/9"},
    {"\\frac9{19}", "\\tfrac{9}{19}"},
    {"-\\frac{35}{9}", "\\frac{-35}{9}"},
    {"0.546875", "\\frac{35}{64}"},
    {"1\\frac{4}{5}", "1.8"},
    {"137 \\frac{1}{2}", "137.5"},
    {"1 1/2", "\\frac{3}{2}"},
    {"11\\sqrt{2}", "11\\sqrt2"},
    {"\\sqrt{180}", "6\\sqrt{5}"},
    {"2\u221a5", "2 \\sqrt{5}"},
    {"sqrt(51)", "\\sqrt{51}"},
    {"\\frac{1}{\\sqrt{3}}", "\\frac{\\sqrt{3}}{3}"},
    {"\\sqrt[3]{-8}", "-2"},
    {"\\frac{3 \\sqrt{3}}{4}", "\\frac{3\\sqrt{3}}{4}"},
    {"\\sqrt{\\frac{95}{24}}", "\\frac{\\sqrt{570}}{12}"},
    {"2^{25} \\cdot 26!", "26! \\times 2^{25}"},
    {"\\pi/6", "\\frac{\\pi}{6}"},
    {"\\frac{1}{3} \\approx 0.33", "\\frac13"},
    {"\\sin 30", "\\sin(30)"},
    // letters
    {"6+9i", "9i + 6"},
    {"(b+2)(a+5)", "(a+5)(b+2)"},
    {"a b + 2a + 5b + 10", "(a+5)(b+2)"},
    {"8n^2+4n+1", "8n^{2} + 4n + 1"},
    {"q-p", "-(p-q)"},
    {"\\frac{9a+11}{20}", "\\frac{11+9a}{20}"},
    {"\\cot(x)", "\\cot x"},
    {"5r^{5}", "5r^5"},
    // equations
    {"x = 5", "5"},
    {"5", "x=5"},
    {"m+n = 256+37 = 293", "293"},
    {"\\text{Total} = 18", "18"},
    {"2x+3", "y = 2x + 3"},
    {"y = 3 + 2x", "y = 2x + 3"},
    {"10x - 14y + 22z + 8 = 0", "5x - 7y + 11z + 4 = 0"},
    {"f(x) = 2x", "2x"},
    // several values
    {"-2, 1", "1,-2"},
    {"1 and -2", "1,-2"},
    {"x = 1, -2", "1,-2"},
    {"1+\\sqrt{19}, 1-\\sqrt{19}", "1 \\pm \\sqrt{19}"},
    {"1 \u00b1 \u221a19", "1 \\pm \\sqrt{19}"},
    {"\\{-2, 1-\\sqrt{5}, 1+\\sqrt{5}\\}", "\\{1\\pm\\sqrt{5},-2\\}"},
    {"\\{3, 5, 7\\}", "3, 5, 7"},
    {"(3, \\pi/2)", "\\left( 3, \\frac{\\pi}{2} \\right)"},
    {"[-2, 7]", "x \\in [-2,7]"},
    {"(9,36) \\cup (0,9)", "(0,9) \\cup (9,36)"},
    {"\\left(\\frac{3}{5}, \\frac{8}{3}\\right]", "(3/5, 8/3]"},
    {"(-\\infty, 2) \u222a (3, \u221e)", "(-\\infty, 2) \\cup (3, \\infty)"},
    {"\\begin{bmatrix} -1/3 \\\\ 2/3 \\end{bmatrix}",
     "\\begin{pmatrix} -\\frac13 \\\\ \\frac23 \\end{pmatrix}"},
    // words and bases
    {"Evelyn", "\\text{Evelyn}"},
    {"\\textbf{(C)}", "\\text{(C)}"},
    {"C", "\\text{(C)}"},
    {"EVEN", "\\text{even}"},
    {"odd", "\\text{odd}"},
    {"4210_5", "4210_{5}"},
    // only formatting
    {"\\textbf{(073)}", "73"},
    {"\\mathbf{127}", "127"},
    {"$42$", "42"},
    {"\\(42\\)", "42"},
    {"**42**", "42"},
});

constexpr std::array kWrong = std::to_array<Pair>({
    {"", "18"},
    {"17", "18"},
    {"1.8", "18"},
    {"-18", "18"},
    {"181", "18"},
    {"1,450", "1,450,000"},
    {"11111111101", "11,\\! 111,\\! 111,\\! 100"},
    {"1234567890123456789", "1234567890123456788"},
    {"1.5 million", "1.5"},
    {"0.33", "\\frac{1}{3}"},
    {"3.14", "\\pi"},
    {"3.14159265", "\\pi"},
    {"50%", "5"},
    {"5.4 dollars", "5.4 \\text{ cents}"},
    {"15 cm", "15\\mbox{ cm}^2"},
    {"18 dollars 50 cents", "18"},
    {"12xy", "12"},
    {"12", "12x"},
    {"\\frac{3}{14}", "\\frac{14}{3}"},
    {"\\frac{1}{23}", "\\frac{12}{3}"},
    {"\\frac{4}{31}", "\\frac43"},
    {"1 23", "12 3"},
    {"2**3", "23"},
    {"2 3", "23"},
    {"2\\cdot3", "23"},
    {"1 1/2", "11/2"},
    {"1 1/2", "\\frac{1}{2}"},
    {"\\sqrt{5}2", "\\sqrt{52}"},
    {"\\sqrt{20}", "2 \\sqrt{10}"},
    {"x^2", "x^3"},
    {"6r^2-4r+24", "6r^2-4r-24"},
    {"x", "y"},
    {"x^{23}", "x^2 3"},
    {"9 + 6i", "6+9i"},
    {"6 - 9i", "6+9i"},
    {"|x|", "x"},
    {"y = 5", "x = 5"},
    {"0", "5x - 7y + 11z + 4 = 0"},
    {"x - 5 = 0", "0"},
    {"x = 5 = 6", "5"},
    {"5x - 7y + 11z - 4 = 0", "5x - 7y + 11z + 4 = 0"},
    {"1", "1,-2"},
    {"1, -2, -2", "1,-2"},
    {"1, 2", "1,-2"},
    {"1 \\pm \\sqrt{18}", "1 \\pm \\sqrt{19}"},
    {"1 + \\sqrt{19}", "1 \\pm \\sqrt{19}"},
    {"(4,3)", "(3,4)"},
    {"(3,4)", "(3,4]"},
    {"[3,4]", "(3,4]"},
    {"3, 4", "(3,4)"},
    {"(0,9)", "(0,9) \\cup (9,36)"},
    {"\\begin{pmatrix} 1 & 2 \\end{pmatrix}", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"},
    {"\\begin{pmatrix} 2 \\\\ 1 \\end{pmatrix}", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"},
    {"4210", "4210_{5}"},
    {"4210_6", "4210_{5}"},
    {"Navin", "\\text{Evelyn}"},
    {"not even", "\\text{even}"},
    {"(B)", "\\text{(C)}"},
    {"18 or 20", "18"},
    {"between 18 and 20", "18"},
    {"about 18", "18"},
    {"\\infty", "10^{9}"},
    {"-\\infty", "\\infty"},
    {"1/0", "\\infty - \\infty"},
    {"((((((((((((18", "18"},
});

// Right answers as MATH-500 and HMMT February 2025 write them, each of another form or close to another one.
constexpr std::array kGold = std::to_array<const char*>({
    "\\left( 3, \\frac{\\pi}{2} \\right)",
    "p - q",
    "\\frac{14}{3}",
    "\\text{Evelyn}",
    "90^\\circ",
    "3\\sqrt{13}",
    "6 - 5i",
    "6+9i",
    "x=5",
    "1,-2",
    "52_8",
    "4210_{5}",
    "11\\sqrt2",
    "3, 5, 7",
    "70 \\sqrt{2}",
    "x^5 - x^4 + x^3 - x^2 + x - 1",
    "x^8 + x^7 + x^6 + x^5 + x^4 + x^3 + x^2 + x + 1",
    "-\\frac{\\pi}{6}",
    "0.15",
    ".0000672",
    "(6,31,-1)",
    "(-2,1)",
    "(3,4]",
    "(2,\\infty)",
    "(5,\\infty)",
    "(-\\infty, 0]",
    "x \\in [-2,7]",
    "\\cot x",
    "1 \\pm \\sqrt{19}",
    "3 \\pm 2 \\sqrt{2}",
    "\\{1\\pm\\sqrt{5},-2\\}",
    "\\text{east}",
    "\\text{(C)}",
    "\\text{(E)}",
    "2k+2",
    "2k",
    "\\begin{pmatrix} -1/3 \\\\ 2/3 \\\\ 5/3 \\end{pmatrix}",
    "\\begin{pmatrix} -1 & 0 \\\\ 0 & -1 \\end{pmatrix}",
    "(a+5)(b+2)",
    "\\frac43",
    "\\frac{270}7\\text{ degrees}",
    "\\frac9{19}",
    "\\frac 59",
    "10,\\!080",
    "11,\\! 111,\\! 111,\\! 100",
    "\\$32,\\!348",
    "58,500",
    "864 \\mbox{ inches}^2",
    "5.4 \\text{ cents}",
    "1\\frac{4}{5}",
    "137 \\frac{1}{2}",
    "5x - 7y + 11z + 4 = 0",
    "y = 2x + 3",
    "y = -2x",
    "6r^2-4r-24",
    "5r^5",
    "3R^2",
    "(0,9) \\cup (9,36)",
    "(2,12) \\cup (12,102)",
    "\\frac{11+9a}{20}",
    "\\frac{20000}{\\pi}",
    "2^{25} \\cdot 26!",
    "\\frac{-1+\\sqrt{17}}{2}, \\frac{-1-\\sqrt{17}}{2}",
    "1-\\frac{2}{\\pi}",
    "\\frac{9 \\sqrt{23}}{23}",
    "\\sqrt{\\frac{95}{24}}",
    "5\\pi + 6\\sqrt{3}",
    "91/6",
    "199/8",
});

TEST(Grader, EveryGoldAnswerIsItselfAndNoOther) {
  for (size_t found = 0; found < kGold.size(); ++found) {
    for (size_t gold = 0; gold < kGold.size(); ++gold) {
      EXPECT_EQ(same_answer(kGold[found], kGold[gold]), found == gold)
          << kGold[found] << " against " << kGold[gold];
    }
  }
}

TEST(Grader, RightAnswersInManyForms) {
  for (const Pair& pair : kRight) {
    EXPECT_TRUE(same_answer(pair.found, pair.gold)) << pair.found << " against " << pair.gold;
  }
}

TEST(Grader, WrongAnswersStayWrong) {
  for (const Pair& pair : kWrong) {
    EXPECT_FALSE(same_answer(pair.found, pair.gold)) << pair.found << " against " << pair.gold;
  }
}

TEST(Grader, HostileTextIsJustWrong) {
  for (const char* piece : {"(", "{", "\\frac", "\\sqrt", "-", "^", "|", "1,", "=", "\\text{", "x^-"}) {
    std::string text;
    for (int count = 0; count < 20000; ++count) text += piece;
    EXPECT_FALSE(same_answer(text, "18")) << piece;
    EXPECT_FALSE(same_answer(text.substr(0, 900), "18")) << piece;
  }
}

struct Case {
  const char* text;
  const char* answer;  // "": none
  AnswerSource source;
};

constexpr std::array kTexts = std::to_array<Case>({
    {"So \\boxed{18}.", "18", AnswerSource::boxed},
    {"\\boxed{\\frac{1}{\\sqrt{2}}}", "\\frac{1}{\\sqrt{2}}", AnswerSource::boxed},
    {"\\boxed{\\{1, 2\\}}", "\\{1, 2\\}", AnswerSource::boxed},
    {"First \\boxed{1}, no: \\boxed{2}", "2", AnswerSource::boxed},
    {"\\boxed{1} and then \\boxed{2", "", AnswerSource::none},
    {"\\boxed{1} and then \\boxed", "", AnswerSource::none},
    {"\\boxed 5 apples", "5", AnswerSource::boxed},
    {"<think>\\boxed{3}</think> It is \\boxed{4}", "4", AnswerSource::boxed},
    {"<think>so \\boxed{3}", "", AnswerSource::none},
    {"so \\boxed{3}</think>\n\nI do not know.", "", AnswerSource::none},
    {"9 * 2 = <<9*2=18>>18\n#### 18", "18", AnswerSource::hashes},
    {"#### 1,450,000\nQuestion: 7", "1,450,000", AnswerSource::hashes},
    {"The answer is 18.", "18", AnswerSource::stated},
    {"The final answer is: **18 dollars**. That was 3 steps.", "18 dollars", AnswerSource::stated},
    {"The answer is $\\frac{1}{2}$ of it.", "\\frac{1}{2}", AnswerSource::stated},
    {"Answer: 3.5", "3.5", AnswerSource::stated},
    {"the answer is that she makes $18 every day. Good.", "18", AnswerSource::stated},
    {"The answer is m+n = 256+37 = 293", "m+n = 256+37 = 293", AnswerSource::stated},
    {"She has 3 left, so 7-5", "5", AnswerSource::last_number},
    {"It went down to -10 degrees", "-10", AnswerSource::last_number},
    {"In all 1,234.50 dollars.", "1,234.50", AnswerSource::last_number},
    {"He ate 3/4.", "3/4", AnswerSource::last_number},
    {"nothing", "", AnswerSource::none},
    {"", "", AnswerSource::none},
});

TEST(Grader, FindsTheFinalAnswer) {
  for (const Case& row : kTexts) {
    const FinalAnswer answer = find_final_answer(row.text, /*cut_off=*/false);
    EXPECT_EQ(answer.text, row.answer) << row.text;
    EXPECT_EQ(answer.source, row.source) << row.text << ": " << answer_source_name(answer.source);
  }
}

TEST(Grader, OfACutOffTextOnlyWhatIsCompleteCounts) {
  EXPECT_EQ(find_final_answer("It is \\boxed{18}, and", true).text, "18");
  EXPECT_EQ(find_final_answer("#### 18\nQ", true).text, "18");
  EXPECT_EQ(find_final_answer("#### 1", true).text, "");
  EXPECT_EQ(find_final_answer("The answer is 1", true).text, "");
  EXPECT_EQ(find_final_answer("so far 256", true).text, "");
}

TEST(Grader, GradesTheWholeText) {
  EXPECT_TRUE(grade("<think>17?</think> \\boxed{18}", false, "18").correct);
  EXPECT_FALSE(grade("<think>18?</think> \\boxed{17}", false, "18").correct);
  EXPECT_FALSE(grade("<think>\\boxed{18}", false, "18").correct);
  EXPECT_FALSE(grade("", false, "").correct);
}

}  // namespace
}  // namespace kvase::eval

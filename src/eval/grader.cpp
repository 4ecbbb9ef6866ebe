// SPDX-License-Identifier: MIT
// Finds the final answer in a text; answer_value.h compares it.
#include "eval/grader.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "eval/answer_value.h"
#include "eval/math_text.h"

namespace kvase::eval {
namespace {

constexpr std::string_view kThinkOpen = "<think>";
constexpr std::string_view kThinkClose = "</think>";

bool is_digit(char character) { return std::isdigit(static_cast<unsigned char>(character)) != 0; }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& character : result) {
    character = static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
  }
  return result;
}

// What follows the thinking; nothing while it lasts.
std::string_view without_thinking(std::string_view text) {
  if (const size_t close = text.rfind(kThinkClose); close != std::string_view::npos)
    text = text.substr(close + kThinkClose.size());
  return text.find(kThinkOpen) == std::string_view::npos ? text : std::string_view();
}

struct Found {
  bool is_there = false;  // the mark stands in the text: no other source may be asked
  std::string_view text;
};

Found find_boxed(std::string_view text) {
  constexpr std::array<std::string_view, 2> kMarks = {"\\boxed", "\\fbox"};
  size_t last = std::string_view::npos;
  size_t open = 0;
  for (const std::string_view mark : kMarks) {
    const size_t found = text.rfind(mark);
    if (found == std::string_view::npos || (last != std::string_view::npos && found < last)) continue;
    last = found;
    open = found + mark.size();
  }
  if (last == std::string_view::npos) return {};
  while (open < text.size() && text[open] == ' ') ++open;
  if (open >= text.size()) return {.is_there = true, .text = {}};
  if (text[open] != '{') {  // "\boxed 5"
    const size_t end = text.find_first_of(" $\n", open);
    if (end == std::string_view::npos) return {.is_there = true, .text = {}};
    return {.is_there = true, .text = text.substr(open, end - open)};
  }
  size_t depth = 0;
  for (size_t at = open; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;  // \{ and \} are no braces
    } else if (text[at] == '{') {
      ++depth;
    } else if (text[at] == '}' && --depth == 0) {
      return {.is_there = true, .text = trimmed(text.substr(open + 1, at - open - 1))};
    }
  }
  return {.is_there = true, .text = {}};
}

Found find_hashes(std::string_view text, bool cut_off) {
  constexpr std::string_view kMark = "####";
  const size_t found = text.rfind(kMark);
  if (found == std::string_view::npos) return {};
  const size_t begin = found + kMark.size();
  const size_t end = text.find('\n', begin);
  if (cut_off && end == std::string_view::npos) return {.is_there = true, .text = {}};
  return {.is_there = true, .text = trimmed(text.substr(begin, std::min(end, text.size()) - begin))};
}

// Up to where the sentence or line ends; a point between digits ends nothing.
std::string_view sentence(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\n' && at > 0) return text.substr(0, at);
    const bool point =
        text[at] == '.' && (at + 1 == text.size() || text[at + 1] == ' ' || text[at + 1] == '\n');
    if (point && at > 0) return text.substr(0, at);
  }
  return text;
}

Found find_stated(std::string_view text) {
  constexpr std::array<std::string_view, 4> kMarks = {"answer is",
                                                      "answer:", "answer :", "answer to the question is"};
  const std::string small = lower(text);
  size_t last = std::string_view::npos;
  size_t begin = 0;
  for (const std::string_view mark : kMarks) {
    const size_t found = small.rfind(mark);
    if (found == std::string::npos || (last != std::string_view::npos && found < last)) continue;
    last = found;
    begin = found + mark.size();
  }
  if (last == std::string_view::npos) return {};
  const size_t start = text.find_first_not_of(" :*\t\r\n", begin);
  if (start == std::string_view::npos) return {.is_there = true, .text = {}};
  std::string_view stated = trimmed(sentence(text.substr(start)));
  while (stated.ends_with('*')) stated.remove_suffix(1);
  return {.is_there = true, .text = stated};
}

// "1,234.5" or "3/4" that ends at the text's last digit, with its sign if it has one of its own ("7-5" ends
// in 5).
std::string_view last_number(std::string_view text) {
  size_t end = text.size();
  while (end > 0 && !is_digit(text[end - 1])) --end;
  size_t begin = end;
  while (begin > 0) {
    const char before = text[begin - 1];
    const bool joins =
        (before == ',' || before == '.' || before == '/') && begin > 1 && is_digit(text[begin - 2]);
    if (!is_digit(before) && !joins) break;
    --begin;
  }
  if (begin > 0 && text[begin - 1] == '.') --begin;  // ".5"
  const size_t sign = begin > 0 && text[begin - 1] == '$' ? begin - 1 : begin;
  if (sign > 0 && text[sign - 1] == '-' &&
      (sign == 1 || std::string_view(" \n(=$:*").find(text[sign - 2]) != std::string_view::npos)) {
    begin = sign - 1;
  }
  if (end < text.size() && text[end] == '%') ++end;
  return text.substr(begin, end - begin);
}

// "$18$ dollars" and the like say a value; "that she makes 18 dollars" holds one.
std::string value_of_sentence(std::string_view stated) {
  if (read_answer(stated).kind != AnswerValue::Kind::words) return std::string(stated);
  const size_t open = stated.find('$');
  const size_t close = open == std::string_view::npos ? open : stated.find('$', open + 1);
  if (close != std::string_view::npos && close > open + 1) {
    return std::string(stated.substr(open + 1, close - open - 1));
  }
  const std::string_view number = last_number(stated);
  return std::string(number.empty() ? stated : number);
}

}  // namespace

const char* answer_source_name(AnswerSource source) noexcept {
  switch (source) {
    case AnswerSource::none:
      return "none";
    case AnswerSource::boxed:
      return "boxed";
    case AnswerSource::hashes:
      return "hashes";
    case AnswerSource::stated:
      return "stated";
    case AnswerSource::last_number:
      return "last_number";
  }
  return "none";
}

FinalAnswer find_final_answer(std::string_view text, bool cut_off) {
  const auto make = [](std::string_view found, AnswerSource source) {
    if (found.empty()) return FinalAnswer{};
    return FinalAnswer{.text = std::string(found), .source = source};
  };
  text = without_thinking(text);
  if (const Found boxed = find_boxed(text); boxed.is_there) return make(boxed.text, AnswerSource::boxed);
  if (const Found hashes = find_hashes(text, cut_off); hashes.is_there)
    return make(hashes.text, AnswerSource::hashes);
  if (cut_off) return {};
  if (const Found stated = find_stated(text); stated.is_there)
    return make(value_of_sentence(stated.text), AnswerSource::stated);
  return make(last_number(text), AnswerSource::last_number);
}

bool same_answer(std::string_view found, std::string_view gold) {
  return same_value(read_answer(found), read_answer(gold));
}

Grade grade(std::string_view text, bool cut_off, std::string_view gold) {
  Grade grade{.answer = find_final_answer(text, cut_off)};
  grade.correct = grade.answer.source != AnswerSource::none && same_answer(grade.answer.text, gold);
  return grade;
}

}  // namespace kvase::eval

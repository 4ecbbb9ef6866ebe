// SPDX-License-Identifier: MIT
// Takes answers apart from the outside in: unions, lists, equations, brackets, then expressions.
#include "eval/answer_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "eval/math_text.h"

namespace kvase::eval {
namespace {

// Sums of rounding errors of long double over an answer's few operations, relative; far below the last digit
// that anybody writes.
constexpr long double kTolerance = 1e-13L;
constexpr long double kAbsoluteTolerance = 1e-16L;  // what remains of sin(pi)
constexpr int kMaxNesting = 8;

bool is_digit(char character) { return std::isdigit(static_cast<unsigned char>(character)) != 0; }
bool is_letter(char character) { return std::isalpha(static_cast<unsigned char>(character)) != 0; }

// Where `separator` stands outside all brackets; npos: nowhere.
size_t find_outside(std::string_view text, std::string_view separator, size_t from = 0) {
  constexpr std::string_view kOpen = "([{\x02\x04";
  for (size_t at = from; at + separator.size() <= text.size(); ++at) {
    if (text.substr(at).starts_with(separator)) return at;
    if (kOpen.find(text[at]) == std::string_view::npos) continue;
    const size_t end = group_end(text, at);
    if (end == std::string_view::npos) return std::string_view::npos;
    at = end - 1;
  }
  return std::string_view::npos;
}

std::vector<std::string_view> split_outside(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t found = find_outside(text, separator);
    parts.push_back(trimmed(text.substr(0, found)));
    if (found == std::string_view::npos) return parts;
    text.remove_prefix(found + separator.size());
  }
}

// Digits and commas at `begin`, outside brackets: "1,450,000" is one number.
size_t thousands_end(std::string_view text, size_t begin) {
  size_t end = begin;
  while (end < text.size() && is_digit(text[end])) ++end;
  if (end - begin > 3) return begin;
  size_t last = begin;
  while (end + 3 < text.size() && text[end] == ',' && is_digit(text[end + 1]) && is_digit(text[end + 2]) &&
         is_digit(text[end + 3])) {
    end += 4;
    last = end;
  }
  return last < text.size() && last > begin && is_digit(text[last]) ? begin : last;
}

std::string without_thousands(std::string_view text) {
  std::string result;
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char character = text[at];
    if (character == '(' || character == '[' || character == kSetOpen || character == kAngleOpen) ++depth;
    if (character == ')' || character == ']' || character == kSetClose || character == kAngleClose) --depth;
    const bool starts = is_digit(character) &&
                        (at == 0 || (!is_digit(text[at - 1]) && text[at - 1] != '.' && text[at - 1] != ','));
    const size_t end = starts && depth == 0 ? thousands_end(text, at) : at;
    if (end == at) {
      result += character;
      continue;
    }
    for (; at < end; ++at) {
      if (text[at] != ',') result += text[at];
    }
    --at;
  }
  return result;
}

// "-007.50" as "-7.5"; nothing for what is no plain decimal number.
std::string plain_decimal(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
    text = trimmed(text);
  }
  const size_t point = std::min(text.find('.'), text.size());
  std::string_view whole = text.substr(0, point);
  std::string_view part = text.substr(std::min(point + 1, text.size()));
  const auto all_digits = [](std::string_view digits) {
    return std::all_of(digits.begin(), digits.end(), is_digit);
  };
  if ((whole.empty() && part.empty()) || !all_digits(whole) || !all_digits(part)) return {};
  while (!whole.empty() && whole.front() == '0') whole.remove_prefix(1);
  while (!part.empty() && part.back() == '0') part.remove_suffix(1);
  std::string decimal(whole.empty() ? "0" : whole);
  if (!part.empty()) decimal += fmt::format(".{}", part);
  return negative && decimal != "0" ? fmt::format("-{}", decimal) : decimal;
}

std::string singular(std::string unit) {
  struct Name {
    std::string_view from, to;
  };
  constexpr std::array kNames = std::to_array<Name>({
      {"inche", "inch"},
      {"in", "inch"},
      {"feet", "foot"},
      {"ft", "foot"},
      {"cm", "centimeter"},
      {"mm", "millimeter"},
      {"km", "kilometer"},
      {"kg", "kilogram"},
      {"lb", "pound"},
      {"hr", "hour"},
      {"min", "minute"},
      {"sec", "second"},
      {"deg", "degree"},
      {"unit", ""},
      {"unit^2", ""},
      {"unit^3", ""},
      {"mph", "mileperhour"},
      {"milesperhour", "mileperhour"},
      {"miles/hour", "mileperhour"},
      {"oz", "ounce"},
      {"centimetre", "centimeter"},
      {"metre", "meter"},
      {"bucks", "dollar"},
  });
  // "^2inches" (square inches) as "inch^2".
  std::string exponent;
  for (const std::string_view mark : {"^2", "^3"}) {
    if (const size_t found = unit.find(mark); found != std::string::npos) {
      unit.erase(found, mark.size());
      exponent = mark;
    }
  }
  for (char& character : unit) {
    character = static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
  }
  std::erase_if(unit,
                [](char character) { return character == ' ' || character == '.' || character == '-'; });
  if (unit.size() > 2 && unit.back() == 's') unit.pop_back();
  for (const Name& name : kNames) {
    if (unit == name.from) {
      unit = name.to;
      break;
    }
  }
  return unit.empty() ? "" : unit + exponent;
}

std::optional<AnswerValue> read_value(std::string_view text, int plus_minus) {
  AnswerValue answer{.kind = AnswerValue::Kind::value};
  for (uint32_t point = 0; point < kPoints; ++point) {
    const auto evaluation = evaluate(text, point, plus_minus);
    if (!evaluation) return std::nullopt;
    answer.at[point] = evaluation->value;
    answer.percent = evaluation->percent;
    answer.unit = singular(evaluation->unit);
  }
  answer.decimal = plain_decimal(text);
  return answer;
}

// "\text{Evelyn}", "(C)" and "evelyn" lose what is not said: spaces, case, brackets around all of it.
std::string plain_words(std::string_view text) {
  std::string words(trimmed(text));
  for (size_t found = words.find("\\text{"); found != std::string::npos; found = words.find("\\text{")) {
    const size_t end = group_end(words, found + 5);
    if (end == std::string::npos) break;
    words.erase(end - 1, 1);
    words.erase(found, 6);
  }
  // Between digits a space says something.
  for (size_t at = words.find(' '); at != std::string::npos; at = words.find(' ', at)) {
    if (at > 0 && at + 1 < words.size() && is_digit(words[at - 1]) && is_digit(words[at + 1])) {
      ++at;
    } else {
      words.erase(at, 1);
    }
  }
  for (char& character : words) {
    character = static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
  }
  if (words.starts_with('(') && group_end(words, 0) == words.size())
    words = words.substr(1, words.size() - 2);
  return words;
}

// A single name, as in "x = 5" or "f(x) = 5".
bool is_name(std::string_view text) {
  if (text.size() == 4 && text[1] == '(' && text[3] == ')') text = text.substr(0, 1);
  return text.size() == 1 && is_letter(text.front());
}

class Reader {
 public:
  using Maybe = std::optional<AnswerValue>;

  AnswerValue read(std::string_view text, int nesting) const {
    text = trimmed(text);
    AnswerValue words{.kind = AnswerValue::Kind::words, .text = plain_words(text)};
    if (text.empty() || nesting > kMaxNesting) return words;
    if (const auto inside = number_in_text(text)) return read(*inside, nesting + 1);
    const size_t approximation = find_outside(text, "\\approx");
    if (approximation != std::string_view::npos && approximation > 0) text = text.substr(0, approximation);
    Maybe answer = read_parts(text, nesting);
    if (!answer) return words;
    if (answer->kind == AnswerValue::Kind::value) answer->text = words.text;
    return *answer;
  }

 private:
  // "\textbf{(113)}" only dresses the number.
  static std::optional<std::string_view> number_in_text(std::string_view text) {
    constexpr std::string_view kText = "\\text{";
    if (!text.starts_with(kText) || group_end(text, kText.size() - 1) != text.size()) return std::nullopt;
    const std::string_view inside = text.substr(kText.size(), text.size() - kText.size() - 1);
    if (std::none_of(inside.begin(), inside.end(), is_digit)) return std::nullopt;
    return inside;
  }

  // In the order in which an answer binds, loosest first.
  Maybe read_parts(std::string_view text, int nesting) const {
    if (Maybe answer = read_list(text, "\\cup", nesting)) return answer;
    if (Maybe answer = read_list(text, ",", nesting)) return answer;
    if (Maybe answer = read_list(text, ";", nesting)) return answer;
    if (Maybe answer = read_membership(text, nesting)) return answer;
    if (Maybe answer = read_equation(text, nesting)) return answer;
    if (Maybe answer = read_brackets(text, nesting)) return answer;
    if (Maybe answer = read_matrix(text, nesting)) return answer;
    if (Maybe answer = read_numeral(text)) return answer;
    return read_expression(text);
  }

  AnswerValue list_of(const std::vector<std::string_view>& parts, int nesting) const {
    AnswerValue list{.kind = AnswerValue::Kind::list};
    for (const std::string_view part : parts) {
      if (part.empty()) continue;
      AnswerValue item = read(part, nesting + 1);
      if (item.kind == AnswerValue::Kind::list) {
        for (AnswerValue& inner : item.items) list.items.push_back(std::move(inner));
      } else {
        list.items.push_back(std::move(item));
      }
    }
    return list;
  }

  Maybe read_list(std::string_view text, std::string_view separator, int nesting) const {
    std::vector<std::string_view> parts = split_outside(text, separator);
    if (parts.size() < 2) return std::nullopt;
    // "x = 1, 2" names the unknown once.
    const size_t equals = find_outside(parts[0], "=");
    const bool once = std::none_of(parts.begin() + 1, parts.end(), [](std::string_view part) {
      return find_outside(part, "=") != std::string_view::npos;
    });
    if (equals != std::string_view::npos && once && is_name(trimmed(parts[0].substr(0, equals)))) {
      parts[0] = trimmed(parts[0].substr(equals + 1));
    }
    return list_of(parts, nesting);
  }

  Maybe read_membership(std::string_view text, int nesting) const {
    const size_t found = find_outside(text, "\\in ");
    if (found == std::string_view::npos || !is_name(trimmed(text.substr(0, found)))) return std::nullopt;
    return read(text.substr(found + 4), nesting + 1);
  }

  // Of a chain the last link counts: m+n = 256+37 = 293.
  Maybe read_equation(std::string_view text, int nesting) const {
    const std::vector<std::string_view> sides = split_outside(text, "=");
    if (sides.size() < 2) return std::nullopt;
    if (sides.size() > 2) return read(sides.back(), nesting + 1);
    AnswerValue equation{.kind = AnswerValue::Kind::equation};
    equation.text = is_name(sides[0]) ? "name" : "";
    for (const std::string_view side : sides) equation.items.push_back(read(side, nesting + 1));
    for (size_t point = 0; point < kPoints; ++point) {
      equation.at[point] = equation.items[0].at[point] - equation.items[1].at[point];
    }
    return equation;
  }

  Maybe read_brackets(std::string_view text, int nesting) const {
    constexpr std::string_view kOpen = "([\x02\x04";
    if (kOpen.find(text.front()) == std::string_view::npos || group_end(text, 0) != text.size())
      return std::nullopt;
    const std::string_view inside = text.substr(1, text.size() - 2);
    const std::vector<std::string_view> parts = split_outside(inside, ",");
    if (text.front() == kSetOpen) return list_of(parts, nesting);
    if (parts.size() < 2) return std::nullopt;
    AnswerValue tuple{.kind = AnswerValue::Kind::tuple};
    tuple.text = {text.front(), text.back()};
    for (const std::string_view part : parts) tuple.items.push_back(read(part, nesting + 1));
    return tuple;
  }

  Maybe read_matrix(std::string_view text, int nesting) const {
    constexpr std::string_view kBegin = "\\begin{pmatrix}";
    constexpr std::string_view kEnd = "\\end{pmatrix}";
    if (!text.starts_with(kBegin) || !text.ends_with(kEnd)) return std::nullopt;
    text = trimmed(text.substr(kBegin.size(), text.size() - kBegin.size() - kEnd.size()));
    AnswerValue matrix{.kind = AnswerValue::Kind::matrix};
    for (const std::string_view row : split_outside(text, "\x06")) {
      if (row.empty()) continue;  // a break behind the last row
      const std::vector<std::string_view> cells = split_outside(row, "&");
      matrix.text += fmt::format("{} ", cells.size());
      for (const std::string_view cell : cells) matrix.items.push_back(read(cell, nesting + 1));
    }
    return matrix;
  }

  // "4210_{5}": worth nothing without its base.
  static Maybe read_numeral(std::string_view text) {
    const size_t underscore = text.find('_');
    if (underscore == 0 || underscore == std::string_view::npos) return std::nullopt;
    const auto is_numeral = [](char character) { return is_digit(character) || is_letter(character); };
    const std::string_view digits = trimmed(text.substr(0, underscore));
    std::string base(text.substr(underscore + 1));
    std::erase_if(base,
                  [](char character) { return character == '{' || character == '}' || character == ' '; });
    if (digits.empty() || !is_digit(digits.front()) || base.empty() || base.size() > 2 ||
        !std::all_of(digits.begin(), digits.end(), is_numeral) ||
        !std::all_of(base.begin(), base.end(), is_digit)) {
      return std::nullopt;
    }
    return AnswerValue{.kind = AnswerValue::Kind::numeral, .text = fmt::format("{}_{}", digits, base)};
  }

  static Maybe read_expression(std::string_view text) {
    if (text.find("\\pm") == std::string_view::npos) return read_value(text, 1);
    const Maybe plus = read_value(text, 1);
    const Maybe minus = read_value(text, -1);
    if (!plus || !minus) return std::nullopt;
    return AnswerValue{.kind = AnswerValue::Kind::list, .items = {*plus, *minus}};
  }
};

bool near(Complex left, Complex right) {
  if (left == right) return true;  // infinities too
  const long double size = std::max(std::abs(left), std::abs(right));
  return std::isfinite(size) && std::abs(left - right) <= kTolerance * size + kAbsoluteTolerance;
}

bool near_everywhere(const AnswerValue& left, const AnswerValue& right, long double scale_of_right) {
  for (size_t point = 0; point < kPoints; ++point) {
    if (!near(left.at[point], scale_of_right * right.at[point])) return false;
  }
  return true;
}

bool same_number(const AnswerValue& left, const AnswerValue& right) {
  if (!left.unit.empty() && !right.unit.empty() && left.unit != right.unit) return false;
  // "50%" answers both 50 (the question named the unit) and 0.5.
  if (left.percent != right.percent) {
    const AnswerValue& percent = left.percent ? left : right;
    const AnswerValue& other = left.percent ? right : left;
    return near_everywhere(other, percent, 1) || near_everywhere(other, percent, 0.01L);
  }
  if (!left.decimal.empty() && !right.decimal.empty()) return left.decimal == right.decimal;
  return near_everywhere(left, right, 1);
}

bool same_list(const AnswerValue& left, const AnswerValue& right) {
  if (left.items.size() != right.items.size()) return false;
  std::vector<bool> used(right.items.size(), false);
  for (const AnswerValue& item : left.items) {
    size_t match = 0;
    while (match < used.size() && (used[match] || !same_value(item, right.items[match]))) ++match;
    if (match == used.size()) return false;
    used[match] = true;
  }
  return true;
}

bool same_items(const AnswerValue& left, const AnswerValue& right) {
  return std::equal(left.items.begin(), left.items.end(), right.items.begin(), right.items.end(), same_value);
}

// Two equations say the same if one is a multiple of the other.
bool same_equation(const AnswerValue& left, const AnswerValue& right) {
  const auto has_values = [](const AnswerValue& equation) {
    return equation.items[0].kind == AnswerValue::Kind::value &&
           equation.items[1].kind == AnswerValue::Kind::value;
  };
  if (!has_values(left) || !has_values(right)) return same_items(left, right);
  for (size_t point = 1; point < kPoints; ++point) {
    if (!near(left.at[0] * right.at[point], left.at[point] * right.at[0])) return false;
  }
  return right.at[0] != Complex(0) && left.at[0] != Complex(0);
}

// The right side of "x = 5" against "5". Of "x - 5 = 0" the right side is no answer.
bool same_as_side(const AnswerValue& equation, const AnswerValue& other, bool any_left_side) {
  const AnswerValue& side = equation.items[1];
  const bool is_zero = side.kind == AnswerValue::Kind::value && side.at[0] == Complex(0);
  const bool named = equation.text == "name" || equation.items[0].kind == AnswerValue::Kind::words;
  return (named || (any_left_side && !is_zero)) && same_value(side, other);
}

}  // namespace

AnswerValue read_answer(std::string_view text) {
  return Reader().read(without_thousands(plain_math(text)), 0);
}

bool same_value(const AnswerValue& left, const AnswerValue& right) {
  using Kind = AnswerValue::Kind;
  if (left.kind != right.kind) {
    if (left.kind == Kind::equation) return same_as_side(left, right, true);
    if (right.kind == Kind::equation) return same_as_side(right, left, false);
    // "C" may be a variable or the name of a choice.
    return (left.kind == Kind::words || right.kind == Kind::words) && left.text == right.text &&
           !left.text.empty() && std::all_of(left.text.begin(), left.text.end(), is_letter);
  }
  switch (left.kind) {
    case Kind::words:
    case Kind::numeral:
      return left.text == right.text && !left.text.empty();
    case Kind::value:
      return same_number(left, right);
    case Kind::list:
      return same_list(left, right);
    case Kind::tuple:
    case Kind::matrix:
      return left.text == right.text && same_items(left, right);
    case Kind::equation:
      return same_equation(left, right);
  }
  return false;
}

}  // namespace kvase::eval

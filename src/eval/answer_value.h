// SPDX-License-Identifier: MIT
// What an answer says: a value, several, a tuple, an equation, or words.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "eval/expression.h"

namespace kvase::eval {

inline constexpr size_t kPoints = 3;  // at which expressions are compared

struct AnswerValue {
  enum class Kind {
    words,     // nothing else fits: `text` alone
    value,     // `at`, and `decimal` if it is a plain decimal number; `text` as of words
    numeral,   // a number in a base: `text` as "52_8"
    list,      // `items`, in any order
    tuple,     // `items` in order, `text` the brackets: points, vectors, intervals
    matrix,    // `items` row by row, `text` the shape
    equation,  // `items` are the two sides; `at` is their difference where both have values
  };
  Kind kind = Kind::words;
  std::string text = {};
  std::array<Complex, kPoints> at = {};
  std::string decimal = {};  // sign, digits, point, digits: no zeros that could be left out
  std::string unit = {};     // singular
  bool percent = false;
  std::vector<AnswerValue> items = {};
};

AnswerValue read_answer(std::string_view text);

bool same_value(const AnswerValue& left, const AnswerValue& right);

}  // namespace kvase::eval

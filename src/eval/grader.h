// SPDX-License-Identifier: MIT
// Grades an answer: finds what a text states as its result, and compares that with the right one.
//
// Answers are compared by value, so 1/2, 0.5 and \frac{1}{2} are one answer, and a factored polynomial equals
// its expansion. What no value can be read from is compared letter by letter. docs/evaluation.md lists the
// rules.
#pragma once

#include <string>
#include <string_view>

namespace kvase::eval {

enum class AnswerSource { none, boxed, hashes, stated, last_number };
const char* answer_source_name(AnswerSource source) noexcept;

struct FinalAnswer {
  std::string text;  // as it stands in the answer
  AnswerSource source = AnswerSource::none;
};

// In this order: the last \boxed{...}, what follows the last "####", what follows the last "answer is" (or
// "answer:"), the last number. Thinking (up to a closing </think>) is never searched; thinking that does not
// end, or a last box that does not close, has no answer. `cut_off`: the text ended because of a limit, so
// only what is complete for certain counts: a closed box, or a "####" line with its end.
FinalAnswer find_final_answer(std::string_view text, bool cut_off);

// `gold` may be of any form that a model's answer may have.
bool same_answer(std::string_view found, std::string_view gold);

struct Grade {
  FinalAnswer answer;
  bool correct = false;
};
Grade grade(std::string_view text, bool cut_off, std::string_view gold);

}  // namespace kvase::eval

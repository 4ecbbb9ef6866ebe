// SPDX-License-Identifier: MIT
// Mathematical questions with their right answers, from a JSON-lines file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvase::eval {

struct Question {
  std::string id;  // the row's "id" or "unique_id", else the number of the line
  std::string text;
  std::string gold;
};

// One object a line: "question" or "problem", and "answer": a text, a number, or a list of one; of a text
// with
// "####" what follows it. `source` is named in errors. Throws Error(invalid_argument) with the line's number:
// not JSON, no question, no answer that can be read, an id twice; and for a file without questions.
std::vector<Question> parse_questions(std::string_view text, const std::string& source);

}  // namespace kvase::eval

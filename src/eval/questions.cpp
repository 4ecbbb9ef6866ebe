// SPDX-License-Identifier: MIT
// Rows of the data sets in use, read without knowing which one it is.
#include "eval/questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "eval/math_text.h"
#include "kvase/error.h"

namespace kvase::eval {
namespace {

using Json = nlohmann::json;

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

// A text, or a number as it would be written.
std::optional<std::string> as_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return value.dump();
  if (value.is_array() && value.size() == 1) return as_text(value[0]);
  return std::nullopt;
}

std::optional<std::string> field(const Json& row, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = row.find(name);
    if (found == row.end()) continue;
    if (auto text = as_text(*found); text && !trimmed(*text).empty()) return text;
  }
  return std::nullopt;
}

// The answer itself: behind "####", out of a list that was written as text ("['70']").
std::string gold_of(std::string_view answer) {
  if (const size_t mark = answer.rfind("####"); mark != std::string_view::npos)
    answer.remove_prefix(mark + 4);
  answer = trimmed(answer);
  for (const auto& [open, close] : {std::pair("['", "']"), std::pair("[\"", "\"]")}) {
    if (answer.size() > 4 && answer.starts_with(open) && answer.ends_with(close))
      answer = answer.substr(2, answer.size() - 4);
  }
  return std::string(answer);
}

}  // namespace

std::vector<Question> parse_questions(std::string_view text, const std::string& source) {
  std::vector<Question> questions;
  std::set<std::string> ids;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty()) continue;
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!row.is_object()) refuse("{}: line {}: found no JSON object, allowed: one per line", source, number);
    const auto asked = field(row, {"question", "problem"});
    const auto answer = field(row, {"answer"});
    if (!asked) refuse("{}: line {}: found no \"question\" or \"problem\", allowed: a text", source, number);
    const std::string gold = answer ? gold_of(*answer) : "";
    if (gold.empty()) refuse("{}: line {}: found no \"answer\", allowed: a text or a number", source, number);
    const std::string id = field(row, {"id", "unique_id"}).value_or(std::to_string(number));
    if (!ids.insert(id).second)
      refuse("{}: line {}: found id \"{}\" a second time, allowed: each once", source, number, id);
    questions.push_back({.id = id, .text = std::string(trimmed(*asked)), .gold = gold});
  }
  if (questions.empty()) refuse("{}: found no questions, allowed: one JSON object per line", source);
  return questions;
}

}  // namespace kvase::eval

// SPDX-License-Identifier: MIT
// Options of a method: declaration, checks, messages.
#include "policy/params.h"

#include <algorithm>
#include <charconv>

#include "base/errors.h"
#include "base/printable.h"

namespace kvase {

ParamInfo integer_param(std::string name, std::string default_value, int64_t min, int64_t max,
                        std::string help) {
  ParamInfo param;
  param.name = std::move(name);
  param.kind = ParamInfo::Kind::integer;
  param.default_value = std::move(default_value);
  param.min = min;
  param.max = max;
  param.help = std::move(help);
  return param;
}

ParamInfo real_param(std::string name, std::string default_value, double min, double max, std::string help) {
  ParamInfo param;
  param.name = std::move(name);
  param.kind = ParamInfo::Kind::real;
  param.default_value = std::move(default_value);
  param.real_min = min;
  param.real_max = max;
  param.help = std::move(help);
  return param;
}

ParamInfo text_param(std::string name, std::string help) {
  ParamInfo param;
  param.name = std::move(name);
  param.kind = ParamInfo::Kind::text;
  param.help = std::move(help);
  return param;
}

ParamInfo choice_param(std::string name, std::string default_value, std::vector<std::string> choices,
                       std::string help) {
  ParamInfo param;
  param.name = std::move(name);
  param.kind = ParamInfo::Kind::choice;
  param.default_value = std::move(default_value);
  param.choices = std::move(choices);
  param.help = std::move(help);
  return param;
}

std::string allowed_values(const ParamInfo& param) {
  if (param.kind == ParamInfo::Kind::integer) return fmt::format("{}..{}", param.min, param.max);
  if (param.kind == ParamInfo::Kind::real) return fmt::format("{}..{}", param.real_min, param.real_max);
  if (param.kind == ParamInfo::Kind::text) return "text";
  return fmt::format("{}", fmt::join(param.choices, "|"));
}

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string checked_value(std::string_view method, const ParamInfo& param, std::string_view value) {
  if (param.kind == ParamInfo::Kind::integer) {
    const std::optional<int64_t> number = parse_integer(value);
    if (number && *number >= param.min && *number <= param.max) return std::to_string(*number);
  } else if (param.kind == ParamInfo::Kind::real) {
    const std::optional<double> number = parse_real(value);
    if (number && *number >= param.real_min && *number <= param.real_max) return fmt::format("{}", *number);
  } else if (param.kind == ParamInfo::Kind::text ||
             std::ranges::find(param.choices, value) != param.choices.end()) {
    return std::string(value);
  }
  invalid("{}: {}={}, allowed: {}", method, param.name, printable(value), allowed_values(param));
}

double Params::real(const std::string& name) const {
  // Checked values are read back with the reader that checked them: not the user's locale.
  return parse_real(values_.at(name)).value();
}

void require_effect(std::string_view method, const Params& params, const std::string& name, bool has_effect,
                    std::string_view condition) {
  if (has_effect || !params.given(name)) return;
  invalid("{}: {}={} would have no effect, allowed: only with {}", method, name, params.text(name),
          condition);
}

}  // namespace kvase

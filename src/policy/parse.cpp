// SPDX-License-Identifier: MIT
// The one parser of policy strings, `base[:key=value,...][+modifier[:key=value,...]]...`, and of budgets.
#include <algorithm>
#include <limits>

#include "base/errors.h"
#include "base/printable.h"
#include "policy/list.h"
#include "policy/params.h"
#include "policy/shape.h"

namespace kvase {
namespace {

struct Option {
  std::string_view key, value;
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t start = 0;;) {
    const size_t end = text.find(separator, start);
    parts.push_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

Option read_option(std::string_view method, std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    invalid("{}: option \"{}\" without a value, allowed: key=value", method, printable(text));
  }
  const Option option = {text.substr(0, equals), text.substr(equals + 1)};
  if (option.value.empty())
    invalid("{}: {}= has an empty value, allowed: key=value", method, printable(option.key));
  return option;
}

uint32_t shape_value(std::string_view method, const Option& option, int64_t min, int64_t max) {
  const ParamInfo param = integer_param(std::string(option.key), "", min, max, "");
  return static_cast<uint32_t>(*parse_integer(checked_value(method, param, option.value)));
}

// True if `option` is one of kShapeKeys.
bool set_shape(ParsedPolicy& parsed, const Option& option) {
  const std::string& method = parsed.info.name;
  if (option.key == "budget") {
    parsed.budget = parse_budget(option.value);
  } else if (option.key == "interval") {
    parsed.interval = shape_value(method, option, 1, kMaxInterval);
  } else if (option.key == "window") {
    parsed.window = shape_value(method, option, 0, kMaxInterval);
  } else if (option.key == "sinks") {
    parsed.n_sink = shape_value(method, option, 0, kMaxSlots);
  } else {
    return false;
  }
  return true;
}

const ParamInfo& find_param(const PolicyInfo& info, std::string_view key) {
  const auto param = std::ranges::find(info.params, key, &ParamInfo::name);
  if (param != info.params.end()) return *param;
  std::vector<std::string_view> names;
  for (const ParamInfo& known : info.params) names.push_back(known.name);
  names.insert(names.end(), kShapeKeys.begin(), kShapeKeys.end());
  invalid("{}: unknown key \"{}\", allowed: {}", info.name, printable(key), fmt::join(names, ", "));
}

// Reads "key=value,..." into the shape fields and into the method's own options.
Params read_options(ParsedPolicy& parsed, const std::vector<std::string_view>& texts) {
  std::map<std::string, std::string> values;
  for (const ParamInfo& param : parsed.info.params) {
    if (!param.default_value.empty()) values[param.name] = param.default_value;
  }
  std::set<std::string> given;
  std::set<std::string, std::less<>> seen;
  for (const std::string_view text : texts) {
    const Option option = read_option(parsed.info.name, text);
    if (!seen.emplace(option.key).second) {
      invalid("{}: {} given twice, allowed: once", parsed.info.name, printable(option.key));
    }
    if (set_shape(parsed, option)) continue;
    const ParamInfo& param = find_param(parsed.info, option.key);
    values[param.name] = checked_value(parsed.info.name, param, option.value);
    given.insert(param.name);
  }
  return Params(std::move(values), std::move(given));
}

}  // namespace

Budget parse_budget(std::string_view text) {
  constexpr std::string_view kUnit = "MiB";
  constexpr int64_t kMiB = int64_t{1} << 20;
  const bool bytes = text.ends_with(kUnit);
  const int64_t scale = bytes ? kMiB : 1;
  const int64_t most = bytes ? std::numeric_limits<int64_t>::max() / kMiB : int64_t{kMaxSlots};
  const std::optional<int64_t> amount =
      parse_integer(bytes ? text.substr(0, text.size() - kUnit.size()) : text);
  if (!amount || *amount < 1 || *amount > most) {
    invalid("budget: \"{}\", allowed: tokens 1..{} such as 2048, or whole MiB such as 512MiB",
            printable(text), kMaxSlots);
  }
  return {bytes ? Budget::Unit::bytes : Budget::Unit::tokens, static_cast<uint64_t>(*amount * scale)};
}

ParsedPolicy parse_policy(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, '+');
  const std::string_view base = parts.front();
  const size_t colon = base.find(':');
  const std::string_view name = base.substr(0, colon);
  if (name.empty()) invalid("policy: \"{}\" names no method, allowed: name[:key=value,...]", printable(text));

  ParsedPolicy parsed;
  parsed.info = find_policy(name);
  parsed.text = text;
  if (parts.size() > 1) {
    const std::string_view modifier = parts[1].substr(0, parts[1].find(':'));
    invalid("policy: unknown modifier \"{}\", allowed: none in this version", printable(modifier));
  }
  std::vector<std::string_view> options;
  if (colon != std::string_view::npos) options = split(base.substr(colon + 1), ',');
  parsed.policy = parsed.info.make(read_options(parsed, options));
  return parsed;
}

}  // namespace kvase

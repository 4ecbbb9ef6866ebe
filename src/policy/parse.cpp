// SPDX-License-Identifier: MIT
// The one parser of policy strings, `base[:key=value,...][+modifier[:key=value,...]]...`, and of budgets.
#include <algorithm>
#include <limits>

#include "base/errors.h"
#include "base/printable.h"
#include "policy/list.h"
#include "policy/params.h"
#include "policy/pyramid.h"
#include "policy/shape.h"
#include "policy/tier.h"

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

// A method or a modifier with its options: `name[:key=value,...]`.
struct Part {
  std::string_view name;
  std::vector<Option> options;
};

Part read_part(std::string_view text) {
  const size_t colon = text.find(':');
  Part part = {.name = text.substr(0, colon), .options = {}};
  if (colon == std::string_view::npos) return part;
  std::set<std::string_view> seen;
  for (const std::string_view option_text : split(text.substr(colon + 1), ',')) {
    const Option option = read_option(part.name, option_text);
    if (!seen.insert(option.key).second) {
      invalid("{}: {} given twice, allowed: once", printable(part.name), printable(option.key));
    }
    part.options.push_back(option);
  }
  return part;
}

const ParamInfo& find_param(std::string_view owner, const std::vector<ParamInfo>& params,
                            std::string_view key, std::span<const std::string_view> other_keys) {
  const auto param = std::ranges::find(params, key, &ParamInfo::name);
  if (param != params.end()) return *param;
  std::vector<std::string_view> names;
  for (const ParamInfo& known : params) names.push_back(known.name);
  names.insert(names.end(), other_keys.begin(), other_keys.end());
  invalid("{}: unknown key \"{}\", allowed: {}", owner, printable(key), fmt::join(names, ", "));
}

// The values of `params`, defaults where the user gave none. `other_keys`: what else is allowed, for the
// message.
Params checked_params(std::string_view owner, const std::vector<ParamInfo>& params,
                      const std::vector<Option>& options, std::span<const std::string_view> other_keys) {
  std::map<std::string, std::string> values;
  for (const ParamInfo& param : params) {
    if (!param.default_value.empty()) values[param.name] = param.default_value;
  }
  std::set<std::string> given;
  for (const Option& option : options) {
    const ParamInfo& param = find_param(owner, params, option.key, other_keys);
    values[param.name] = checked_value(owner, param, option.value);
    given.insert(param.name);
  }
  return Params(std::move(values), std::move(given));
}

void read_modifier(ParsedPolicy& parsed, std::string_view text) {
  const Part part = read_part(text);
  const ModifierInfo info = find_modifier(part.name);
  if (!parsed.policy->evicts()) {
    invalid("{}+{}: nothing to modify, allowed: methods that evict", parsed.info.name, info.name);
  }
  const Params params = checked_params(info.name, info.params, part.options, {});
  const bool is_pyramid = info.name == "pyramid";
  if (is_pyramid ? parsed.pyramid.has_value() : parsed.tier.has_value()) {
    invalid("{}: +{} behind another, allowed: +pyramid once, +zero or +vector once", parsed.info.name,
            info.name);
  }
  if (is_pyramid) {
    parsed.pyramid = make_pyramid(params);
  } else {
    parsed.tier = make_tier(info, params);
    parsed.policy = make_tiered(parsed.policy, info, params);
  }
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
  if (parts.front().empty() || parts.front().front() == ':') {
    invalid("policy: \"{}\" names no method, allowed: name[:key=value,...]", printable(text));
  }
  const std::string_view name = parts.front().substr(0, parts.front().find(':'));

  ParsedPolicy parsed;
  parsed.info = find_policy(name);
  parsed.text = text;
  Part base = read_part(parts.front());
  std::erase_if(base.options, [&](const Option& option) { return set_shape(parsed, option); });
  parsed.policy =
      parsed.info.make(checked_params(parsed.info.name, parsed.info.params, base.options, kShapeKeys));
  for (const std::string_view modifier : std::span(parts).subspan(1)) read_modifier(parsed, modifier);
  return parsed;
}

}  // namespace kvase

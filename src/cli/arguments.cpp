// SPDX-License-Identifier: MIT
// Around CLI11: names before, complaints after.
#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "cli/messages.h"

namespace kvase::cli {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kLongNames = {{
    {"-ub", "--ubatch-size"},
    {"-ctk", "--cache-type-k"},
    {"-ctv", "--cache-type-v"},
    {"-np", "--parallel"},
    {"-sys", "--system-prompt"},
}};

constexpr std::array<std::string_view, 9> kSwitches = {
    "-h", "--help", "--json", "--verbose", "--no-repack", "--peer", "--chat", "--ignore-eos", "--raw"};

// Whether the argument after this one is its value.
bool takes_next(std::string_view argument) {
  if (argument.size() < 2 || argument[0] != '-' || argument == "--") return false;
  if (std::find(kSwitches.begin(), kSwitches.end(), argument) != kSwitches.end()) return false;
  const bool is_long = argument[1] == '-';
  return is_long ? argument.find('=') == std::string_view::npos : argument.size() == 2;  // -n5 has its value
}

[[noreturn]] void refuse(const CLI::App& app, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}, see: {} --help", what, app.get_name()));
}

bool needs_quotes(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:=,";
  return word.empty() || word.find_first_not_of(kPlain) != std::string::npos;
}

}  // namespace

Arguments with_long_names(const Arguments& arguments) {
  Arguments result;
  bool is_value = false;
  for (std::string argument : arguments) {
    if (!is_value) {
      for (const auto& [short_name, name] : kLongNames) {
        if (argument == short_name) argument = name;
      }
    }
    is_value = !is_value && takes_next(argument);
    result.push_back(std::move(argument));
  }
  return result;
}

bool parse(CLI::App& app, const Arguments& arguments) {
  Arguments reversed = with_long_names(arguments);  // CLI11 takes them from the back
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ExtrasError&) {
    refuse(app, fmt::format("unknown argument \"{}\"", app.remaining().front()));
  } catch (const CLI::ArgumentMismatch& error) {
    // CLI11 writes "--flag: 1 required N missing" or "--flag: At Most 1 required but received 2".
    const std::string text = one_line(error.what());
    const std::string flag = text.substr(0, text.find(':'));
    const bool missing = text.find("missing") != std::string::npos;
    refuse(app, flag + (missing ? " without a value" : " given more than once"));
  } catch (const CLI::ParseError& error) {
    refuse(app, one_line(error.what()));
  }
  return true;
}

void refuse_number(const std::string& flag, std::string_view text, const std::string& allowed) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{} \"{}\", allowed: {}", flag, text, allowed));
}

std::string long_name(const std::string& names) {
  const size_t comma = names.rfind(',');
  return comma == std::string::npos ? names : names.substr(comma + 1);
}

std::string command_line(const std::string& command, const Arguments& arguments) {
  std::string line = command;
  for (const std::string& word : arguments) {
    std::string quoted;
    for (const char character : word)
      quoted += character == '\'' ? std::string("'\\''") : std::string(1, character);
    line += needs_quotes(word) ? fmt::format(" '{}'", quoted) : fmt::format(" {}", word);
  }
  return line;
}

std::vector<std::string> split_commas(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

}  // namespace kvase::cli

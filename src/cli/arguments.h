// SPDX-License-Identifier: MIT
// Arguments to values. CLI11 finds the flags; the values are read here, so that nothing wraps, nothing is
// rounded to fit, and every complaint is one line of ours.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cli/command.h"

namespace kvase::cli {

// llama.cpp's flags of several letters after one dash, which CLI11 does not know, under their long names. A
// flag's value is left alone, whatever it looks like.
Arguments with_long_names(const Arguments& arguments);

// Reads the arguments. False: help was asked for and printed, nothing is to be done.
// Throws Error(invalid_argument).
bool parse(CLI::App& app, const Arguments& arguments);

// As it could be typed into a shell again.
std::string command_line(const std::string& command, const Arguments& arguments);

// The parts between commas, empty ones too; at least one.
std::vector<std::string> split_commas(std::string_view text);

[[noreturn]] void refuse_number(const std::string& flag, std::string_view text, const std::string& allowed);

template <typename Number>
std::string allowed_numbers() {
  if constexpr (std::is_floating_point_v<Number>) {
    return "a number such as 0.8";
  } else {
    return "a whole number from " + std::to_string(std::numeric_limits<Number>::min()) + " to " +
           std::to_string(std::numeric_limits<Number>::max());
  }
}

// Throws Error(invalid_argument) unless the whole text is one number that fits.
template <typename Number>
Number parse_number(const std::string& flag, std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    refuse_number(flag, text, allowed_numbers<Number>());
  }
  return number;
}

// The long name of "-c,--ctx-size".
std::string long_name(const std::string& names);

// A flag with a number for a value. Ranges are the library's business: it refuses what does not fit, by name.
template <typename Number, typename Target>
CLI::Option* add_number(CLI::App& app, const std::string& names, Target& target, const std::string& help,
                        const std::string& unit = "N") {
  const auto read = [&target, flag = long_name(names)](const std::string& text) {
    target = parse_number<Number>(flag, text);
  };
  return app.add_option_function<std::string>(names, read, help)->type_name(unit);
}

}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// Numbers and tables for people.
#include "cli/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace kvase::cli {

std::string with_commas(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t place = digits.size(); place > 3;) {
    place -= 3;
    digits.insert(place, 1, ',');
  }
  return digits;
}

std::string human_bytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double amount = static_cast<double>(bytes) / 1024;
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (amount >= 1024 && unit + 1 < std::size(units)) {
    amount /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", amount, units[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  return fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

std::string human_rate(double n, double seconds, const std::string& what) {
  if (n <= 0 || seconds <= 0) return "-";
  return fmt::format("{:.1f} {}/s", n / seconds, what);
}

std::string wrap(const std::string& text, size_t width) {
  std::string lines;
  size_t line_width = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool fits = line_width + 1 + word.size() <= width;
    if (line_width > 0) lines += fits ? ' ' : '\n';
    line_width = line_width > 0 && fits ? line_width + 1 + word.size() : word.size();
    lines += word;
  }
  return lines;
}

std::string table(const std::vector<Align>& columns, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(columns.size(), 0);
  for (const auto& row : rows) {
    for (size_t column = 0; column < columns.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t column = 0; column < columns.size(); ++column) {
      if (column > 0) text += "  ";
      const std::string padding(widths[column] - cells[column].size(), ' ');
      text += columns[column] == Align::left ? cells[column] + padding : padding + cells[column];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text;
  for (size_t row = 0; row < rows.size(); ++row) {
    text += line(rows[row]);
    if (row > 0) continue;
    std::vector<std::string> rules;
    for (const size_t width : widths) rules.emplace_back(width, '-');
    text += line(rules);
  }
  return text;
}

}  // namespace kvase::cli

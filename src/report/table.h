// SPDX-License-Identifier: MIT
// A table, as Markdown or HTML.
#pragma once

#include <string>
#include <vector>

namespace kvase::report {

enum class Align { left, right };

struct Column {
  std::string name;
  Align align = Align::right;
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows = {};  // REQUIRES: as many cells as columns
};

// Cells are plain text and escaped.
std::string to_markdown(const Table& table);
std::string to_html(const Table& table);

}  // namespace kvase::report

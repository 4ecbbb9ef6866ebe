// SPDX-License-Identifier: MIT
// Rows to lines.
#include "report/table.h"

#include <fmt/format.h>

#include "kvase/error.h"
#include "report/markup.h"

namespace kvase::report {
namespace {

void check_shape(const Table& table) {
  for (const auto& row : table.rows) {
    if (row.size() == table.columns.size()) continue;
    throw Error(ErrorCode::internal,
                fmt::format("table: found a row of {} cells, allowed: {}", row.size(), table.columns.size()));
  }
}

std::string html_row(const Table& table, const std::vector<std::string>& cells, const char* tag) {
  std::string html = "<tr>";
  for (size_t column = 0; column < cells.size(); ++column) {
    const bool right = table.columns[column].align == Align::right;
    html += fmt::format("<{}{}>{}</{}>", tag, right ? " class=\"number\"" : "", escape_markup(cells[column]),
                        tag);
  }
  return html + "</tr>\n";
}

}  // namespace

std::string to_markdown(const Table& table) {
  check_shape(table);
  std::string markdown = "|";
  for (const Column& column : table.columns) markdown += fmt::format(" {} |", escape_markdown(column.name));
  markdown += "\n|";
  for (const Column& column : table.columns) markdown += column.align == Align::right ? "---:|" : "---|";
  markdown += "\n";
  for (const auto& row : table.rows) {
    markdown += "|";
    for (const std::string& cell : row) markdown += fmt::format(" {} |", escape_markdown(cell));
    markdown += "\n";
  }
  return markdown;
}

std::string to_html(const Table& table) {
  check_shape(table);
  std::vector<std::string> names;
  for (const Column& column : table.columns) names.push_back(column.name);
  std::string html =
      "<div class=\"scroll\"><table>\n<thead>" + html_row(table, names, "th") + "</thead>\n<tbody>\n";
  for (const auto& row : table.rows) html += html_row(table, row, "td");
  return html + "</tbody></table></div>\n";
}

}  // namespace kvase::report

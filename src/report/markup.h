// SPDX-License-Identifier: MIT
// Text that is safe inside HTML, SVG and Markdown.
#pragma once

#include <string>
#include <string_view>

namespace kvase::report {

// For HTML and SVG, in text and in quoted attributes. Control characters other than line breaks and tabs
// become spaces, which XML does not allow.
std::string escape_markup(std::string_view text);

// For one cell or paragraph of Markdown: what would start a tag, end a cell, or break the line is escaped.
std::string escape_markdown(std::string_view text);

}  // namespace kvase::report

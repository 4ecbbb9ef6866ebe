// SPDX-License-Identifier: MIT
// A document of headings, text, tables and figures, written once: as Markdown beside its SVG files, or as one
// HTML file that needs nothing else.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "report/table.h"

namespace kvase::report {

struct Heading {
  std::string text;
};
struct Paragraph {
  std::string text;  // plain; escaped in both forms
};
struct Code {
  std::string text;  // shown as it is
};
struct Figure {
  std::string file;  // name of the SVG file that Markdown links to, as "kl.svg"
  std::string caption;
  std::string svg;
};

using Block = std::variant<Heading, Paragraph, Code, Table, Figure>;

struct Document {
  std::string title;
  std::vector<Block> blocks = {};
};

std::string to_markdown(const Document& document);
std::string to_html(const Document& document);

// A whole HTML file around `body`, which is HTML already: its style follows the reader's light or dark
// setting. `style` is CSS that comes after the common one.
std::string html_page(std::string_view title, std::string_view body, std::string_view style = {});

// Writes report.md, report.html and every figure's file into the folder, which is made if it is not there.
// Throws Error(device) naming the file that could not be written.
void write_report(const std::string& folder, const Document& document);

// Writes the file whole: to a temporary one beside it, then renamed. Throws Error(device).
void write_file(const std::string& path, std::string_view text);

}  // namespace kvase::report

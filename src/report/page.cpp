// SPDX-License-Identifier: MIT
// Block by block, in two forms.
#include "report/page.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "kvase/error.h"
#include "report/markup.h"

namespace kvase::report {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --text: #1f2328; --faint: #59636e; --line: #d1d9e0; --page: #ffffff; --panel: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --faint: #9198a1; --line: #3d444d; --page: #0d1117; --panel: #151b23; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 72rem; margin: 2rem auto;
  padding: 0 1rem; }
h1, h2 { line-height: 1.25; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); padding-bottom: .3rem; }
p { max-width: 50rem; }
pre { background: var(--panel); border-radius: 6px; padding: .8rem 1rem; overflow-x: auto; font-size: 14px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
th { color: var(--faint); font-weight: 600; }
.number { text-align: right; }
figure { margin: 1.5rem 0; }
figure svg { max-width: 100%; height: auto; }
figcaption { color: var(--faint); font-size: 14px; max-width: 50rem; }
)";

struct MarkdownWriter {
  std::string operator()(const Heading& block) const {
    return fmt::format("## {}\n", escape_markdown(block.text));
  }
  std::string operator()(const Paragraph& block) const { return escape_markdown(block.text) + "\n"; }
  std::string operator()(const Code& block) const { return fmt::format("```\n{}\n```\n", block.text); }
  std::string operator()(const Table& block) const { return to_markdown(block); }
  std::string operator()(const Figure& block) const {
    return fmt::format("![{0}]({1})\n\n{0}\n", escape_markdown(block.caption), block.file);
  }
};

struct HtmlWriter {
  std::string operator()(const Heading& block) const {
    return fmt::format("<h2>{}</h2>\n", escape_markup(block.text));
  }
  std::string operator()(const Paragraph& block) const {
    return fmt::format("<p>{}</p>\n", escape_markup(block.text));
  }
  std::string operator()(const Code& block) const {
    return fmt::format("<pre>{}</pre>\n", escape_markup(block.text));
  }
  std::string operator()(const Table& block) const { return to_html(block); }
  std::string operator()(const Figure& block) const {
    return fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", block.svg,
                       escape_markup(block.caption));
  }
};

}  // namespace

std::string to_markdown(const Document& document) {
  std::string markdown = fmt::format("# {}\n", escape_markdown(document.title));
  for (const Block& block : document.blocks)
    markdown += fmt::format("\n{}", std::visit(MarkdownWriter(), block));
  return markdown;
}

std::string to_html(const Document& document) {
  std::string body = fmt::format("<h1>{}</h1>\n", escape_markup(document.title));
  for (const Block& block : document.blocks) body += std::visit(HtmlWriter(), block);
  return html_page(document.title, body);
}

std::string html_page(std::string_view title, std::string_view body, std::string_view style) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      escape_markup(title), kStyle, style, body);
}

void write_report(const std::string& folder, const Document& document) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw Error(ErrorCode::device,
                fmt::format("{}: {}, allowed: a folder that can be written", folder, error.message()));
  }
  const auto path = [&](const std::string& name) { return (std::filesystem::path(folder) / name).string(); };
  for (const Block& block : document.blocks) {
    if (const auto* figure = std::get_if<Figure>(&block)) write_file(path(figure->file), figure->svg);
  }
  write_file(path("report.md"), to_markdown(document));
  write_file(path("report.html"), to_html(document));
}

void write_file(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".part";
  std::ofstream file(temporary, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    throw Error(ErrorCode::device,
                fmt::format("{}: {}, allowed: a file that can be written", path, std::strerror(errno)));
  }
}

}  // namespace kvase::report

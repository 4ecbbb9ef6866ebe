// SPDX-License-Identifier: MIT
// Replacements, in an order that matters: commands before the characters that they are made of.
#include "eval/math_text.h"

#include <array>
#include <cctype>
#include <utility>

namespace kvase::eval {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

constexpr std::array kUnicode = std::to_array<Pair>({
    {"\u2212", "-"},        {"\u2013", "-"},     {"\u00d7", "\\times "}, {"\u00b7", "\\cdot "},
    {"\u22c5", "\\cdot "},  {"\u00f7", "/"},     {"\u221a", " sqrt "},   {"\u03c0", "\\pi "},
    {"\u00b0", "^\\circ "}, {"\u00b2", "^2"},    {"\u00b3", "^3"},       {"\u221e", "\\infty "},
    {"\u222a", "\\cup "},   {"\u2208", "\\in "}, {"\u00b1", "\\pm "},    {"\u2248", "\\approx "},
    {"\u00bd", " 1/2"},     {"\u00bc", " 1/4"},  {"\u00be", " 3/4"},     {"\u00a0", " "},
    {"\u2009", " "},        {"\u202f", " "},     {"\u2019", "'"},        {"\u03b8", "\\theta "},
    {"\u20ac", "$"},        {"\u00a3", "$"},     {"\u2264", "\\le "},    {"\u2265", "\\ge "},
});

// Longer names stand before the names that they begin with.
constexpr std::array kCommands = std::to_array<Pair>({
    {"\\dfrac", "\\frac"},
    {"\\tfrac", "\\frac"},
    {"\\cfrac", "\\frac"},
    {"\\displaystyle", ""},
    {"\\limits", ""},
    {"\\textbf{", "\\text{"},
    {"\\textit{", "\\text{"},
    {"\\textrm{", "\\text{"},
    {"\\mathrm{", "\\text{"},
    {"\\mathbf{", "\\text{"},
    {"\\operatorname{", "\\text{"},
    {"\\mbox{", "\\text{"},
    {"\\left", ""},
    {"\\right", ""},
    {"\\bigl", ""},
    {"\\bigr", ""},
    {"\\Bigl", ""},
    {"\\Bigr", ""},
    {"\\bigg", ""},
    {"\\Bigg", ""},
    {"\\big", ""},
    {"\\Big", ""},
    {"\\lvert", "|"},
    {"\\rvert", "|"},
    {"\\{", "\x02"},
    {"\\}", "\x03"},
    {"\\langle", "\x04"},
    {"\\rangle", "\x05"},
    {"\\! ", ""},
    {"\\!", ""},
    {"\\;", " "},
    {"\\:", " "},
    {"\\quad", " "},
    {"\\qquad", " "},
    {"~", " "},
    {"\\$", "$"},
    {"\\%", "%"},
    {"\\#", "#"},
    {"\\&", "&"},
    {"{,}", ","},
    {"^{\\circ}", "\\text{degree}"},
    {"^\\circ", "\\text{degree}"},
    {"^\\degree", "\\text{degree}"},
    {"\\degree", "\\text{degree}"},
    {"{bmatrix}", "{pmatrix}"},
    {"\\in[", "\\in ["},
    {"\\in(", "\\in ("},
    {"\\geq", "\\ge"},
    {"\\leq", "\\le"},
    {"\\neq", "\\ne"},
    {"\\cdot", "*"},
    {"\\times", "*"},
    {"\\div", "/"},
    {"**", "^"},
});

bool is_digit(char character) { return std::isdigit(static_cast<unsigned char>(character)) != 0; }

// A thin space between groups of three digits belongs to the number; elsewhere it is a space.
void resolve_thin_spaces(std::string& text) {
  for (size_t found = text.find("\\,"); found != std::string::npos; found = text.find("\\,", found)) {
    const bool groups = found > 0 && is_digit(text[found - 1]) && found + 4 < text.size() &&
                        is_digit(text[found + 2]) && is_digit(text[found + 3]) && is_digit(text[found + 4]);
    text.erase(found, groups ? 2 : 1);
    if (!groups) text[found] = ' ';
  }
}

// $..$, $$..$$, \(..\), \[..\], Markdown's **..** and `..` around all of it.
void strip_delimiters(std::string_view& text) {
  constexpr std::array kPairs = std::to_array<Pair>(
      {{"**", "**"}, {"$$", "$$"}, {"$", "$"}, {"\\(", "\\)"}, {"\\[", "\\]"}, {"`", "`"}});
  for (const auto& [open, close] : kPairs) {
    if (text.size() > open.size() + close.size() && text.starts_with(open) && text.ends_with(close)) {
      text = trimmed(text.substr(open.size(), text.size() - open.size() - close.size()));
    }
  }
}

// A full stop, comma or the like that ends a sentence, not a number such as ".5".
void strip_final_marks(std::string_view& text) {
  while (!text.empty() && std::string_view(".,;:").find(text.back()) != std::string_view::npos &&
         !text.ends_with("\\,") && !text.ends_with("\\;") && !text.ends_with("\\:")) {
    text = trimmed(text.substr(0, text.size() - 1));
  }
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string result;
  size_t done = 0;
  for (size_t found = text.find(from); found != std::string::npos; found = text.find(from, done)) {
    result.append(text, done, found - done).append(to);
    done = found + from.size();
  }
  text = result.append(text, done);
}

size_t group_end(std::string_view text, size_t open) {
  constexpr std::string_view kOpen = "([{\x02\x04";
  constexpr std::string_view kClose = ")]}\x03\x05";
  size_t depth = 0;
  for (size_t at = open; at < text.size(); ++at) {
    if (kOpen.find(text[at]) != std::string_view::npos) ++depth;
    if (kClose.find(text[at]) != std::string_view::npos && --depth == 0) return at + 1;
  }
  return std::string_view::npos;
}

std::string plain_math(std::string_view text) {
  text = trimmed(text);
  strip_final_marks(text);
  strip_delimiters(text);
  strip_final_marks(text);
  std::string plain(text);
  for (char& character : plain) {
    if (character == '\t' || character == '\n' || character == '\r') character = ' ';
  }
  for (const auto& [from, to] : kUnicode) replace_all(plain, from, to);
  // \\ separates the rows of a matrix; \, and the like must not be found in "\\,".
  replace_all(plain, "\\\\", "\x06");
  resolve_thin_spaces(plain);
  for (const auto& [from, to] : kCommands) replace_all(plain, from, to);
  for (const std::string_view word : {"and", "or"}) {
    const std::string name(word);
    replace_all(plain, "\\text{ " + name + " }", ",");
    replace_all(plain, "\\text{" + name + "}", ",");
    replace_all(plain, " " + name + " ", " , ");
  }
  replace_all(plain, "\\ ", " ");
  return std::string(trimmed(plain));
}

}  // namespace kvase::eval

// SPDX-License-Identifier: MIT
// Character by character.
#include "report/markup.h"

namespace kvase::report {

std::string escape_markup(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char character : text) {
    switch (character) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      case '\n':
      case '\t':
        escaped += character;
        break;
      default:
        escaped += static_cast<unsigned char>(character) < 0x20 ? ' ' : character;
    }
  }
  return escaped;
}

std::string escape_markdown(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char character : text) {
    switch (character) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '\\':
      case '`':
      case '*':
      case '_':
      case '[':
      case ']':
      case '|':
        escaped += '\\', escaped += character;
        break;
      default:
        escaped += static_cast<unsigned char>(character) < 0x20 ? ' ' : character;
    }
  }
  return escaped;
}

}  // namespace kvase::report

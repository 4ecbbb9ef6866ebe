// SPDX-License-Identifier: MIT
// UTF-8 by table 3-7 of the Unicode standard: only the second byte's range depends on the first.
#include "text/utf8.h"

#include <cstdint>

namespace kvase {
namespace {

struct Lead {
  size_t n_bytes = 0;  // of the whole character; 0: no character starts so
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};  // continuation bytes, and C0, C1, which could only start overlong forms
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};  // below: overlong
  if (byte == 0xED) return {3, 0x80, 0x9F};  // above: surrogates
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};  // below: overlong
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // above: beyond U+10FFFF
  return {0};
}

}  // namespace

Utf8Unit utf8_unit(std::string_view bytes, size_t offset) {
  const Lead lead = lead_of(static_cast<uint8_t>(bytes[offset]));
  if (lead.n_bytes == 0) return {Utf8Unit::Kind::invalid, 1};
  for (size_t n = 1; n < lead.n_bytes; ++n) {
    if (offset + n == bytes.size()) return {Utf8Unit::Kind::cut, n};
    const uint8_t byte = static_cast<uint8_t>(bytes[offset + n]);
    const uint8_t low = n == 1 ? lead.second_min : uint8_t{0x80};
    const uint8_t high = n == 1 ? lead.second_max : uint8_t{0xBF};
    if (byte < low || byte > high) return {Utf8Unit::Kind::invalid, n};
  }
  return {Utf8Unit::Kind::valid, lead.n_bytes};
}

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Unit unit = utf8_unit(text, offset);
    if (unit.kind != Utf8Unit::Kind::valid) return offset;
    offset += unit.n_bytes;
  }
  return std::nullopt;
}

std::string Utf8Assembler::push(std::string_view bytes) {
  waiting_.append(bytes);
  std::string text;
  size_t offset = 0;
  while (offset < waiting_.size()) {
    const Utf8Unit unit = utf8_unit(waiting_, offset);
    if (unit.kind == Utf8Unit::Kind::cut) break;
    if (unit.kind == Utf8Unit::Kind::valid) {
      text.append(waiting_, offset, unit.n_bytes);
    } else {
      text.append(kReplacement);
    }
    offset += unit.n_bytes;
  }
  waiting_.erase(0, offset);
  return text;
}

std::string Utf8Assembler::flush() {
  const bool cut = !waiting_.empty();
  waiting_.clear();
  return std::string(cut ? kReplacement : std::string_view());
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Packs columns and puts them into the page.
#include "cli/inspect_page.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace kvase::cli {
namespace {

constexpr std::string_view kPlaceholder = "@DATA@";

// The upper half of an f32, rounded; NaN and infinities stay what they are.
uint16_t to_bf16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>((std::bit_cast<uint32_t>(value) + 0x8000U) >> 16U);
}

void append_u16(std::string& bytes, uint16_t value) {
  bytes += static_cast<char>(value & 0xffU);
  bytes += static_cast<char>(value >> 8U);
}

std::string pack(std::span<const uint16_t> values) {
  std::string bytes;
  bytes.reserve(values.size() * 2);
  for (const uint16_t value : values) append_u16(bytes, value);
  return base64(bytes);
}

std::string pack_bf16(std::span<const float> values) {
  std::string bytes;
  bytes.reserve(values.size() * 2);
  for (const float value : values) append_u16(bytes, to_bf16(value));
  return base64(bytes);
}

std::string pack(std::span<const Quantiles> rows) {
  std::string bytes;
  for (const Quantiles& row : rows) {
    for (const float value : row) {
      const auto bits = std::bit_cast<uint32_t>(value);
      append_u16(bytes, static_cast<uint16_t>(bits & 0xffffU));
      append_u16(bytes, static_cast<uint16_t>(bits >> 16U));
    }
  }
  return base64(bytes);
}

Json json_of_head(const HeadRecord& head) {
  const bool has_demoted =
      std::ranges::any_of(head.demoted, [](uint16_t event) { return event != kNoEvent; });
  return {{"left", pack(head.left)},        {"demoted", has_demoted ? pack(head.demoted) : ""},
          {"range", pack_bf16(head.range)}, {"score", pack_bf16(head.score)},
          {"kept", pack(head.kept)},        {"dropped", pack(head.dropped)}};
}

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t first = 0; first < bytes.size(); first += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - first);
    uint32_t bits = 0;
    for (size_t byte = 0; byte < 3; ++byte) {
      bits <<= 8U;
      if (byte < n) bits |= static_cast<unsigned char>(bytes[first + byte]);
    }
    for (size_t digit = 0; digit < 4; ++digit) {
      text += digit <= n ? kDigits[(bits >> (18U - 6U * digit)) & 63U] : '=';
    }
  }
  return text;
}

Json json_of_record(const EventRecord& record) {
  Json layers = Json::array();
  for (const LayerRecord& layer : record.layers()) {
    Json heads = Json::array();
    for (const HeadRecord& head : layer.heads) heads.push_back(json_of_head(head));
    layers.push_back({{"layer", layer.layer}, {"events", layer.events}, {"heads", std::move(heads)}});
  }
  return layers;
}

Json json_of_text(std::span<const std::string> pieces) {
  std::string bytes;
  std::vector<size_t> lengths;
  for (const std::string& piece : pieces) {
    bytes += piece;
    lengths.push_back(piece.size());
  }
  return {{"bytes", base64(bytes)}, {"lengths", std::move(lengths)}};
}

// In JSON `<` stands in strings only, where its escape means the same; without it no tag can begin.
std::string inspect_page(const Json& data) {
  std::string json;
  for (const char c : data.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<') {
      json += "\\u003c";
    } else {
      json += c;
    }
  }
  std::string page(kInspectPage);
  return page.replace(page.find(kPlaceholder), kPlaceholder.size(), json);
}

}  // namespace kvase::cli

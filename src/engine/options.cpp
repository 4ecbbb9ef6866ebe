// SPDX-License-Identifier: MIT
// Names of option values.
#include "kvase/options.h"

#include "base/errors.h"

namespace kvase {

const char* row_type_name(RowType type) noexcept {
  switch (type) {
    case RowType::f32:
      return "f32";
    case RowType::f16:
      return "f16";
    case RowType::bf16:
      return "bf16";
  }
  return "unknown";
}

RowType parse_row_type(const std::string& text) {
  for (const RowType type : {RowType::f32, RowType::f16, RowType::bf16}) {
    if (text == row_type_name(type)) return type;
  }
  // llama.cpp's other cache types: known by name, not built yet.
  for (const char* planned : {"q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"}) {
    if (text == planned)
      fail(ErrorCode::unsupported, "cache type \"{}\" is not there yet, allowed: f32, f16, bf16", text);
  }
  invalid("cache type \"{}\", allowed: f32, f16, bf16", text);
}

}  // namespace kvase

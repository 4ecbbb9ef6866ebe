// SPDX-License-Identifier: MIT
// The page of `kvase inspect`: one HTML file that needs nothing else. All that it shows lies in it as one
// JSON object; docs/inspect.md says how to read it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/event_record.h"
#include "cli/json.h"

namespace kvase::cli {

// The template, src/cli/inspect_page.html. @DATA@ stands where the object goes.
extern const std::string_view kInspectPage;

std::string base64(std::string_view bytes);

// Columns as base64 of little-endian numbers: u16 event numbers, bf16 ranges and scores, f32 quantiles.
// `demoted` is empty where no token was.
Json json_of_record(const EventRecord& record);

// The bytes of all tokens, and how many each has.
Json json_of_text(std::span<const std::string> pieces);

// The template with its data, which may hold any text: nothing in it can end the element that it lies in.
std::string inspect_page(const Json& data);

}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// Numbers and tables for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvase::cli {

std::string with_commas(uint64_t number);   // 48,660,480
std::string human_bytes(uint64_t bytes);    // 46.4 MiB; below 1 KiB: 12 bytes
std::string human_seconds(double seconds);  // 850 ms, 12.3 s, 4 min 05 s
std::string human_rate(double n, double seconds,
                       const std::string& what);  // 45.6 tokens/s; "-" if nothing was timed

// The text in lines of at most `width` bytes, broken at spaces; a longer word has a line of its own.
std::string wrap(const std::string& text, size_t width);

enum class Align { left, right };

// Columns two spaces apart, the first row underlined. REQUIRES: every row has as many cells as `columns`.
std::string table(const std::vector<Align>& columns, const std::vector<std::vector<std::string>>& rows);

}  // namespace kvase::cli

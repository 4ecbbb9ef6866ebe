// SPDX-License-Identifier: MIT
// One spelling for mathematical text: LaTeX that only moves things about is removed, Unicode becomes LaTeX.
#pragma once

#include <string>
#include <string_view>

namespace kvase::eval {

// What stands for brackets that LaTeX writes as commands.
inline constexpr char kSetOpen = '\x02';     // \{
inline constexpr char kSetClose = '\x03';    // \}
inline constexpr char kAngleOpen = '\x04';   // \langle
inline constexpr char kAngleClose = '\x05';  // \rangle

// "\dfrac{1}{2}\,\text{cm}" becomes "\frac{1}{2} \text{cm}"; "\$1,\!000." becomes "$1,000". Degrees become
// \text{degree}, "and" and "or" between values become commas.
std::string plain_math(std::string_view text);

// The index behind the group that opens at `open` (any bracket), or npos if it does not close.
size_t group_end(std::string_view text, size_t open);

std::string_view trimmed(std::string_view text);
void replace_all(std::string& text, std::string_view from, std::string_view to);

}  // namespace kvase::eval

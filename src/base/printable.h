// SPDX-License-Identifier: MIT
// Text of unknown origin, made fit for one line of an error message.
#pragma once

#include <string>
#include <string_view>

namespace kvase {

// Bytes other than printable ASCII become '?', long text is cut and ends in "...".
std::string printable(std::string_view text);

}  // namespace kvase

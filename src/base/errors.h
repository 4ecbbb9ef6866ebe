// SPDX-License-Identifier: MIT
// Short ways to throw kvase::Error with a formatted message. The compiler checks the placeholders.
#pragma once

#include <fmt/format.h>

#include "kvase/error.h"

namespace kvase {

template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void invalid(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void bad_file(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::bad_model_file, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kvase

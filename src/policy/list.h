// SPDX-License-Identifier: MIT
// Looking a method up, and the keys that every method shares.
#pragma once

#include <array>
#include <string_view>

#include "kvase/policy.h"

namespace kvase {

// Keys of a policy string that shape the cache; no option of a method may have one of these names.
inline constexpr std::array<std::string_view, 4> kShapeKeys = {"budget", "interval", "window", "sinks"};

// Throws Error(invalid_argument) naming all methods.
PolicyInfo find_policy(std::string_view name);

// Throws Error(invalid_argument) naming all modifiers.
ModifierInfo find_modifier(std::string_view name);

}  // namespace kvase

// SPDX-License-Identifier: MIT
// How much memory the machine can still give.
#pragma once

#include <cstddef>
#include <optional>

namespace kvase {

// Bytes that can be allocated without swapping, or nothing if the system does not say.
std::optional<size_t> available_memory_bytes();

}  // namespace kvase

// SPDX-License-Identifier: MIT
// What this machine offers.
#pragma once

#include <cstdint>

namespace kvase::cli {

// Bytes that this process could still use without swapping: what the system calls available, within the
// container's limit.
uint64_t available_memory_bytes();

}  // namespace kvase::cli

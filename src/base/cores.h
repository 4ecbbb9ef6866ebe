// SPDX-License-Identifier: MIT
// How many cores this process may use.
#pragma once

#include <cstdint>

namespace kvase {

// Cores in the process's affinity mask, at least 1; all of the machine's where the system has no such mask.
uint32_t usable_cores();

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Asks Linux for the affinity mask: containers and taskset narrow it, hardware_concurrency() may not see
// that.
#include "base/cores.h"

#include <algorithm>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

namespace kvase {

uint32_t usable_cores() {
#ifdef __linux__
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0)
    return static_cast<uint32_t>(std::max(CPU_COUNT(&mask), 1));
#endif
  return std::max(std::thread::hardware_concurrency(), 1U);
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Reads Linux's own estimate.
#include "base/memory.h"

#include <fstream>
#include <string>

namespace kvase {

std::optional<size_t> available_memory_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  size_t kibibytes = 0;
  std::string unit;
  while (meminfo >> name >> kibibytes) {
    if (name == "MemAvailable:") return kibibytes * 1024;
    std::getline(meminfo, unit);
  }
  return std::nullopt;
}

}  // namespace kvase

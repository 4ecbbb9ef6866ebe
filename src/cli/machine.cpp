// SPDX-License-Identifier: MIT
// Available memory, from Linux's own files; elsewhere all physical memory, which is the best that POSIX
// tells.
#include "cli/machine.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace kvase::cli {
namespace {

std::optional<uint64_t> system_available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t kilobytes = 0;
  std::string rest;
  while (file >> name >> kilobytes && std::getline(file, rest)) {
    if (name == "MemAvailable:") return kilobytes * 1024;
  }
  return std::nullopt;
}

std::optional<uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;  // no such file, or "max"
}

// Control groups, version 2.
std::optional<uint64_t> container_available_bytes() {
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return std::nullopt;
  return *limit - std::min(*limit, *used);
}

uint64_t physical_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes) : 0;
}

}  // namespace

uint64_t available_memory_bytes() {
  const uint64_t system = system_available_bytes().value_or(physical_bytes());
  return std::min(system, container_available_bytes().value_or(std::numeric_limits<uint64_t>::max()));
}

}  // namespace kvase::cli

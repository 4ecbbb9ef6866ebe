// SPDX-License-Identifier: MIT
// Linux's own estimate, and its madvise().
#include "base/memory.h"

#include <sys/mman.h>

#include <cstdint>
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

void advise_huge_pages(void* data, size_t n_bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kPage = 4096;  // madvise() wants the address of a page
  const uintptr_t end = reinterpret_cast<uintptr_t>(data) + n_bytes;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(data) + kPage - 1) / kPage * kPage;
  if (first < end) static_cast<void>(madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE));
#else
  static_cast<void>(data);
  static_cast<void>(n_bytes);
#endif
}

}  // namespace kvase

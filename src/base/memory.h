// SPDX-License-Identifier: MIT
// How much memory the machine can still give, and how it should back what it gave.
#pragma once

#include <cstddef>
#include <optional>

namespace kvase {

// Bytes that can be allocated without swapping, or nothing if the system does not say.
std::optional<size_t> available_memory_bytes();

// Asks for huge pages behind memory that is not written yet: what is read from end to end misses the TLB
// less. A hint that may do nothing; no page outside the range becomes resident.
void advise_huge_pages(void* data, size_t n_bytes);

}  // namespace kvase

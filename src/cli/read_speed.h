// SPDX-License-Identifier: MIT
// How fast memory can be read: the floor under everything that must read much.
#pragma once

#include <cstdint>

namespace kvase::cli {

// Bytes per second of n_threads threads that sum over memory of their own, the best of some tries. Takes some
// tenths of a second and 128 MiB per thread, at most 1 GiB.
double read_bytes_per_second(uint32_t n_threads);

}  // namespace kvase::cli

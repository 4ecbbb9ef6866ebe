// SPDX-License-Identifier: MIT
// The least time that reading some memory takes: a vector sum over it, on the same threads as everything
// else.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/compute.h"

namespace kvase {

// Reads all bytes of all spans once, 128 KiB at a time, handed out to threads as they become free. Returns a
// sum that depends on every byte.
float read_all(Compute& compute, std::span<const std::span<const std::byte>> spans);

}  // namespace kvase

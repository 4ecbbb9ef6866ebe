// SPDX-License-Identifier: MIT
// Work that recurses deeply, on a stack of its own.
#pragma once

#include <cstddef>
#include <functional>

namespace kvase {

// Runs `work` to its end on a thread with a stack of at least `stack_bytes`; exceptions pass through. Only
// the touched part of the stack takes memory. Throws Error(out_of_memory) if there is no such thread to be
// had.
void run_on_deep_stack(size_t stack_bytes, const std::function<void()>& work);

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Which weight types give a token the same bits whatever else is in the batch: the measured list behind our
// promise of the same text beside other sequences (docs/decisions/0003).
#pragma once

#include <ggml.h>

namespace kvase {

// True if a row of ggml's CPU matmul with this weight type has the same bits for every number of rows. False
// for types that are not known to: f32, f16 and bf16 go through other kernels from 2 rows on, K- and most
// IQ-quants from 4 or 8 on. Measured with ggml 0.25 by batch_rows_test.cpp, which fails when a listed type
// stops being so.
bool rows_ignore_batch(ggml_type type, bool repacked);

}  // namespace kvase

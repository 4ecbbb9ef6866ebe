// SPDX-License-Identifier: MIT
// Rotary position embedding as a graph node, for every pairing and scaling that our families have.
#pragma once

#include <ggml.h>

#include "model/family.h"
#include "model/hparams.h"

namespace kvase {

// Rotates the first n_rot channels of every head by the token's position; the others pass through.
//   x        f32 [head_dim, n_heads, n_tokens]
//   pos      i32 [n_tokens]
//   factors  f32 [n_rot / 2] that divide the angles (Llama 3's rope_freqs), or null
ggml_tensor* rotate(ggml_context* context, ggml_tensor* x, ggml_tensor* pos, ggml_tensor* factors,
                    const RopeParams& rope, RopePairing pairing);

}  // namespace kvase

// SPDX-License-Identifier: MIT
// ggml_rope_ext with the arguments in one place.
#include "model/rope.h"

namespace kvase {

ggml_tensor* rotate(ggml_context* context, ggml_tensor* x, ggml_tensor* pos, ggml_tensor* factors,
                    const RopeParams& rope, RopePairing pairing) {
  const int mode = pairing == RopePairing::halves ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;
  return ggml_rope_ext(context, x, pos, factors, static_cast<int>(rope.n_rot), mode,
                       static_cast<int>(rope.n_ctx_orig), rope.freq_base, rope.freq_scale, rope.ext_factor,
                       rope.attn_factor, rope.beta_fast, rope.beta_slow);
}

}  // namespace kvase

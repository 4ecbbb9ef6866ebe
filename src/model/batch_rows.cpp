// SPDX-License-Identifier: MIT
// The list itself.
#include "model/batch_rows.h"

namespace kvase {

bool rows_ignore_batch(ggml_type type, bool repacked) {
  switch (type) {
    case GGML_TYPE_Q4_0:
    case GGML_TYPE_MXFP4:
      return true;
    case GGML_TYPE_Q4_1:
    case GGML_TYPE_Q5_0:
    case GGML_TYPE_Q5_1:
    case GGML_TYPE_Q8_0:
    case GGML_TYPE_TQ1_0:
    case GGML_TYPE_TQ2_0:
      return !repacked;
    case GGML_TYPE_IQ4_NL:
      return repacked;
    default:
      return false;
  }
}

}  // namespace kvase

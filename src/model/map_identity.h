// SPDX-License-Identifier: MIT
// What ties a value map to a model file: shapes, RoPE, and a hash of the tensors that make keys and values.
#pragma once

#include "model/model_info.h"
#include "value_map/map_file.h"

namespace kvase {

// Reads the key and value projections from the file, about a tenth of it. Throws Error(bad_model_file) if the
// file has changed.
MapIdentity map_identity(const GgufFile& file, const ModelHeader& header);

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Everything that is known of a model before its weights are read, checked in one go.
#pragma once

#include "kvase/model.h"
#include "model/family.h"
#include "model/hparams.h"
#include "model/vocab_check.h"
#include "tensor/gguf_file.h"

namespace kvase {

struct ModelHeader {
  ModelInfo info;
  HParams params;
  const Family* family = nullptr;  // never null; a row of the table
  VocabInfo vocab;
};

// After this, neither building a graph from the file nor libllama's vocab_only load of it can abort.
// Throws as read_model_info().
ModelHeader check_model(const GgufFile& file);

}  // namespace kvase

// SPDX-License-Identifier: MIT
// What a Model handle holds.
#pragma once

#include "kvase/model.h"
#include "model/family.h"
#include "model/hparams.h"
#include "model/weights.h"
#include "text/tokenizer.h"

namespace kvase {

struct Model::Impl {
  ModelInfo info;
  HParams params;
  const Family* family = nullptr;
  Tokenizer tokenizer;
  Weights weights;
};

}  // namespace kvase

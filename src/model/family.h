// SPDX-License-Identifier: MIT
// The table of model families: what their files must hold. One row per architecture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/hparams.h"
#include "tensor/gguf_file.h"

namespace kvase {

// Which dimensions of a head rotate together: (2i, 2i + 1), or (i, i + n_rot/2). Nothing in a GGUF file says
// so.
enum class RopePairing : uint8_t { neighbours, halves };

enum class TensorRole : uint8_t {
  matrix,  // right side of a matmul, or rows to look up: any type that ggml's CPU backend multiplies
  vector,  // norm, bias or frequency factors: f32
};

struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;  // [fastest, ...]
  TensorRole role = TensorRole::matrix;
  bool required = true;
};

struct Family {
  const char* architecture;  // general.architecture
  RopePairing rope_pairing;
  // Appends what a layer has beyond norms, projections and feed-forward matrices.
  void (*add_layer_extras)(const HParams& params, const std::string& layer_prefix,
                           std::vector<TensorSpec>& specs);
};

// One file each.
extern const Family kLlamaFamily;
extern const Family kQwen2Family;
extern const Family kQwen3Family;

// Throws Error(unsupported) naming the architecture and the list of known ones.
const Family& find_family(const std::string& architecture);

// Every tensor that a file of this family may hold, in the order of the forward pass. Names are GGUF's:
// "blk.0.attn_q.weight".
std::vector<TensorSpec> tensor_list(const Family& family, const HParams& params);

// Checks the file's tensors against tensor_list(). Throws Error: bad_model_file (a tensor missing, of a wrong
// shape or type), unsupported (a tensor of the forward pass that this family does not have, a type that the
// CPU backend does not multiply). Returns one line per other tensor that is not used.
std::vector<std::string> check_tensors(const GgufFile& file, const Family& family, const HParams& params);

}  // namespace kvase

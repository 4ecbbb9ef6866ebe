// SPDX-License-Identifier: MIT
// Runs all checks of a model file in the order in which their messages help most.
#include "model/model_info.h"

#include "base/errors.h"

namespace kvase {

namespace {

void refuse_split(const GgufFile& file) {
  const uint32_t n_parts = file.find_u32("split.count", 0, UINT32_MAX).value_or(0);
  if (n_parts > 1) {
    fail(ErrorCode::unsupported,
         "{}: found one part of a model split into {} files, allowed one file: merge them first", file.path(),
         n_parts);
  }
}

ModelInfo summary(const GgufFile& file, const HParams& params) {
  ModelInfo info;
  info.architecture = params.architecture;
  info.name = file.find_string("general.name").value_or("");
  info.path = file.path();
  info.n_layers = params.n_layers;
  info.n_heads = params.n_heads;
  info.n_kv_heads = params.n_kv_heads;
  info.head_dim = params.head_dim;
  info.n_embd = params.n_embd;
  info.n_ff = params.n_ff;
  info.n_vocab = params.n_vocab;
  info.n_ctx_train = params.n_ctx_train;
  for (const GgufTensor& tensor : file.tensors()) {
    info.weights_bytes += tensor.bytes;
  }
  return info;
}

void append(std::vector<std::string>& all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

ModelHeader check_model(const GgufFile& file) {
  refuse_split(file);
  ModelHeader header;
  header.family = &find_family(file.get_string("general.architecture"));
  header.params = read_hparams(file);
  header.info = summary(file, header.params);
  append(header.info.warnings, check_tensors(file, *header.family, header.params));
  append(header.info.warnings, unknown_keys(file, header.params.architecture));
  header.vocab = check_vocab(file, header.params.n_vocab);
  return header;
}

ModelInfo read_model_info(const std::string& path) { return check_model(GgufFile(path)).info; }

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Loads a model: check everything, then the tokenizer, then the weights.
#include "engine/model.h"

#include <atomic>

#include <ggml.h>

#include "model/batch_rows.h"
#include "model/model_info.h"

namespace kvase {
namespace {

// ggml writes to stderr on its own; a library does not. What matters comes back as an error.
void silence_ggml() {
  static std::atomic<bool> silenced = false;
  if (!silenced.exchange(true)) ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
}

}  // namespace

Model Model::load(const ModelOptions& options) {
  silence_ggml();
  const GgufFile file(options.path);
  ModelHeader header = check_model(file);
  return Model(
      std::shared_ptr<const Impl>(new Impl{.info = std::move(header.info),
                                           .params = header.params,
                                           .family = header.family,
                                           .tokenizer = Tokenizer(options.path),
                                           .weights = Weights(file, header.params, options.repack)}));
}

const ModelInfo& Model::info() const { return impl_->info; }

std::vector<WeightKind> Model::weight_kinds() const {
  std::vector<WeightKind> kinds;
  for (const MatrixKind& kind : impl_->weights.matrix_kinds()) {
    kinds.push_back({.type = ggml_type_name(kind.type),
                     .repacked = kind.repacked,
                     .count = kind.count,
                     .ignores_batch = rows_ignore_batch(kind.type, kind.repacked)});
  }
  return kinds;
}

std::vector<Token> Model::tokenize(std::string_view text, bool add_special, bool parse_special) const {
  return impl_->tokenizer.tokenize(text, add_special, parse_special);
}

std::string Model::piece(Token token, bool special) const { return impl_->tokenizer.piece(token, special); }

bool Model::is_end(Token token) const { return impl_->tokenizer.is_end(token); }

}  // namespace kvase

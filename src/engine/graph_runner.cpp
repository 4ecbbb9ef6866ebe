// SPDX-License-Identifier: MIT
// Graph metadata, its buffer, its inputs.
#include "engine/graph_runner.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/errors.h"

namespace kvase {

GraphRunner::GraphRunner(Compute& compute, const Decoder& decoder, CachedAttention& attention,
                         uint32_t max_tokens, uint32_t max_outputs)
    : compute_(&compute),
      decoder_(&decoder),
      attention_(&attention),
      metadata_(decoder.max_nodes() * ggml_tensor_overhead() +
                ggml_graph_overhead_custom(decoder.max_nodes(), false)),
      allocator_(ggml_gallocr_new(ggml_backend_get_default_buffer_type(compute.backend()))) {
  // The largest graph first: every later one fits into its buffer.
  build(max_tokens, max_outputs);
  make_resident();
}

void GraphRunner::build(uint32_t n_tokens, uint32_t n_outputs) {
  context_.reset();
  context_.reset(ggml_init({.mem_size = metadata_.size(), .mem_buffer = metadata_.data(), .no_alloc = true}));
  graph_ = decoder_->build(context_.get(), n_tokens, n_outputs, *attention_);
  if (!ggml_gallocr_alloc_graph(allocator_.get(), graph_.graph)) {
    fail(ErrorCode::out_of_memory,
         "cannot allocate the scratch memory of a step of {} tokens, use a smaller -ub", n_tokens);
  }
  n_tokens_ = n_tokens;
  n_outputs_ = n_outputs;
}

// Touches every page now, so that memory does not grow while tokens come.
void GraphRunner::make_resident() {
  std::set<ggml_backend_buffer_t> buffers;
  for (int node = 0; node < ggml_graph_n_nodes(graph_.graph); ++node) {
    const ggml_tensor* tensor = ggml_graph_node(graph_.graph, node);
    if (tensor->buffer != nullptr) buffers.insert(tensor->buffer);
  }
  for (ggml_backend_buffer_t buffer : buffers) ggml_backend_buffer_clear(buffer, 0);
}

std::span<const float> GraphRunner::run(std::span<const Token> tokens, std::span<const int32_t> pos,
                                        std::span<const int32_t> outputs) {
  KVASE_CHECK(!outputs.empty() && outputs.size() <= tokens.size() && pos.size() == tokens.size(),
              "{} outputs, {} tokens, {} positions", outputs.size(), tokens.size(), pos.size());
  const auto n_tokens = static_cast<uint32_t>(tokens.size());
  const auto n_outputs = static_cast<uint32_t>(outputs.size());
  if (n_tokens != n_tokens_ || n_outputs != n_outputs_) build(n_tokens, n_outputs);
  ggml_backend_tensor_set(graph_.tokens, tokens.data(), 0, tokens.size_bytes());
  ggml_backend_tensor_set(graph_.pos, pos.data(), 0, pos.size_bytes());
  if (graph_.outputs != nullptr)
    ggml_backend_tensor_set(graph_.outputs, outputs.data(), 0, outputs.size_bytes());
  compute_->run(graph_.graph);
  return {static_cast<const float*>(graph_.logits->data), static_cast<size_t>(ggml_nelements(graph_.logits))};
}

size_t GraphRunner::scratch_bytes() const {
  return ggml_gallocr_get_buffer_size(allocator_.get(), 0) + metadata_.size();
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// One graph of kStep tokens, whose queries are outputs.
#include "engine/tapped_run.h"

#include "base/check.h"
#include "base/errors.h"

namespace kvase {
namespace {

CachePlan full_plan(const ModelInfo& model, uint32_t n_ctx, RowType type_k, RowType type_v) {
  CacheOptions options;
  options.policy = "full";
  options.n_ctx = n_ctx;
  options.type_k = type_k;
  options.type_v = type_v;
  return make_cache_plan(model, options, 1);
}

}  // namespace

TappedRun::TappedRun(const Model& model, uint32_t n_ctx, RowType type_k, RowType type_v, uint32_t n_threads)
    : plan_(full_plan(model.info(), n_ctx, type_k, type_v)),
      compute_(n_threads),
      memory_(plan_, compute_.backend()),
      attention_(memory_.cache, memory_.columns, model.info().n_heads, model.impl().params.attention_scale,
                 n_threads),
      decoder_(model.impl().params, *model.impl().family, model.impl().weights),
      context_(ggml_init({.mem_size = decoder_.max_nodes() * ggml_tensor_overhead() +
                                      ggml_graph_overhead_custom(decoder_.max_nodes(), false),
                          .mem_buffer = nullptr,
                          .no_alloc = true})),
      allocator_(ggml_gallocr_new(ggml_backend_get_default_buffer_type(compute_.backend()))) {
  if (!context_) fail(ErrorCode::out_of_memory, "cannot describe the graph of a step");
  build();
}

void TappedRun::build() {
  graph_ = decoder_.build(context_.get(), kStep, 1, attention_);
  for (ggml_tensor* queries : graph_.queries) ggml_set_output(queries);
  if (!ggml_gallocr_alloc_graph(allocator_.get(), graph_.graph))
    fail(ErrorCode::out_of_memory, "cannot allocate the scratch memory of a step of {} tokens", kStep);
}

bool TappedRun::run(std::span<const Token> tokens, const std::function<bool()>& after_step) {
  KVASE_CHECK(tokens.size() % kStep == 0 && tokens.size() <= plan_.n_ctx, "{} tokens in steps of {}",
              tokens.size(), kStep);
  memory_.cache.clear(0);
  const int32_t last = kStep - 1;
  for (size_t first = 0; first < tokens.size(); first += kStep) {
    std::vector<StepToken> step;
    std::vector<int32_t> pos;
    for (uint32_t offset = 0; offset < kStep; ++offset) {
      pos.push_back(static_cast<int32_t>(first + offset));
      step.push_back({0, offset, pos.back()});
    }
    attention_.set_step(std::move(step));
    ggml_backend_tensor_set(graph_.tokens, tokens.data() + first, 0, kStep * sizeof(Token));
    ggml_backend_tensor_set(graph_.pos, pos.data(), 0, pos.size() * sizeof(int32_t));
    ggml_backend_tensor_set(graph_.outputs, &last, 0, sizeof(last));
    compute_.run(graph_.graph);
    for (uint32_t layer = 0; layer < plan_.dims.n_layers; ++layer) memory_.cache.commit(layer, 0, kStep);
    if (!after_step()) return false;
  }
  return true;
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// libllama under measurement.
#include "cli/peer.h"

#include <fmt/format.h>
#include <llama.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kvase/error.h"
#include "kvase/model.h"

namespace kvase::cli {
namespace {

struct ModelDeleter {
  void operator()(llama_model* model) const { llama_model_free(model); }
};
struct ContextDeleter {
  void operator()(llama_context* context) const { llama_free(context); }
};
struct ThreadpoolDeleter {
  void operator()(ggml_threadpool* pool) const { ggml_threadpool_free(pool); }
};
using LlamaModel = std::unique_ptr<llama_model, ModelDeleter>;
using LlamaContext = std::unique_ptr<llama_context, ContextDeleter>;
using Threadpool = std::unique_ptr<ggml_threadpool, ThreadpoolDeleter>;

class Batch {
 public:
  explicit Batch(int32_t n_max) : batch_(llama_batch_init(n_max, 0, 1)) {}
  ~Batch() { llama_batch_free(batch_); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void clear() { batch_.n_tokens = 0; }
  int32_t size() const { return batch_.n_tokens; }
  const llama_batch& get() const { return batch_; }
  void add(llama_token token, llama_pos pos, llama_seq_id sequence, bool wants_logits) {
    const int32_t place = batch_.n_tokens++;
    batch_.token[place] = token;
    batch_.pos[place] = pos;
    batch_.n_seq_id[place] = 1;
    batch_.seq_id[place][0] = sequence;
    batch_.logits[place] = wants_logits ? 1 : 0;
  }

 private:
  llama_batch batch_;
};

LlamaModel load(const ModelOptions& options) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  params.use_extra_bufts = options.repack;
  LlamaModel model(llama_model_load_from_file(options.path.c_str(), params));
  if (!model) {
    throw Error(ErrorCode::unsupported,
                fmt::format("--peer: libllama cannot load {}, allowed: a model that it reads", options.path));
  }
  return model;
}

// libllama gives each of several sequences a stream of cells of its own, which takes a state from its like
// only: a state of another context needs one pool of cells for all. It then passes over the others' cells,
// which costs it little beside reading its own.
llama_context_params context_params(const BenchSetup& setup) {
  const EngineOptions& options = setup.engine;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = *options.cache.n_ctx * options.n_sequences;
  params.n_batch = std::max(options.n_ubatch, options.n_sequences);
  params.n_ubatch = params.n_batch;
  params.n_seq_max = options.n_sequences;
  params.n_outputs_max = options.n_sequences;  // more would be memory that it never needs here
  params.n_threads = static_cast<int32_t>(options.n_threads);
  params.n_threads_batch = params.n_threads;
  params.kv_unified = *options.cache.n_ctx > setup.n_fill;
  return params;
}

LlamaContext make_context(llama_model& model, const llama_context_params& params) {
  LlamaContext context(llama_init_from_model(&model, params));
  if (!context) {
    throw Error(
        ErrorCode::out_of_memory,
        fmt::format("--peer: libllama makes no context of {} tokens, allowed: a smaller -c", params.n_ctx));
  }
  return context;
}

// The API takes a wish (automatic) and does not tell the outcome; the operations of one step do. Asked in a
// context of its own: a watched step is slow.
bool uses_flash_attention(llama_model& model, llama_context_params params) {
  bool found = false;
  params.n_ctx = 1;
  params.n_seq_max = 1;
  params.n_outputs_max = 1;
  params.n_batch = 1;
  params.n_ubatch = 1;
  params.cb_eval_user_data = &found;
  params.cb_eval = [](ggml_tensor* node, bool, void* user_data) {
    if (node->op == GGML_OP_FLASH_ATTN_EXT) *static_cast<bool*>(user_data) = true;
    return false;
  };
  const LlamaContext context = make_context(model, params);
  llama_token token = 0;
  llama_decode(context.get(), llama_batch_get_one(&token, 1));
  return found;
}

class Peer : public BenchEngine {
 public:
  explicit Peer(const BenchSetup& setup)
      : n_sequences_(setup.engine.n_sequences),
        n_fill_(setup.n_fill),
        params_(context_params(setup)),
        info_(read_model_info(setup.model.path)),
        model_(load(setup.model)),
        flash_attention_(uses_flash_attention(*model_, params_)),
        pool_(make_pool(setup.engine.n_threads)),
        context_(make_context(*model_, params_)),
        n_batch_(llama_n_batch(context_.get())),
        batch_(static_cast<int32_t>(n_batch_)) {
    llama_attach_threadpool(context_.get(), pool_.get(), nullptr);
  }

  void clear() override {
    llama_memory_clear(llama_get_memory(context_.get()), false);
    n_seen_ = 0;
  }

  void fill(uint32_t n) override {
    for (uint32_t sequence = 0; sequence < n_sequences_; ++sequence) {
      for (uint32_t offset = 0; offset < n; ++offset) {
        add(sequence, n_seen_ + offset, offset + 1 == n);
        if (batch_.size() == static_cast<int32_t>(n_batch_) || offset + 1 == n) decode();
      }
    }
    n_seen_ += n;
  }

  void step() override {
    for (uint32_t sequence = 0; sequence < n_sequences_; ++sequence) add(sequence, n_seen_, true);
    decode();
    ++n_seen_;
  }

  uint32_t n_to_read(uint32_t n) const override { return std::min(n, n_fill_); }

  void pretend(uint32_t n) override {
    const std::vector<uint8_t> state = repeated_state(n);
    llama_memory_clear(llama_get_memory(context_.get()), false);
    for (llama_seq_id sequence = 0; sequence < static_cast<llama_seq_id>(n_sequences_); ++sequence)
      set_state(*context_, state, sequence);
    n_seen_ = n;
  }

  // llama_n_ctx() counts the cells of all sequences, after its rounding.
  BenchMemory memory() const override {
    return {.kv_bytes = uint64_t{2} * sizeof(ggml_fp16_t) * info_.n_layers * info_.n_kv_heads *
                        info_.head_dim * llama_n_ctx(context_.get()),
            .side_bytes = std::nullopt,
            .map_bytes = std::nullopt};
  }

  std::optional<std::string> note() const override {
    const bool shares_cells = params_.kv_unified && n_sequences_ > 1;
    return fmt::format("{}{}", flash_attention_ ? "flash attention" : "no flash attention",
                       shares_cells ? ", one pool of cells for all sequences" : "");
  }

 private:
  static Threadpool make_pool(uint32_t n_threads) {
    ggml_threadpool_params params = ggml_threadpool_params_default(static_cast<int>(n_threads));
    Threadpool pool(ggml_threadpool_new(&params));
    if (!pool)
      throw Error(ErrorCode::device,
                  fmt::format("--peer: cannot start {} threads, allowed: fewer", n_threads));
    return pool;
  }

  // The state of a sequence of n tokens, put together in a context of its own from copies of what the first
  // sequence holds.
  std::vector<uint8_t> repeated_state(uint32_t n) const {
    llama_context_params params = params_;
    params.n_ctx = n + n_seen_;  // the last copy is there whole before it is cut
    params.n_seq_max = 2;
    params.n_outputs_max = 2;
    params.kv_unified = true;  // only then may a cell belong to both
    const LlamaContext context = make_context(*model_, params);
    llama_memory_t cells = llama_get_memory(context.get());
    const std::vector<uint8_t> part = get_state(*context_, 0);
    for (uint32_t first = 0; first < n; first += n_seen_) {
      set_state(*context, part, 1);
      llama_memory_seq_rm(cells, 1, static_cast<llama_pos>(std::min(n - first, n_seen_)), -1);
      llama_memory_seq_add(cells, 1, 0, -1, static_cast<llama_pos>(first));
      llama_memory_seq_cp(cells, 1, 0, -1, -1);
      llama_memory_seq_rm(cells, 1, -1, -1);
    }
    return get_state(*context, 0);
  }

  static std::vector<uint8_t> get_state(llama_context& context, llama_seq_id sequence) {
    std::vector<uint8_t> state(llama_state_seq_get_size(&context, sequence));
    if (llama_state_seq_get_data(&context, state.data(), state.size(), sequence) != state.size())
      throw Error(ErrorCode::device, "--peer: libllama saved less than it said, allowed: all of it");
    return state;
  }

  static void set_state(llama_context& context, const std::vector<uint8_t>& state, llama_seq_id sequence) {
    if (llama_state_seq_set_data(&context, state.data(), state.size(), sequence) == 0)
      throw Error(ErrorCode::device, "--peer: libllama did not take its own state back, allowed: it does");
  }

  void add(uint32_t sequence, uint32_t pos, bool wants_logits) {
    batch_.add(bench_token(sequence, pos, info_.n_vocab), static_cast<llama_pos>(pos),
               static_cast<llama_seq_id>(sequence), wants_logits);
  }

  void decode() {
    const int32_t status = llama_decode(context_.get(), batch_.get());
    if (status != 0) {
      throw Error(ErrorCode::device,
                  fmt::format("--peer: llama_decode gave {} at position {}, allowed: 0", status, n_seen_));
    }
    llama_synchronize(context_.get());
    batch_.clear();
  }

  uint32_t n_sequences_;
  uint32_t n_fill_;
  llama_context_params params_;
  ModelInfo info_;
  LlamaModel model_;
  bool flash_attention_;
  Threadpool pool_;  // outlives the context
  LlamaContext context_;
  uint32_t n_batch_;
  Batch batch_;
  uint32_t n_seen_ = 0;
};

}  // namespace

std::unique_ptr<BenchEngine> make_peer(const BenchSetup& setup) { return std::make_unique<Peer>(setup); }

}  // namespace kvase::cli

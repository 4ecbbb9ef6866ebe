// SPDX-License-Identifier: MIT
// Writes the header with ggml's GGUF writer and the weights row by row.
#include "toy_model/toy_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/errors.h"
#include "base/random.h"
#include "gguf.h"
#include "toy_model/toy_vocab.h"

namespace kvase {

namespace {

// Root mean square of a tensor's entries, and their mean.
struct Scale {
  float mean = 0.0f;
  float rms = 1.0f;
};

struct ToyTensor {
  std::string name;
  int64_t n_cols = 1;  // fastest
  int64_t n_rows = 1;
  ggml_type type = GGML_TYPE_F32;
  Scale scale;
  bool per_token = false;  // rows belong to tokens
};

struct FreeGguf {
  void operator()(gguf_context* context) const { gguf_free(context); }
};
struct FreeGgml {
  void operator()(ggml_context* context) const { ggml_free(context); }
};
struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

constexpr float kLogitRms = 3.0f;       // of output logits: sharp enough that sampling is not uniform
constexpr float kAttentionGain = 1.5f;  // of q and of k: attention logits have an rms of its square
constexpr float kEmbeddingRms = 0.1f;   // small beside what layers add, else a tied model repeats its input
constexpr float kControlLogits = 0.1f;  // control tokens' rows are smaller by this factor

// All tensors of a spec, in file order.
class ToyTensorList {
 public:
  explicit ToyTensorList(const ToyModelSpec& spec) : spec_(spec) {
    const float embd = static_cast<float>(spec.n_embd);
    // With output rows of rms r and normed hidden states of rms g, logits have rms g * r * sqrt(n_embd).
    const float output_rms = spec.tied ? kEmbeddingRms : 1.0f / std::sqrt(embd);
    matrix("token_embd.weight", spec.n_embd, spec.n_vocab, kEmbeddingRms, true);
    if (spec.rope_freqs) {
      vector("rope_freqs.weight", spec.head_dim / 2, {4.5f, 3.5f / std::sqrt(3.0f)});
    }
    for (uint32_t layer = 0; layer < spec.n_layers; ++layer) {
      add_layer(fmt::format("blk.{}.", layer));
    }
    const float gain = kLogitRms / (output_rms * std::sqrt(embd));
    vector("output_norm.weight", spec.n_embd, {gain, 0.1f * gain});
    if (!spec.tied) {
      matrix("output.weight", spec.n_embd, spec.n_vocab, output_rms, true);
    }
  }

  const std::vector<ToyTensor>& tensors() const { return tensors_; }

 private:
  void add_layer(const std::string& layer) {
    const int64_t q = int64_t{spec_.n_heads} * spec_.head_dim;
    const int64_t kv = int64_t{spec_.n_kv_heads} * spec_.head_dim;
    const bool qk_norm = spec_.architecture == "qwen3";
    const bool qkv_bias = spec_.architecture == "qwen2" || spec_.biases;
    const float qk_gain = qk_norm ? 1.0f : kAttentionGain;
    norm(layer + "attn_norm.weight", spec_.n_embd, 1.0f);
    projection(layer + "attn_q.weight", spec_.n_embd, q, qk_gain);
    projection(layer + "attn_k.weight", spec_.n_embd, kv, qk_gain);
    projection(layer + "attn_v.weight", spec_.n_embd, kv, 1.0f);
    projection(layer + "attn_output.weight", q, spec_.n_embd, 1.0f);
    if (qk_norm) {
      norm(layer + "attn_q_norm.weight", spec_.head_dim, kAttentionGain);
      norm(layer + "attn_k_norm.weight", spec_.head_dim, kAttentionGain);
    }
    if (qkv_bias) {
      bias(layer + "attn_q.bias", q);
      bias(layer + "attn_k.bias", kv);
      bias(layer + "attn_v.bias", kv);
    }
    norm(layer + "ffn_norm.weight", spec_.n_embd, 1.0f);
    projection(layer + "ffn_gate.weight", spec_.n_embd, spec_.n_ff, 1.0f);
    projection(layer + "ffn_up.weight", spec_.n_embd, spec_.n_ff, 1.0f);
    projection(layer + "ffn_down.weight", spec_.n_ff, spec_.n_embd, 1.0f);
    if (spec_.biases && spec_.architecture == "llama") {
      bias(layer + "attn_output.bias", spec_.n_embd);
      bias(layer + "ffn_gate.bias", spec_.n_ff);
      bias(layer + "ffn_up.bias", spec_.n_ff);
      bias(layer + "ffn_down.bias", spec_.n_embd);
    }
  }

  void matrix(std::string name, int64_t n_in, int64_t n_out, float rms, bool per_token) {
    tensors_.push_back({std::move(name), n_in, n_out, spec_.weight_type, {0.0f, rms}, per_token});
  }
  void projection(std::string name, int64_t n_in, int64_t n_out, float gain) {
    matrix(std::move(name), n_in, n_out, gain / std::sqrt(static_cast<float>(n_in)), false);
  }
  void vector(std::string name, int64_t length, Scale scale) {
    tensors_.push_back({std::move(name), length, 1, GGML_TYPE_F32, scale, false});
  }
  void norm(std::string name, int64_t length, float mean) {
    vector(std::move(name), length, {mean, 0.1f * mean});
  }
  void bias(std::string name, int64_t length) { vector(std::move(name), length, {0.0f, 0.2f}); }

  const ToyModelSpec& spec_;
  std::vector<ToyTensor> tensors_;
};

// Uniform noise of the wanted mean and rms. Counter (column / 4, row, tensor, constant), key seed.
void fill_row(const ToyTensor& tensor, uint32_t tensor_index, int64_t row, uint64_t seed, bool control,
              std::vector<float>& out) {
  constexpr uint32_t kStream = 0x544F594DU;
  const std::array<uint32_t, 2> key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  const float half_width = tensor.scale.rms * std::sqrt(3.0f) * (control ? kControlLogits : 1.0f);
  PhiloxWords words{};
  for (int64_t col = 0; col < tensor.n_cols; ++col) {
    if (col % 4 == 0) {
      words = philox4x32({static_cast<uint32_t>(col / 4), static_cast<uint32_t>(row), tensor_index, kStream},
                         key);
    }
    const float unit =
        static_cast<float>(words[static_cast<size_t>(col % 4)] >> 8) * 0x1p-23f - 1.0f;  // [-1, 1)
    out[static_cast<size_t>(col)] = tensor.scale.mean + half_width * unit;
  }
}

void require_divides(const char* what, uint32_t n, int64_t block, ggml_type type) {
  if (n % block != 0) {
    invalid("toy model: {} = {}, allowed a multiple of {} for weight type {}", what, n, block,
            ggml_type_name(type));
  }
}

void check(const ToyModelSpec& spec) {
  if (spec.architecture != "llama" && spec.architecture != "qwen2" && spec.architecture != "qwen3") {
    invalid("toy model: architecture \"{}\", allowed llama, qwen2, qwen3", spec.architecture);
  }
  if (spec.n_layers == 0 || spec.n_embd == 0 || spec.n_heads == 0 || spec.n_kv_heads == 0 || spec.n_ff == 0 ||
      spec.n_heads % spec.n_kv_heads != 0 || spec.head_dim == 0 || spec.head_dim % 2 != 0) {
    invalid(
        "toy model: found {} layers, {} wide, {} heads, {} KV heads of size {}, allowed positive numbers, KV "
        "heads that "
        "divide heads, an even head size",
        spec.n_layers, spec.n_embd, spec.n_heads, spec.n_kv_heads, spec.head_dim);
  }
  if (spec.n_vocab < 300) {
    invalid("toy model: {} tokens, allowed at least 300", spec.n_vocab);
  }
  if (spec.weight_type < 0 || spec.weight_type >= GGML_TYPE_COUNT || ggml_blck_size(spec.weight_type) == 0) {
    invalid("toy model: weight type {} is unknown", static_cast<int>(spec.weight_type));
  }
  // ggml can write the types that it can read back; some of those only with statistics of a real model.
  const bool writable =
      spec.weight_type == GGML_TYPE_F32 || ggml_get_type_traits(spec.weight_type)->to_float != nullptr;
  if (!writable || ggml_quantize_requires_imatrix(spec.weight_type)) {
    invalid("toy model: weight type {}, allowed a type that ggml writes without an importance matrix",
            ggml_type_name(spec.weight_type));
  }
  const int64_t block = ggml_blck_size(spec.weight_type);
  require_divides("n_embd", spec.n_embd, block, spec.weight_type);
  require_divides("n_ff", spec.n_ff, block, spec.weight_type);
  require_divides("heads * head_dim", spec.n_heads * spec.head_dim, block, spec.weight_type);
}

void set_strings(gguf_context* gguf, const char* key, const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(text.c_str());
  }
  gguf_set_arr_str(gguf, key, pointers.data(), pointers.size());
}

void set_vocab(gguf_context* gguf, ToyVocab vocab, const ToyTokens& tokens) {
  const bool byte_pair = vocab != ToyVocab::sentence_piece;
  gguf_set_val_str(gguf, "tokenizer.ggml.model", byte_pair ? "gpt2" : "llama");
  set_strings(gguf, "tokenizer.ggml.tokens", tokens.texts);
  gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, tokens.types.data(),
                    tokens.types.size());
  if (byte_pair) {
    gguf_set_val_str(gguf, "tokenizer.ggml.pre", "qwen2");
    set_strings(gguf, "tokenizer.ggml.merges", tokens.merges);
  } else {
    gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, tokens.scores.data(),
                      tokens.scores.size());
  }
  gguf_set_val_bool(gguf, "tokenizer.ggml.add_bos_token", !byte_pair);
  if (tokens.bos >= 0) {
    gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", static_cast<uint32_t>(tokens.bos));
    gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", static_cast<uint32_t>(tokens.eos));
  }
  if (vocab == ToyVocab::byte_pair) {
    gguf_set_val_str(
        gguf, "tokenizer.chat_template",
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
        "'<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
        "{% endif %}");
  }
}

void set_hparams(gguf_context* gguf, const ToyModelSpec& spec) {
  const auto key = [&](const char* name) { return spec.architecture + "." + name; };
  const auto set_u32 = [&](const char* name, uint32_t value) {
    gguf_set_val_u32(gguf, key(name).c_str(), value);
  };
  const auto set_f32 = [&](const char* name, float value) {
    gguf_set_val_f32(gguf, key(name).c_str(), value);
  };
  gguf_set_val_str(gguf, "general.architecture", spec.architecture.c_str());
  gguf_set_val_str(gguf, "general.name", spec.name.c_str());
  set_u32("block_count", spec.n_layers);
  set_u32("context_length", spec.n_ctx_train);
  set_u32("embedding_length", spec.n_embd);
  set_u32("feed_forward_length", spec.n_ff);
  set_u32("attention.head_count", spec.n_heads);
  set_u32("attention.head_count_kv", spec.n_kv_heads);
  set_u32("attention.key_length", spec.head_dim);
  set_u32("attention.value_length", spec.head_dim);
  set_u32("rope.dimension_count", spec.head_dim);
  set_f32("attention.layer_norm_rms_epsilon", spec.rms_eps);
  set_f32("rope.freq_base", spec.freq_base);
  if (spec.rope_scaling != ToyRopeScaling::none) {
    gguf_set_val_str(gguf, key("rope.scaling.type").c_str(),
                     spec.rope_scaling == ToyRopeScaling::yarn ? "yarn" : "linear");
    set_f32("rope.scaling.factor", spec.rope_factor);
    const float n_ctx_orig = std::max(1.0f, static_cast<float>(spec.n_ctx_train) / spec.rope_factor);
    set_u32("rope.scaling.original_context_length", static_cast<uint32_t>(n_ctx_orig));
  }
}

class Output {
 public:
  explicit Output(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "wb")) {
    if (file_ == nullptr) {
      invalid("cannot write \"{}\"", path);
    }
  }
  void write(const void* data, size_t n_bytes) {
    if (std::fwrite(data, 1, n_bytes, file_.get()) != n_bytes) {
      invalid("cannot write \"{}\": disk full?", path_);
    }
  }
  void close() {
    if (std::fclose(file_.release()) != 0) {
      invalid("cannot write \"{}\": disk full?", path_);
    }
  }

 private:
  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
};

void write_tensor(Output& output, const ToyTensor& tensor, uint32_t index, const ToyTokens& tokens,
                  uint64_t seed) {
  std::vector<float> row_values(static_cast<size_t>(tensor.n_cols));
  std::vector<uint8_t> row_bytes(ggml_row_size(tensor.type, tensor.n_cols));
  for (int64_t row = 0; row < tensor.n_rows; ++row) {
    const bool control = tensor.per_token && tokens.is_control(static_cast<size_t>(row));
    fill_row(tensor, index, row, seed, control, row_values);
    ggml_quantize_chunk(tensor.type, row_values.data(), row_bytes.data(), 0, 1, tensor.n_cols, nullptr);
    output.write(row_bytes.data(), row_bytes.size());
  }
  const size_t n_bytes = row_bytes.size() * static_cast<size_t>(tensor.n_rows);
  constexpr std::array<uint8_t, GGUF_DEFAULT_ALIGNMENT> kZeros{};
  output.write(kZeros.data(), GGML_PAD(n_bytes, kZeros.size()) - n_bytes);
}

}  // namespace

void write_toy_model(const std::string& path, const ToyModelSpec& spec) {
  check(spec);
  const ToyTokens tokens = make_toy_tokens(spec.vocab, spec.n_vocab);
  const ToyTensorList list(spec);

  const std::unique_ptr<gguf_context, FreeGguf> gguf(gguf_init_empty());
  set_hparams(gguf.get(), spec);
  set_vocab(gguf.get(), spec.vocab, tokens);
  const std::unique_ptr<ggml_context, FreeGgml> shapes(
      ggml_init({list.tensors().size() * ggml_tensor_overhead(), nullptr, /*no_alloc=*/true}));
  for (const ToyTensor& tensor : list.tensors()) {
    // Vectors have one dimension in the file, matrices two.
    ggml_tensor* shape = tensor.n_rows == 1
                             ? ggml_new_tensor_1d(shapes.get(), tensor.type, tensor.n_cols)
                             : ggml_new_tensor_2d(shapes.get(), tensor.type, tensor.n_cols, tensor.n_rows);
    ggml_set_name(shape, tensor.name.c_str());
    gguf_add_tensor(gguf.get(), shape);
  }

  Output output(path);
  std::vector<uint8_t> meta(gguf_get_meta_size(gguf.get()));
  gguf_get_meta_data(gguf.get(), meta.data());
  output.write(meta.data(), meta.size());
  for (size_t index = 0; index < list.tensors().size(); ++index) {
    write_tensor(output, list.tensors()[index], static_cast<uint32_t>(index), tokens, spec.seed);
  }
  output.close();
}

ToyModelSpec toy_shape(const std::string& name) {
  ToyModelSpec spec;
  spec.name = name;
  spec.tied = true;
  if (name == "qwen3-0.6b") {
    spec.architecture = "qwen3";
    spec.n_layers = 28;
    spec.n_embd = 1024;
    spec.n_heads = 16;
    spec.n_kv_heads = 8;
    spec.head_dim = 128;
    spec.n_ff = 3072;
    spec.n_vocab = 151936;
    spec.n_ctx_train = 40960;
    spec.rms_eps = 1e-6f;
    spec.freq_base = 1e6f;
    return spec;
  }
  if (name == "smollm2-135m") {
    spec.architecture = "llama";
    spec.n_layers = 30;
    spec.n_embd = 576;
    spec.n_heads = 9;
    spec.n_kv_heads = 3;
    spec.head_dim = 64;
    spec.n_ff = 1536;
    spec.n_vocab = 49152;
    spec.n_ctx_train = 8192;
    spec.freq_base = 1e5f;
    return spec;
  }
  invalid("toy model: shape \"{}\", allowed qwen3-0.6b, smollm2-135m", name);
}

}  // namespace kvase

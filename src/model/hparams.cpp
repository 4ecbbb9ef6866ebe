// SPDX-License-Identifier: MIT
// Reads hyperparameters; refuses what the graphs would compute wrongly.
#include "model/hparams.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/errors.h"

namespace kvase {

namespace {

constexpr uint32_t kMaxLayers = 512;  // libllama, which reads the same file, asserts on more
constexpr uint32_t kMaxHeads = 4096;
constexpr uint32_t kMaxEmbd = 1U << 20;
constexpr uint32_t kMaxFf = 1U << 22;
constexpr uint32_t kMaxVocab = 1U << 24;
constexpr uint32_t kMaxHeadDim = 1024;
constexpr uint32_t kMaxContext = 1U << 30;

// Keys below "<architecture>." that are read here or that change nothing in a forward pass.
constexpr const char* kKnownKeys[] = {
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.scale",
    "attention.sliding_window",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "expert_group_count",
    "expert_shared_count",
    "expert_used_count",
    "feed_forward_length",
    "nextn_predict_layers",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "vocab_size",
};

class HParamsReader {
 public:
  explicit HParamsReader(const GgufFile& file)
      : file_(file), architecture_(file.get_string("general.architecture")) {}

  HParams read() {
    HParams params;
    params.architecture = architecture_;
    refuse_features();
    params.n_layers = file_.get_u32(key("block_count"), 1, kMaxLayers);
    params.n_embd = file_.get_u32(key("embedding_length"), 1, kMaxEmbd);
    params.n_ctx_train = file_.get_u32(key("context_length"), 1, kMaxContext);
    params.n_ff = same_in_all_layers("feed_forward_length", params.n_layers, 1, kMaxFf);
    read_heads(params);
    params.n_vocab = vocab_rows();
    params.rms_eps =
        positive("attention.layer_norm_rms_epsilon", file_.get_f32(key("attention.layer_norm_rms_epsilon")));
    const float default_scale = 1.0f / std::sqrt(static_cast<float>(params.head_dim));
    params.attention_scale =
        positive("attention.scale", file_.find_f32(key("attention.scale")).value_or(default_scale));
    params.rope = read_rope(params);
    refuse_sliding_window(params.n_ctx_train);
    return params;
  }

 private:
  std::string key(const char* name) const { return architecture_ + "." + name; }
  std::string shown(const char* name) const { return printable(key(name)); }

  // Libllama asserts on some of these keys, and none of them is in a graph of ours.
  void refuse_features() const {
    for (const char* name : {"expert_count", "expert_used_count", "expert_group_count", "expert_shared_count",
                             "nextn_predict_layers"}) {
      const uint32_t count = file_.find_u32(key(name), 0, UINT32_MAX).value_or(0);
      if (count != 0) {
        fail(ErrorCode::unsupported, "{}: key \"{}\": found {}, allowed 0: this feature is not supported",
             file_.path(), shown(name), count);
      }
    }
    if (!file_.find_bool(key("attention.causal")).value_or(true)) {
      fail(ErrorCode::unsupported,
           "{}: key \"{}\": found false, allowed true: only causal models are supported", file_.path(),
           shown("attention.causal"));
    }
  }

  // A window that is at least the context never hides a token.
  void refuse_sliding_window(uint32_t n_ctx_train) const {
    const uint32_t window = file_.find_u32(key("attention.sliding_window"), 0, UINT32_MAX).value_or(0);
    if (window > 0 && window < n_ctx_train) {
      fail(ErrorCode::unsupported,
           "{}: key \"{}\": found {}, allowed 0 or at least the context length {}: sliding windows are not "
           "supported",
           file_.path(), shown("attention.sliding_window"), window, n_ctx_train);
    }
  }

  float positive(const char* name, float value) const {
    if (!(value > 0.0f)) {
      bad_file("{}: key \"{}\": found {}, allowed a positive number", file_.path(), shown(name), value);
    }
    return value;
  }

  // A scalar, or an array with one equal number per layer.
  uint32_t same_in_all_layers(const char* name, uint32_t n_layers, uint32_t min, uint32_t max) const {
    if (!file_.is_array(key(name))) {
      return file_.get_u32(key(name), min, max);
    }
    const std::vector<int64_t> values = *file_.find_integers(key(name));
    if (values.size() != n_layers) {
      bad_file("{}: key \"{}\": found an array of {} elements, allowed one per layer: {}", file_.path(),
               shown(name), values.size(), n_layers);
    }
    for (const int64_t value : values) {
      if (value < int64_t{min} || value > int64_t{max}) {
        bad_file("{}: key \"{}\": found {}, allowed {}..{}", file_.path(), shown(name), value, min, max);
      }
      if (value != values.front()) {
        fail(ErrorCode::unsupported, "{}: key \"{}\": found {} and {}, allowed one number for all layers",
             file_.path(), shown(name), values.front(), value);
      }
    }
    return static_cast<uint32_t>(values.front());
  }

  void read_heads(HParams& params) const {
    params.n_heads = same_in_all_layers("attention.head_count", params.n_layers, 1, kMaxHeads);
    params.n_kv_heads = file_.has(key("attention.head_count_kv"))
                            ? same_in_all_layers("attention.head_count_kv", params.n_layers, 1, kMaxHeads)
                            : params.n_heads;
    if (params.n_heads % params.n_kv_heads != 0) {
      bad_file("{}: key \"{}\": found {} KV heads, allowed a divisor of the {} heads", file_.path(),
               shown("attention.head_count_kv"), params.n_kv_heads, params.n_heads);
    }
    // Width divided by heads is only the default: in Qwen3 the head is larger.
    const uint32_t default_dim = params.n_embd / params.n_heads;
    const uint32_t key_dim =
        file_.find_u32(key("attention.key_length"), 1, kMaxHeadDim).value_or(default_dim);
    const uint32_t value_dim =
        file_.find_u32(key("attention.value_length"), 1, kMaxHeadDim).value_or(default_dim);
    if (key_dim != value_dim) {
      fail(ErrorCode::unsupported,
           "{}: found keys of {} and values of {} dimensions per head, allowed equal sizes", file_.path(),
           key_dim, value_dim);
    }
    if (key_dim < 2 || key_dim > kMaxHeadDim || key_dim % 2 != 0) {
      bad_file("{}: found {} dimensions per head, allowed an even number in 2..{}", file_.path(), key_dim,
               kMaxHeadDim);
    }
    params.head_dim = key_dim;
  }

  uint32_t vocab_rows() const {
    const GgufTensor* embedding = file_.find_tensor("token_embd.weight");
    if (embedding == nullptr) {
      bad_file("{}: tensor \"token_embd.weight\" is missing, allowed a matrix [n_embd, n_vocab]",
               file_.path());
    }
    if (embedding->ne[1] > int64_t{kMaxVocab}) {
      bad_file("{}: tensor \"token_embd.weight\": found {} rows, allowed 1..{}", file_.path(),
               embedding->ne[1], kMaxVocab);
    }
    return static_cast<uint32_t>(embedding->ne[1]);
  }

  RopeParams read_rope(const HParams& params) const {
    RopeParams rope;
    rope.n_rot = file_.find_u32(key("rope.dimension_count"), 0, UINT32_MAX).value_or(params.head_dim);
    if (rope.n_rot < 2 || rope.n_rot > params.head_dim || rope.n_rot % 2 != 0) {
      bad_file("{}: key \"{}\": found {}, allowed an even number in 2..{}", file_.path(),
               shown("rope.dimension_count"), rope.n_rot, params.head_dim);
    }
    rope.freq_base = positive("rope.freq_base", file_.find_f32(key("rope.freq_base")).value_or(10000.0f));
    rope.scaling = read_scaling();
    const float factor = read_scaling_factor(rope.scaling);
    rope.freq_scale = 1.0f / factor;
    rope.n_ctx_orig = file_.find_u32(key("rope.scaling.original_context_length"), 1, kMaxContext)
                          .value_or(params.n_ctx_train);
    rope.attn_factor =
        positive("rope.scaling.attn_factor", file_.find_f32(key("rope.scaling.attn_factor")).value_or(1.0f));
    if (rope.scaling == RopeScaling::yarn) {
      rope.ext_factor = 1.0f;
      rope.beta_fast = file_.find_f32(key("rope.scaling.yarn_beta_fast")).value_or(rope.beta_fast);
      rope.beta_slow = file_.find_f32(key("rope.scaling.yarn_beta_slow")).value_or(rope.beta_slow);
      if (!(rope.beta_slow > 0.0f) || !(rope.beta_fast > rope.beta_slow)) {
        bad_file("{}: YaRN: found beta_fast {} and beta_slow {}, allowed beta_fast > beta_slow > 0",
                 file_.path(), rope.beta_fast, rope.beta_slow);
      }
    }
    return rope;
  }

  RopeScaling read_scaling() const {
    const std::string type = file_.find_string(key("rope.scaling.type")).value_or("linear");
    if (type == "none") {
      return RopeScaling::none;
    }
    if (type == "yarn") {
      return RopeScaling::yarn;
    }
    if (type == "linear") {
      return RopeScaling::linear;
    }
    fail(ErrorCode::unsupported, "{}: key \"{}\": found \"{}\", allowed none, linear, yarn", file_.path(),
         shown("rope.scaling.type"), printable(type));
  }

  // Frequencies are divided by it. scale_linear is the key's name in old files. 0 means not set, as libllama
  // reads it.
  float read_scaling_factor(RopeScaling scaling) const {
    const char* name = file_.has(key("rope.scaling.factor")) ? "rope.scaling.factor" : "rope.scale_linear";
    const float found = file_.find_f32(key(name)).value_or(0.0f);
    const float factor = found == 0.0f || scaling == RopeScaling::none ? 1.0f : found;
    const float min_factor = scaling == RopeScaling::yarn ? 1.0f : 1e-3f;
    if (!(factor >= min_factor && factor <= 1e6f)) {
      bad_file("{}: key \"{}\": found {}, allowed {}..1e6", file_.path(), shown(name), factor, min_factor);
    }
    return factor;
  }

  const GgufFile& file_;
  std::string architecture_;
};

}  // namespace

HParams read_hparams(const GgufFile& file) { return HParamsReader(file).read(); }

std::vector<std::string> unknown_keys(const GgufFile& file, const std::string& architecture) {
  const std::string prefix = architecture + ".";
  std::vector<std::string> warnings;
  for (const std::string& key : file.keys()) {
    if (!key.starts_with(prefix)) {
      continue;
    }
    const std::string name = key.substr(prefix.size());
    if (std::find(std::begin(kKnownKeys), std::end(kKnownKeys), name) == std::end(kKnownKeys)) {
      warnings.push_back(
          fmt::format("key \"{}\" is not known for this architecture and was not read", printable(key)));
    }
  }
  return warnings;
}

}  // namespace kvase

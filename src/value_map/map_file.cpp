// SPDX-License-Identifier: MIT
// Writes and reads maps through ggml's GGUF functions; the reader trusts nothing that it has not compared.
#include "value_map/map_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>

#include "base/check.h"
#include "base/errors.h"
#include "tensor/gguf_file.h"
#include "tensor/handles.h"

namespace kvase {
namespace {

constexpr const char* kType = "kv-ols";
constexpr uint32_t kVersion = 1;

using Gguf = std::unique_ptr<gguf_context, FreeWith<gguf_free>>;

std::string tensor_name(uint32_t layer, const char* part) {
  return fmt::format("blk.{}.kv_ols.{}", layer, part);
}

const char* scaling_text(const RopeSetting& rope) {
  if (rope.ext_factor != 0) return "yarn";
  return rope.freq_scale != 1 ? "linear" : "none";
}

const char* style_text(RopePairs pairs) { return pairs == RopePairs::adjacent ? "norm" : "neox"; }

void set_floats(gguf_context* file, const char* key, const std::vector<float>& values) {
  gguf_set_arr_data(file, key, GGUF_TYPE_FLOAT32, values.data(), values.size());
}

void set_rope(gguf_context* file, const RopeSetting& rope) {
  gguf_set_val_u32(file, "kv_ols.n_rot", rope.n_rot);
  gguf_set_val_str(file, "kv_ols.rope_style", style_text(rope.pairs));
  gguf_set_val_f32(file, "kv_ols.rope_base", rope.freq_base);
  gguf_set_val_str(file, "kv_ols.rope_scaling", scaling_text(rope));
  gguf_set_val_f32(file, "kv_ols.rope_freq_scale", rope.freq_scale);
  gguf_set_val_f32(file, "kv_ols.rope_attn_factor", rope.attn_factor);
  gguf_set_val_f32(file, "kv_ols.rope_beta_fast", rope.beta_fast);
  gguf_set_val_f32(file, "kv_ols.rope_beta_slow", rope.beta_slow);
  gguf_set_val_u32(file, "kv_ols.rope_n_ctx_orig", rope.n_ctx_orig);
  if (!rope.divisors.empty()) set_floats(file, "kv_ols.rope_divisors", rope.divisors);
}

// Adds one tensor of a map; its values are copied into `context`.
void add_tensor(gguf_context* file, ggml_context* context, ggml_type type, std::array<int64_t, 3> shape,
                const std::string& name, const std::vector<float>& values) {
  ggml_tensor* tensor = ggml_new_tensor(context, type, shape[2] == 0 ? 2 : 3, shape.data());
  KVASE_CHECK(static_cast<size_t>(ggml_nelements(tensor)) == values.size(), "{}: {} values", name,
              values.size());
  if (type == GGML_TYPE_F16) {
    ggml_fp32_to_fp16_row(values.data(), static_cast<ggml_fp16_t*>(tensor->data), ggml_nelements(tensor));
  } else {
    std::memcpy(tensor->data, values.data(), ggml_nbytes(tensor));
  }
  ggml_set_name(tensor, name.c_str());
  gguf_add_tensor(file, tensor);
}

class MapReader {
 public:
  MapReader(const std::string& path, const MapIdentity& model) : file_(path), model_(&model) {}

  ValueMaps read() {
    check_kind();
    check_model();
    check_rope();
    const std::vector<TierMode> modes = read_modes();
    ValueMaps maps{.layers = {},
                   .rope_inverse = RopeInverse(model_->rope, model_->head_dim),
                   .rope_table = RopeTable(model_->rope, model_->head_dim)};
    for (uint32_t layer = 0; layer < model_->n_layers; ++layer) {
      maps.layers.push_back(read_layer(layer, modes[layer]));
    }
    return maps;
  }

 private:
  void expect(const char* key, const std::string& allowed) const {
    const std::string found = file_.get_string(key);
    if (found == allowed) return;
    bad_file("{}: key \"{}\": found \"{}\", allowed \"{}\"", file_.path(), key, printable(found), allowed);
  }

  void expect(const char* key, uint32_t allowed) const {
    const uint32_t found = file_.get_u32(key, 0, UINT32_MAX);
    if (found != allowed) bad_file("{}: key \"{}\": found {}, allowed {}", file_.path(), key, found, allowed);
  }

  void check_kind() const {
    if (file_.find_string("general.type").value_or("model") != kType) {
      bad_file("{}: found no value map, allowed: a file that `kvase calibrate` wrote", file_.path());
    }
    expect("kv_ols.version", kVersion);
    expect("kv_ols.scope", "head");
    if (!file_.find_bool("kv_ols.bias").value_or(false)) {
      bad_file("{}: found a map without intercepts, allowed: kv_ols.bias true", file_.path());
    }
  }

  void check_model() const {
    expect("general.architecture", model_->architecture);
    expect("kv_ols.n_layer", model_->n_layers);
    expect("kv_ols.n_head_kv", model_->n_kv_heads);
    expect("kv_ols.head_dim", model_->head_dim);
    const std::string found = file_.get_string("kv_ols.model_hash");
    if (found != model_->model_hash) {
      bad_file("{}: found a map of another model (hash {}), allowed: of this one (hash {})", file_.path(),
               printable(found), model_->model_hash);
    }
  }

  void check_rope() const {
    const std::string style = file_.get_string("kv_ols.rope_style");
    if (style != "norm" && style != "neox") {
      bad_file("{}: key \"kv_ols.rope_style\": found \"{}\", allowed norm or neox", file_.path(),
               printable(style));
    }
    const RopeSetting found = {
        .n_rot = file_.get_u32("kv_ols.n_rot", 0, UINT32_MAX),
        .pairs = style == "norm" ? RopePairs::adjacent : RopePairs::half_split,
        .freq_base = file_.get_f32("kv_ols.rope_base"),
        .freq_scale = file_.get_f32("kv_ols.rope_freq_scale"),
        .ext_factor = file_.get_string("kv_ols.rope_scaling") == "yarn" ? 1.0F : 0.0F,
        .attn_factor = file_.get_f32("kv_ols.rope_attn_factor"),
        .beta_fast = file_.get_f32("kv_ols.rope_beta_fast"),
        .beta_slow = file_.get_f32("kv_ols.rope_beta_slow"),
        .n_ctx_orig = file_.get_u32("kv_ols.rope_n_ctx_orig", 0, UINT32_MAX),
        .divisors = file_.find_floats("kv_ols.rope_divisors").value_or(std::vector<float>()),
    };
    const std::string difference_text = difference(found, model_->rope);
    if (!difference_text.empty()) {
      bad_file("{}: map of another RoPE setting: {}", file_.path(), difference_text);
    }
  }

  std::vector<TierMode> read_modes() const {
    const char* key = "kv_ols.mode";
    const auto numbers = file_.find_integers(key);
    if (!numbers || numbers->size() != model_->n_layers) {
      bad_file("{}: key \"{}\": found {}, allowed one mode for each of {} layers", file_.path(), key,
               numbers ? fmt::format("{} numbers", numbers->size()) : "none", model_->n_layers);
    }
    std::vector<TierMode> modes;
    for (const int64_t number : *numbers) {
      if (number < 0 || number > static_cast<int64_t>(TierMode::linear)) {
        bad_file("{}: key \"{}\": found {}, allowed 0 (off), 1 (zero), 2 (linear)", file_.path(), key,
                 number);
      }
      modes.push_back(static_cast<TierMode>(number));
    }
    return modes;
  }

  LayerMap read_layer(uint32_t layer, TierMode mode) const {
    const int64_t head_dim = model_->head_dim, n_kv_heads = model_->n_kv_heads;
    LayerMap map{.mode = mode, .head_dim = model_->head_dim};
    map.value_mean = read_tensor(tensor_name(layer, "vmean"), GGML_TYPE_F32, {head_dim, n_kv_heads, 1, 1});
    map.bias = read_tensor(tensor_name(layer, "bias"), GGML_TYPE_F32, {head_dim, n_kv_heads, 1, 1});
    map.weight =
        read_tensor(tensor_name(layer, "weight"), GGML_TYPE_F16, {head_dim, head_dim, n_kv_heads, 1});
    if (mode != TierMode::linear) {
      map.bias = map.value_mean;
      map.weight = {};
    }
    return map;
  }

  std::vector<float> read_tensor(const std::string& name, ggml_type type,
                                 const std::array<int64_t, 4>& shape) const {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (tensor == nullptr || tensor->type != type || tensor->ne != shape) {
      bad_file("{}: tensor \"{}\": found {}, allowed {} [{}]", file_.path(), name,
               tensor == nullptr ? "none"
                                 : fmt::format("{} {}", ggml_type_name(tensor->type), shape_text(*tensor)),
               ggml_type_name(type), fmt::join(shape, ", "));
    }
    std::vector<char> bytes(tensor->bytes);
    std::ifstream stream(file_.path(), std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(tensor->offset));
    if (!stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) {
      bad_file("{}: tensor \"{}\": cannot read its {} bytes", file_.path(), name, bytes.size());
    }
    std::vector<float> values(bytes.size() / ggml_type_size(type));
    if (type == GGML_TYPE_F16) {
      ggml_fp16_to_fp32_row(reinterpret_cast<const ggml_fp16_t*>(bytes.data()), values.data(),
                            static_cast<int64_t>(values.size()));
    } else {
      std::memcpy(values.data(), bytes.data(), bytes.size());
    }
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
      bad_file("{}: tensor \"{}\": found a number that is not finite, allowed: finite ones", file_.path(),
               name);
    }
    return values;
  }

  GgufFile file_;
  const MapIdentity* model_;
};

}  // namespace

void save_value_maps(const std::string& path, const ValueMaps& maps, const MapIdentity& model,
                     const MapOrigin& origin) {
  const Gguf file(gguf_init_empty());
  gguf_set_val_str(file.get(), "general.type", kType);
  gguf_set_val_str(file.get(), "general.architecture", model.architecture.c_str());
  gguf_set_val_str(file.get(), "general.name", origin.model_name.c_str());
  gguf_set_val_u32(file.get(), "kv_ols.version", kVersion);
  gguf_set_val_str(file.get(), "kv_ols.model_hash", model.model_hash.c_str());
  gguf_set_val_str(file.get(), "kv_ols.scope", "head");
  gguf_set_val_bool(file.get(), "kv_ols.bias", true);
  gguf_set_val_u32(file.get(), "kv_ols.n_layer", model.n_layers);
  gguf_set_val_u32(file.get(), "kv_ols.n_head_kv", model.n_kv_heads);
  gguf_set_val_u32(file.get(), "kv_ols.head_dim", model.head_dim);
  set_rope(file.get(), model.rope);
  gguf_set_val_str(file.get(), "kv_ols.cache_type_k", origin.cache_type_k.c_str());
  gguf_set_val_f32(file.get(), "kv_ols.ridge", origin.ridge);
  set_floats(file.get(), "kv_ols.r2", origin.r2_train);
  set_floats(file.get(), "kv_ols.r2_val", origin.r2_held_out);
  gguf_set_val_u64(file.get(), "kv_ols.n_tokens", origin.n_tokens);
  gguf_set_val_str(file.get(), "kv_ols.dataset", origin.dataset.c_str());
  std::vector<int32_t> modes;
  for (const LayerMap& layer : maps.layers) modes.push_back(static_cast<int32_t>(layer.mode));
  gguf_set_arr_data(file.get(), "kv_ols.mode", GGUF_TYPE_INT32, modes.data(), modes.size());

  const size_t n_tensors = maps.layers.size() * 3;
  const GgmlContext context(ggml_init({.mem_size = maps.bytes() + n_tensors * (ggml_tensor_overhead() + 64),
                                       .mem_buffer = nullptr,
                                       .no_alloc = false}));
  if (!context) fail(ErrorCode::out_of_memory, "{}: cannot hold {} bytes of maps", path, maps.bytes());
  const int64_t head_dim = model.head_dim, n_kv_heads = model.n_kv_heads;
  for (uint32_t layer = 0; layer < model.n_layers; ++layer) {
    const LayerMap& map = maps.layers[layer];
    const auto add = [&](const char* part, ggml_type type, std::array<int64_t, 3> shape,
                         const std::vector<float>& values) {
      add_tensor(file.get(), context.get(), type, shape, tensor_name(layer, part), values);
    };
    add("weight", GGML_TYPE_F16, {head_dim, head_dim, n_kv_heads}, map.weight);
    add("bias", GGML_TYPE_F32, {head_dim, n_kv_heads, 0}, map.bias);
    add("vmean", GGML_TYPE_F32, {head_dim, n_kv_heads, 0}, map.value_mean);
  }
  if (!gguf_write_to_file(file.get(), path.c_str(), false))
    invalid("{}: cannot write the map, allowed: a path that can be written", path);
}

ValueMaps load_value_maps(const std::string& path, const MapIdentity& model) {
  return MapReader(path, model).read();
}

}  // namespace kvase

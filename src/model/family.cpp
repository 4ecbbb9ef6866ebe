// SPDX-License-Identifier: MIT
// Tensor names and shapes per family, and the check of a file against them.
#include "model/family.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/errors.h"
#include "base/printable.h"
#include "ggml-cpu.h"
#include "model/tensor_list.h"

namespace kvase {

namespace {

const Family* const kFamilies[] = {&kLlamaFamily, &kQwen2Family, &kQwen3Family};

void add_layer(const Family& family, const HParams& params, const std::string& layer,
               std::vector<TensorSpec>& specs) {
  add_vector(specs, layer + "attn_norm.weight", params.n_embd, true);
  add_matrix(specs, layer + "attn_q.weight", params.n_embd, q_width(params));
  add_matrix(specs, layer + "attn_k.weight", params.n_embd, kv_width(params));
  add_matrix(specs, layer + "attn_v.weight", params.n_embd, kv_width(params));
  add_matrix(specs, layer + "attn_output.weight", q_width(params), params.n_embd);
  add_vector(specs, layer + "ffn_norm.weight", params.n_embd, true);
  add_matrix(specs, layer + "ffn_gate.weight", params.n_embd, params.n_ff);
  add_matrix(specs, layer + "ffn_up.weight", params.n_embd, params.n_ff);
  add_matrix(specs, layer + "ffn_down.weight", params.n_ff, params.n_embd);
  family.add_layer_extras(params, layer, specs);
}

// F32 needs no conversion; every other type needs a product with activations and a way back to f32 for
// looked-up rows.
bool cpu_multiplies(ggml_type type) {
  return type == GGML_TYPE_F32 || (ggml_get_type_traits(type)->to_float != nullptr &&
                                   ggml_get_type_traits_cpu(type)->vec_dot != nullptr);
}

void check_tensor(const GgufFile& file, const TensorSpec& spec, const GgufTensor& tensor) {
  std::array<int64_t, 4> expected{1, 1, 1, 1};
  std::copy(spec.shape.begin(), spec.shape.end(), expected.begin());
  if (tensor.ne != expected) {
    bad_file("{}: tensor \"{}\": found shape {}, allowed [{}]", file.path(), spec.name, shape_text(tensor),
             fmt::join(spec.shape, ", "));
  }
  if (spec.role == TensorRole::vector && tensor.type != GGML_TYPE_F32) {
    bad_file("{}: tensor \"{}\": found type {}, allowed f32", file.path(), spec.name,
             ggml_type_name(tensor.type));
  }
  if (spec.role == TensorRole::matrix && !cpu_multiplies(tensor.type)) {
    fail(ErrorCode::unsupported,
         "{}: tensor \"{}\": found type {}, allowed f32, f16, bf16 or a quantised type that ggml "
         "multiplies on the CPU",
         file.path(), spec.name, ggml_type_name(tensor.type));
  }
}

// Without such a tensor the graph would be incomplete and the text wrong.
bool is_of_forward_pass(const std::string& name) {
  return name.starts_with("blk.") || name.starts_with("output") || name.starts_with("token_embd") ||
         name.starts_with("rope");
}

}  // namespace

const Family& find_family(const std::string& architecture) {
  std::string names;
  for (const Family* family : kFamilies) {
    if (architecture == family->architecture) return *family;
    names += (names.empty() ? "" : ", ") + std::string(family->architecture);
  }
  fail(ErrorCode::unsupported, "architecture \"{}\" is not supported, allowed: {}", printable(architecture),
       names);
}

std::vector<TensorSpec> tensor_list(const Family& family, const HParams& params) {
  std::vector<TensorSpec> specs;
  add_matrix(specs, "token_embd.weight", params.n_embd, params.n_vocab);
  add_vector(specs, "rope_freqs.weight", params.rope.n_rot / 2, false);
  for (uint32_t layer = 0; layer < params.n_layers; ++layer) {
    add_layer(family, params, fmt::format("blk.{}.", layer), specs);
  }
  add_vector(specs, "output_norm.weight", params.n_embd, true);
  add_matrix(specs, "output.weight", params.n_embd, params.n_vocab,
             false);  // else token_embd.weight serves twice
  return specs;
}

std::vector<std::string> check_tensors(const GgufFile& file, const Family& family, const HParams& params) {
  std::unordered_set<std::string> used;
  for (const TensorSpec& spec : tensor_list(family, params)) {
    const GgufTensor* tensor = file.find_tensor(spec.name);
    if (tensor != nullptr) {
      check_tensor(file, spec, *tensor);
      used.insert(spec.name);
    } else if (spec.required) {
      bad_file("{}: tensor \"{}\" is missing, allowed a {} model with shape [{}] there", file.path(),
               spec.name, family.architecture, fmt::join(spec.shape, ", "));
    }
  }
  std::vector<std::string> warnings;
  for (const GgufTensor& tensor : file.tensors()) {
    if (used.contains(tensor.name)) {
      continue;
    }
    if (is_of_forward_pass(tensor.name)) {
      fail(ErrorCode::unsupported,
           "{}: tensor \"{}\" {} is not one of architecture {} with {} layers, allowed: its own tensors",
           file.path(), printable(tensor.name), shape_text(tensor), family.architecture, params.n_layers);
    }
    warnings.push_back(
        fmt::format("tensor \"{}\" {} is not used", printable(tensor.name), shape_text(tensor)));
  }
  return warnings;
}

}  // namespace kvase

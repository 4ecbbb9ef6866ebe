// SPDX-License-Identifier: MIT
// kvase-toy-model: writes a random-weight GGUF model of a given shape.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "kvase/error.h"
#include "toy_model/toy_model.h"

namespace {

ggml_type parse_weight_type(const std::string& name) {
  for (int type = 0; type < GGML_TYPE_COUNT; ++type) {
    const auto id = static_cast<ggml_type>(type);
    if (ggml_blck_size(id) > 0 && CLI::detail::to_lower(ggml_type_name(id)) == CLI::detail::to_lower(name)) {
      return id;
    }
  }
  throw kvase::Error(
      kvase::ErrorCode::invalid_argument,
      "--type: found \"" + name + "\", allowed a ggml type, such as f32, f16, bf16, q8_0, q4_0, q4_1, q4_k");
}

// An option whose values are the names in `values`.
template <typename Value>
void add_choice(CLI::App& app, const std::string& flag, Value& value,
                const std::map<std::string, Value>& values) {
  std::string names;
  for (const auto& [name, unused] : values) {
    names += (names.empty() ? "" : ", ") + name;
  }
  app.add_option_function<std::string>(
      flag,
      [&value, values, names, flag](const std::string& name) {
        const auto found = values.find(name);
        if (found == values.end()) {
          throw kvase::Error(kvase::ErrorCode::invalid_argument,
                             flag + ": found \"" + name + "\", allowed " + names);
        }
        value = found->second;
      },
      names);
}

// A shape fixes the numbers that other flags then change, so it is read first.
kvase::ToyModelSpec base_spec(int argc, char** argv) {
  CLI::App app;
  app.allow_extras();
  app.set_help_flag();
  std::string shape;
  app.add_option("--shape", shape);
  app.parse(argc, argv);
  return shape.empty() ? kvase::ToyModelSpec{} : kvase::toy_shape(shape);
}

void add_flags(CLI::App& app, kvase::ToyModelSpec& spec, std::string& path, std::string& shape) {
  using kvase::ToyRopeScaling;
  using kvase::ToyVocab;
  app.add_option("OUT", path, "GGUF file to write")->required();
  app.add_option("--shape", shape, "shape of a real model: qwen3-0.6b, smollm2-135m; other flags change it");
  app.add_option("--arch", spec.architecture, "llama, qwen2, qwen3")->capture_default_str();
  app.add_option("--name", spec.name, "general.name")->capture_default_str();
  app.add_option("--layers", spec.n_layers)->capture_default_str();
  app.add_option("--embd", spec.n_embd, "width")->capture_default_str();
  app.add_option("--heads", spec.n_heads)->capture_default_str();
  app.add_option("--kv-heads", spec.n_kv_heads)->capture_default_str();
  app.add_option("--head-dim", spec.head_dim)->capture_default_str();
  app.add_option("--ff", spec.n_ff)->capture_default_str();
  app.add_option("--vocab", spec.n_vocab, "tokens, at least 300")->capture_default_str();
  app.add_option("--ctx", spec.n_ctx_train, "trained context, tokens")->capture_default_str();
  app.add_option_function<std::string>(
      "--type", [&spec](const std::string& name) { spec.weight_type = parse_weight_type(name); },
      "ggml type of matrices: f32 (default), f16, q8_0, q4_1, ...");
  add_choice<ToyVocab>(app, "--tokenizer", spec.vocab,
                       {{"bpe", ToyVocab::byte_pair},
                        {"bpe-no-special", ToyVocab::byte_pair_no_special},
                        {"spm", ToyVocab::sentence_piece}});
  add_choice<ToyRopeScaling>(
      app, "--rope-scaling", spec.rope_scaling,
      {{"none", ToyRopeScaling::none}, {"linear", ToyRopeScaling::linear}, {"yarn", ToyRopeScaling::yarn}});
  app.add_option("--rope-factor", spec.rope_factor)->capture_default_str();
  app.add_option("--freq-base", spec.freq_base)->capture_default_str();
  app.add_flag("--tied,!--untied", spec.tied, "no output.weight");
  app.add_flag("--biases", spec.biases, "the optional biases of llama");
  app.add_flag("--rope-freqs", spec.rope_freqs, "frequency factors");
  app.add_option("--seed", spec.seed)->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    kvase::ToyModelSpec spec = base_spec(argc, argv);
    CLI::App app(
        "Writes a random-weight GGUF model, for tests and for measurements where only the shape matters.");
    std::string path;
    std::string shape;
    add_flags(app, spec, path, shape);
    CLI11_PARSE(app, argc, argv);
    kvase::write_toy_model(path, spec);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kvase-toy-model: error: %s\n", error.what());
    return 2;
  }
  return 0;
}

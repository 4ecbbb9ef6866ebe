// SPDX-License-Identifier: MIT
// Shared flags: one line of help each, with unit and default.
#include "cli/flags.h"

#include <fmt/format.h>

#include <memory>
#include <random>

#include "cli/arguments.h"
#include "cli/format.h"
#include "kvase/error.h"

namespace kvase::cli {
namespace {

constexpr size_t kNameColumns = 30;
constexpr size_t kTextColumns = 70;

class WrappedHelp : public CLI::Formatter {
 public:
  WrappedHelp() { column_width(kNameColumns); }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrap(option->get_description(), kTextColumns);
  }
};

Prefill parse_prefill(const std::string& text) {
  if (text == "bounded") return Prefill::bounded;
  if (text == "whole") return Prefill::whole;
  throw Error(ErrorCode::invalid_argument, fmt::format("--prefill \"{}\", allowed: bounded, whole", text));
}

bool parse_think(const std::string& text) {
  if (text == "on") return true;
  if (text == "off") return false;
  throw Error(ErrorCode::invalid_argument, fmt::format("--think \"{}\", allowed: on, off", text));
}

void add_row_type_flag(CLI::App& app, const std::string& name, const std::string& what, RowType& target) {
  const auto read = [&target](const std::string& text) { target = parse_row_type(text); };
  app.add_option_function<std::string>(name, read,
                                       fmt::format("How {} are stored: f32, f16 (default), bf16", what))
      ->type_name("TYPE")
      ->group("Cache");
}

}  // namespace

void add_model_flag(CLI::App& app, std::string& path) {
  app.add_option("-m,--model", path, "GGUF file of a llama, qwen2 or qwen3 model")
      ->type_name("FILE")
      ->group("Model");
}

void require_model(const std::string& path) {
  if (path.empty())
    throw Error(ErrorCode::invalid_argument, "no model given, allowed: -m FILE with a GGUF file");
}

void add_threads_flag(CLI::App& app, uint32_t& n_threads) {
  add_number<uint32_t>(app, "-t,--threads", n_threads, "CPU threads, 1 to 512 (default: all cores)")
      ->group("Model");
}

void add_engine_flags(CLI::App& app, ModelOptions& model, EngineOptions& engine) {
  add_threads_flag(app, engine.n_threads);
  add_number<uint32_t>(
      app, "--ubatch-size", engine.n_ubatch,
      fmt::format("Also -ub. Most prompt tokens in one step, 1 to 4096 (default {}). More: faster prompts, "
                  "more scratch memory",
                  engine.n_ubatch))
      ->group("Model");
  const auto no_repack = [&model](int64_t count) { model.repack = count == 0; };
  app.add_flag_function("--no-repack", no_repack,
                        "Map weights as they are in the file instead of rearranging them: less "
                        "memory, slower")
      ->group("Model");
}

void add_policy_flag(CLI::App& app, std::string& policy) {
  app.add_option(
         "--kv", policy,
         fmt::format(
             "What to keep when the cache is full: name[:key=value,...] (default {}). `kvase policies` lists "
             "them; `full` keeps everything",
             policy))
      ->type_name("POLICY")
      ->group("Cache");
}

void add_policy_list_flag(CLI::App& app, std::vector<std::string>& policies) {
  const auto add = [&policies](const std::vector<std::string>& texts) { policies = texts; };
  app.add_option_function<std::vector<std::string>>("--kv", add,
                                                    "Policy to compare with `full`; give it again for more")
      ->type_name("POLICY")
      ->type_size(1)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Cache");
}

void add_shape_flags(CLI::App& app, CacheOptions& cache) {
  const auto read_budget = [&cache](const std::string& text) { cache.budget = parse_budget(text); };
  app.add_option_function<std::string>(
         "--kv-budget", read_budget,
         "What is left per KV head after an eviction: tokens (default 2048), or the memory of "
         "the whole cache as 512MiB")
      ->type_name("TOKENS|MiB")
      ->group("Cache");
  add_number<uint32_t>(
      app, "--kv-interval", cache.interval,
      "Tokens between two evictions (default 64); the cache has budget + interval slots. More: faster long "
      "prompts, more memory",
      "TOKENS")
      ->group("Cache");
  add_number<uint32_t>(app, "--kv-sinks", cache.n_sink,
                       "First tokens of the text that always stay (default: the policy's own)", "TOKENS")
      ->group("Cache");
}

void add_storage_flags(CLI::App& app, CacheOptions& cache) {
  add_number<uint32_t>(app, "--kv-window", cache.window,
                       "Newest tokens that always stay (default: the interval)", "TOKENS")
      ->group("Cache");
  const auto read_prefill = [&cache](const std::string& text) { cache.prefill = parse_prefill(text); };
  app.add_option_function<std::string>(
         "--prefill", read_prefill,
         "bounded (default): evict within long prompts, memory never depends on them; whole: keep "
         "the prompt until the answer's first eviction, memory for -c tokens")
      ->type_name("HOW")
      ->group("Cache");
  add_number<uint32_t>(
      app, "-c,--ctx-size", cache.n_ctx,
      "Positions: the context of `full`, the longest prompt of --prefill whole (default: as trained). Other "
      "policies need none",
      "TOKENS")
      ->group("Cache");
  add_row_type_flags(app, cache.type_k, cache.type_v);
}

void add_row_type_flags(CLI::App& app, RowType& type_k, RowType& type_v) {
  add_row_type_flag(app, "--cache-type-k", "keys (also -ctk)", type_k);
  add_row_type_flag(app, "--cache-type-v", "values (also -ctv)", type_v);
}

void add_predict_flag(CLI::App& app, int64_t& n_predict) {
  add_number<int64_t>(
      app, "-n,--predict", n_predict,
      "Most tokens to generate, -1 (default): until the model ends or its trained context is reached")
      ->group("Text");
}

void check_predict(int64_t n_predict) {
  if (n_predict >= -1) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("--predict {}, allowed: -1 (until the end) or more", n_predict));
}

void add_chat_flags(CLI::App& app, ChatFlags& chat) {
  app.add_option("--system-prompt", chat.system, "Also -sys. What the model is to be and do")
      ->type_name("TEXT")
      ->group("Chat");
  app.add_option("--chat-template", chat.options.template_name,
                 "The form of the messages, by name, as chatml or llama3 (default: the model's own)")
      ->type_name("NAME")
      ->group("Chat");
  const auto read_think = [&chat](const std::string& text) { chat.options.thinking = parse_think(text); };
  app.add_option_function<std::string>(
         "--think", read_think, "on or off, for models that can do both (default: the model's own way)")
      ->type_name("HOW")
      ->group("Chat");
  const auto read_budget = [&chat](const std::string& text) {
    const auto n_tokens = parse_number<int64_t>("--think-budget", text);
    if (n_tokens < 0) refuse_number("--think-budget", text, "0 or more tokens");
    chat.thinking_budget = n_tokens;
  };
  app.add_option_function<std::string>(
         "--think-budget", read_budget,
         "Most tokens of thinking; then it is ended and the answer follows (default: no limit)")
      ->type_name("TOKENS")
      ->group("Chat");
}

void check_chat_flags(bool is_chat, const ChatFlags& chat) {
  if (is_chat || !chat.given()) return;
  throw Error(ErrorCode::invalid_argument,
              "--system-prompt, --chat-template, --think or --think-budget without --chat, allowed: with it");
}

void add_sampling_flags(CLI::App& app, SamplingOptions& sampling, std::optional<uint64_t>& seed) {
  const auto read_seed = [&seed](const std::string& text) {
    if (text == "-1") {
      seed.reset();
    } else {
      seed = parse_number<uint64_t>("--seed", text);
    }
  };
  app.add_option_function<std::string>(
         "-s,--seed", read_seed,
         "Of the text and of the policy's choices: 0 to 2^64 - 1, or -1 (default) for a random "
         "one, which is printed")
      ->type_name("N")
      ->group("Sampling");
  add_number<float>(
      app, "--temp", sampling.temperature,
      fmt::format("0: always the likeliest token; more: wilder (default {})", sampling.temperature))
      ->group("Sampling");
  add_number<int32_t>(app, "--top-k", sampling.top_k,
                      fmt::format("Only the N likeliest tokens, 0: off (default {})", sampling.top_k))
      ->group("Sampling");
  add_number<float>(app, "--top-p", sampling.top_p,
                    fmt::format("Only the likeliest tokens that sum to this probability, 1: off (default {})",
                                sampling.top_p))
      ->group("Sampling");
  add_number<float>(
      app, "--min-p", sampling.min_p,
      fmt::format("Only tokens at least this likely relative to the likeliest, 0: off (default {})",
                  sampling.min_p))
      ->group("Sampling");
}

uint64_t random_seed() { return std::random_device()(); }

void add_json_flag(CLI::App& app, bool& json, const std::string& help) {
  app.add_flag("--json", json, help)->group("Output");
}

void finish_help(CLI::App& app, const std::string& footer) {
  app.set_help_flag("-h,--help", "Print this and exit")->group("Output");
  app.footer(footer);
  app.formatter(std::make_shared<WrappedHelp>());
}

}  // namespace kvase::cli

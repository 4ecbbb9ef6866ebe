// SPDX-License-Identifier: MIT
// kvase inspect: runs a prompt and its answer, and writes a page that shows what the cache kept of them.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/answer_view.h"
#include "cli/arguments.h"
#include "cli/chat_prompt.h"
#include "cli/command.h"
#include "cli/event_record.h"
#include "cli/flags.h"
#include "cli/format.h"
#include "cli/inspect_page.h"
#include "cli/interrupt.h"
#include "cli/messages.h"
#include "cli/prompt.h"
#include "cli/run_report.h"
#include "kvase/kvase.h"
#include "report/page.h"

namespace kvase::cli {
namespace {

struct InspectFlags {
  ModelOptions model;
  EngineOptions engine;
  SamplingOptions sampling;
  std::optional<std::string> prompt;
  std::optional<std::string> file;
  std::optional<uint64_t> seed;
  int64_t n_predict = -1;
  bool ignore_end = false;
  bool is_chat = false;
  ChatFlags chat;
  std::string layers = "all";
  std::string out;
};

constexpr const char* kFooter = R"(
The page is one file that needs nothing else: it can be opened, sent and kept. It shows the text token by token, shaded by how
many heads still hold each, and what every head of the chosen layers held after every event. docs/inspect.md explains it.

Examples:
  kvase inspect -m model.gguf -f question.txt --chat -n 1000 --kv vase-attnv --kv-budget 256 -o page.html
  kvase inspect -m model.gguf -f book.txt -n 0 --kv snapkv --kv-budget 512 --layers 0,15,29 -o page.html
)";

void add_flags(CLI::App& app, InspectFlags& flags) {
  app.add_option("-p,--prompt", flags.prompt, "The prompt")->type_name("TEXT")->group("Text");
  app.add_option("-f,--file", flags.file, "A file with the prompt; one newline at its end is dropped")
      ->type_name("FILE")
      ->group("Text");
  add_predict_flag(app, flags.n_predict);
  app.add_flag("--ignore-eos", flags.ignore_end, "Go on past the model's ending tokens, up to -n")
      ->group("Text");
  app.add_flag("--chat", flags.is_chat, "The prompt is a user's message: put it in the model's chat template")
      ->group("Chat");
  add_chat_flags(app, flags.chat);
  add_model_flag(app, flags.model.path);
  add_engine_flags(app, flags.model, flags.engine);
  add_policy_flag(app, flags.engine.cache.policy);
  add_shape_flags(app, flags.engine.cache);
  add_storage_flags(app, flags.engine.cache);
  add_sampling_flags(app, flags.sampling, flags.seed);
  app.add_option("--layers", flags.layers, "Layers to show, as 0,5,11 (default: all)")
      ->type_name("LIST")
      ->group("Output");
  app.add_option("-o,--out", flags.out, "The page to write")->type_name("FILE")->group("Output");
  finish_help(app, kFooter);
}

// "all", or numbers between commas, given in any order.
std::vector<uint32_t> parse_layers(std::string_view text, uint32_t n_layers) {
  std::vector<uint32_t> layers;
  if (text == "all") {
    for (uint32_t layer = 0; layer < n_layers; ++layer) layers.push_back(layer);
    return layers;
  }
  const auto refuse = [&] {
    refuse_number("--layers", text,
                  fmt::format("all, or different numbers from 0 to {} as 0,5,11", n_layers - 1));
  };
  for (const std::string& part : split_commas(text)) {
    const auto layer = parse_number<uint32_t>("--layers", part);
    if (layer >= n_layers) refuse();
    layers.push_back(layer);
  }
  std::ranges::sort(layers);
  if (std::ranges::adjacent_find(layers) != layers.end()) refuse();
  return layers;
}

Json json_of_run(const Engine& engine, const InspectFlags& flags, const GenerateResult& result) {
  const ModelInfo& info = engine.model().info();
  const MemoryPlan& plan = engine.plan();
  const PolicyInfo policy = parse_policy(flags.engine.cache.policy).info;
  const size_t slash = info.path.find_last_of('/') + 1;
  return {{"model", info.path.substr(slash)},
          {"architecture", info.architecture},
          {"n_layers", info.n_layers},
          {"n_kv_heads", info.n_kv_heads},
          {"policy", flags.engine.cache.policy},
          {"summary", policy.summary},
          {"paper", policy.paper},
          {"evicts", plan.evicts},
          {"budget", plan.shape.budget},
          {"interval", plan.shape.interval},
          {"window", plan.shape.window},
          {"n_sink", plan.shape.n_sink},
          {"capacity", plan.capacity},
          {"kv_bytes", plan.kv_bytes},
          {"side_bytes", plan.side_bytes},
          {"map_bytes", plan.map_bytes},
          {"bytes_per_token", plan.bytes_per_token},
          {"seed", result.seed},
          {"temperature", flags.sampling.temperature},
          {"n_prompt", result.n_prompt},
          {"n_generated", result.tokens.size()},
          {"n_seen", result.cache.n_seen},
          {"n_events", result.cache.n_evictions},
          {"finish_reason", finish_reason_name(result.finish_reason)}};
}

std::vector<std::string> pieces_of(const Model& model, const std::vector<Token>& prompt,
                                   const std::vector<Token>& answer) {
  std::vector<std::string> pieces;
  for (const std::vector<Token>* tokens : {&prompt, &answer}) {
    for (const Token token : *tokens) pieces.push_back(model.piece(token, /*special=*/true));
  }
  return pieces;
}

GenerateRequest make_request(const Model& model, const std::string& prompt, const InspectFlags& flags) {
  GenerateRequest request;
  set_prompt(model, prompt, flags.is_chat ? &flags.chat : nullptr, request);
  request.sampling = flags.sampling;
  request.sampling.seed = flags.seed ? *flags.seed : random_seed();
  request.n_predict = flags.n_predict;
  request.ignore_end = flags.ignore_end;
  return request;
}

GenerateResult answer(Engine& engine, const GenerateRequest& request) {
  const Interrupt interrupt;
  AnswerView view;
  GenerateHooks hooks;
  hooks.should_stop = [] { return Interrupt::requested(); };
  hooks.on_prefill = [&](size_t done, size_t total) { view.show_progress(done, total); };
  hooks.on_text = [&](std::string_view text) { view.show_text(text); };
  hooks.on_thinking = [&](std::string_view text) { view.show_thinking(text); };
  const GenerateResult result = generate(engine, request, hooks);
  view.finish();
  finish_stdout();
  return result;
}

// Tells of a page that cannot be written before the run, not after it. Leaves a page that is there alone.
void check_writable(const std::string& path) {
  const std::string temporary = path + ".part";
  std::ofstream file(temporary, std::ios::binary);
  const bool opens = file.is_open();
  const std::string reason = opens ? "is a folder" : std::strerror(errno);
  file.close();
  std::error_code ignored;
  if (opens) std::filesystem::remove(temporary, ignored);
  if (!opens || std::filesystem::is_directory(path, ignored)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--out {}: {}, allowed: a file that can be written", path, reason));
  }
}

void check_flags(const InspectFlags& flags) {
  if (flags.out.empty())
    throw Error(ErrorCode::invalid_argument, "no page given, allowed: -o FILE, to be written");
  check_chat_flags(flags.is_chat, flags.chat);
}

}  // namespace

int inspect_command(const Arguments& arguments) {
  InspectFlags flags;
  CLI::App app("Run a prompt and its answer, and write a page that shows what the cache kept of them.",
               "kvase inspect");
  add_flags(app, flags);
  if (!parse(app, arguments)) return kExitOk;

  require_model(flags.model.path);
  check_predict(flags.n_predict);
  check_flags(flags);
  const std::string prompt = read_prompt(flags.prompt, flags.file);
  check_sampling(flags.sampling);
  const ModelInfo info = read_model_info(flags.model.path);
  const std::vector<uint32_t> layers = parse_layers(flags.layers, info.n_layers);
  if (plan_memory(info, flags.engine.cache).evicts)
    flags.engine.cache.observed_statistics = {Statistic::v_range};
  check_writable(flags.out);

  const Model model = Model::load(flags.model);
  Engine engine(model, flags.engine);
  const GenerateRequest request = make_request(model, prompt, flags);
  warn_about_options(flags.engine.cache, engine.plan());
  EventRecord record(layers, info.n_kv_heads);
  engine.observe_events([&](const LayerEvent& seen) { record.add(seen); });
  const GenerateResult result = answer(engine, request);
  record.extend(result.cache.n_seen);

  const std::string page =
      inspect_page({{"run", json_of_run(engine, flags, result)},
                    {"command", command_line("kvase inspect", arguments)},
                    {"text", json_of_text(pieces_of(model, request.prompt, result.tokens))},
                    {"layers", json_of_record(record)}});
  report::write_file(flags.out, page);
  fmt::print(stderr, "{}: {}, {} tokens, {} events\n", flags.out, human_bytes(page.size()),
             request.prompt.size() + result.tokens.size(), result.cache.n_evictions);
  return result.finish_reason == FinishReason::cancelled ? kExitInterrupted : kExitOk;
}

}  // namespace kvase::cli

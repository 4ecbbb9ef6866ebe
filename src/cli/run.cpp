// SPDX-License-Identifier: MIT
// kvase run: one prompt, one answer, streamed.
#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "cli/answer_view.h"
#include "cli/arguments.h"
#include "cli/chat_prompt.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/jobs.h"
#include "cli/json.h"
#include "cli/many.h"
#include "cli/messages.h"
#include "cli/prompt.h"
#include "cli/run_report.h"
#include "kvase/kvase.h"

namespace kvase::cli {
namespace {

struct RunFlags {
  ModelOptions model;
  EngineOptions engine;
  SamplingOptions sampling;
  std::optional<std::string> prompt;
  std::optional<std::string> file;
  std::optional<uint64_t> seed;
  int64_t n_predict = -1;
  uint32_t n_parallel = 1;
  std::optional<std::string> prompts;
  std::optional<std::string> out;
  std::vector<std::string> stop;
  bool ignore_end = false;
  bool is_chat = false;
  ChatFlags chat;
  bool json = false;
  bool verbose = false;
};

constexpr const char* kFooter = R"(
The text goes to stdout, everything else to stderr. Without --chat the prompt is raw text: no chat template is applied. No
escapes are read. Thinking is shown, dimmed, where stdout is a terminal; --json has it too. Exit status: 0 done, 1 failure
at run time, 2 bad arguments or input, 130 stopped by Ctrl-C (what there is was printed).

Examples:
  kvase run -m model.gguf -p "Once upon a time" -n 200
  kvase run -m model.gguf --chat -p "Why is the sky blue?" --think off
  kvase run -m model.gguf -f question.txt --kv vase-attnv --kv-budget 1024 --temp 0.6 --seed 7
  kvase run -m model.gguf -p "Name a bird." -np 4 -s 1 -n 20
  kvase run -m model.gguf --prompts questions.jsonl -o answers.jsonl -np 8 --chat
  kvase run -m model.gguf -f book.txt --kv snapkv:smooth=max --kv-budget 512MiB --kv-interval 256 --json
)";

void add_flags(CLI::App& app, RunFlags& flags) {
  app.add_option("-p,--prompt", flags.prompt, "The prompt")->type_name("TEXT")->group("Text");
  app.add_option("-f,--file", flags.file, "A file with the prompt; one newline at its end is dropped")
      ->type_name("FILE")
      ->group("Text");
  add_predict_flag(app, flags.n_predict);
  add_number<uint32_t>(
      app, "--parallel", flags.n_parallel,
      "Also -np. Answers at once, each in cache rows of its own (default 1). With -p or -f: that many "
      "answers to the one prompt, "
      "with seeds s, s + 1, ...")
      ->group("Many");
  app.add_option("--prompts", flags.prompts,
                 "JSON lines instead of one prompt: {\"prompt\": \"...\", \"id\": ..., \"seed\": ...} each")
      ->type_name("FILE")
      ->group("Many");
  app.add_option("-o,--out", flags.out,
                 "Where the answers to --prompts go, as JSON lines; ids that are there already are skipped")
      ->type_name("FILE")
      ->group("Many");
  app.add_option("--stop", flags.stop,
                 "End the answer before this text, wherever tokens cut it; may be given several times")
      ->type_name("TEXT")
      ->group("Text");
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
  add_json_flag(app, flags.json, "One JSON object on stdout instead of the streamed text");
  app.add_flag("--verbose", flags.verbose, "Say on stderr what was loaded and chosen")->group("Output");
  finish_help(app, kFooter);
}

void warn_about_positions(const ModelInfo& info, size_t n_prompt, int64_t n_predict) {
  const uint64_t n_positions = n_prompt + static_cast<uint64_t>(std::max(n_predict, int64_t{0}));
  if (n_positions > info.n_ctx_train) {
    print_warning(fmt::format(
        "prompt and -n reach position {}, beyond the context that the model was trained for ({}): "
        "expect worse text there",
        n_positions, info.n_ctx_train));
  }
}

// Types and counts, and what they mean for answers side by side.
std::string weights_text(const Model& model) {
  std::string kinds;
  bool all_ignore_batch = true;
  for (const WeightKind& kind : model.weight_kinds()) {
    kinds += fmt::format("{}{} {}{}", kinds.empty() ? "" : ", ", kind.count, kind.type,
                         kind.repacked ? " repacked" : "");
    all_ignore_batch = all_ignore_batch && kind.ignores_batch;
  }
  return fmt::format("{}; {}", kinds,
                     all_ignore_batch ? "the same text alone and beside other sequences"
                                      : "beside other sequences the text may differ in near ties");
}

void print_details(const Model& model, const EngineOptions& options, const SamplingOptions& sampling) {
  const ModelInfo& info = model.info();
  fmt::print(stderr,
             "model: {} ({}), {} layers, {} query heads on {} KV heads of size {}, vocabulary {}, trained "
             "context {}\n",
             one_line(info.name.empty() ? info.path : info.name), info.architecture, info.n_layers,
             info.n_heads, info.n_kv_heads, info.head_dim, info.n_vocab, info.n_ctx_train);
  fmt::print(stderr, "weights: {} bytes ({}): {}\n", with_commas(info.weights_bytes),
             human_bytes(info.weights_bytes), weights_text(model));
  fmt::print(stderr, "engine: {} threads, at most {} tokens a step, keys {}, values {}\n", options.n_threads,
             options.n_ubatch, row_type_name(options.cache.type_k), row_type_name(options.cache.type_v));
  fmt::print(stderr, "sampling: temp {}, top-k {}, top-p {}, min-p {}\n", sampling.temperature,
             sampling.top_k, sampling.top_p, sampling.min_p);
}

// Made to be pasted into a report: everything that the run depended on and what came of it.
void print_summary(const GenerateResult& result, const std::string& policy, const MemoryPlan& plan) {
  const CacheState& cache = result.cache;
  const auto n_seen = static_cast<double>(cache.n_seen);
  const double n_prefilled = std::min(n_seen, static_cast<double>(result.n_prompt));
  fmt::print(stderr, "\npolicy    {}, {}\n", one_line(policy), shape_text(plan));
  fmt::print(stderr, "memory    K and V {} bytes + side {} + maps {} = {} bytes ({})\n",
             with_commas(plan.kv_bytes), with_commas(plan.side_bytes), with_commas(plan.map_bytes),
             with_commas(plan.total_bytes()), human_bytes(plan.total_bytes()));
  fmt::print(stderr, "tokens    seen {}, kept {}, evictions {} ({} in all)\n", cache.n_seen, cache.n_kept,
             cache.n_evictions, human_seconds(cache.evict_ms / 1000));
  fmt::print(stderr, "speed     prompt {} ({} tokens), answer {} ({} tokens)\n",
             human_rate(n_prefilled, result.prefill_seconds, "tokens"), result.n_prompt,
             human_rate(n_seen - n_prefilled, result.decode_seconds, "tokens"), result.tokens.size());
  fmt::print(stderr, "end       {}, seed {}\n", finish_reason_name(result.finish_reason), result.seed);
}

// A request for a prompt; its seed is the caller's.
GenerateRequest make_request(const Model& model, const std::string& prompt, uint64_t seed,
                             const RunFlags& flags) {
  GenerateRequest request;
  set_prompt(model, prompt, flags.is_chat ? &flags.chat : nullptr, request);
  request.sampling = flags.sampling;
  request.sampling.seed = seed;
  request.n_predict = flags.n_predict;
  request.stop = flags.stop;
  request.ignore_end = flags.ignore_end;
  return request;
}

void print_about_engine(const Engine& engine, const RunFlags& flags) {
  for (const std::string& warning : engine.model().info().warnings) print_warning(warning);
  warn_about_options(flags.engine.cache, engine.plan());
  if (flags.json || flags.prompts) return;
  if (flags.verbose) print_details(engine.model(), engine.options(), flags.sampling);
  print_memory_line(engine.plan());
}

// One prompt, one answer, streamed.
int answer_one(Engine& engine, const std::string& prompt, uint64_t seed, const RunFlags& flags) {
  const Interrupt interrupt;
  AnswerView view;
  const GenerateRequest request = make_request(engine.model(), prompt, seed, flags);
  // Said only once work has begun: an error is then the only line on stderr.
  bool announced = false;
  const auto announce = [&] {
    if (announced) return;
    announced = true;
    print_about_engine(engine, flags);
    warn_about_positions(engine.model().info(), request.prompt.size(), request.n_predict);
  };
  GenerateHooks hooks;
  hooks.should_stop = [] { return Interrupt::requested(); };
  hooks.on_prefill = [&](size_t done, size_t total) {
    announce();
    if (!flags.json) view.show_progress(done, total);
  };
  hooks.on_text = [&](std::string_view text) {
    announce();
    if (!flags.json) view.show_text(text);
  };
  hooks.on_thinking = [&](std::string_view text) {
    announce();
    if (!flags.json) view.show_thinking(text);
  };
  const GenerateResult result = generate(engine, request, hooks);
  announce();
  if (!flags.json) view.finish();
  const std::string& policy = flags.engine.cache.policy;
  if (flags.json) {
    print_json(json_of_run(result, policy, engine.plan()));
  } else {
    print_summary(result, policy, engine.plan());
  }
  finish_stdout();
  return result.finish_reason == FinishReason::cancelled ? kExitInterrupted : kExitOk;
}

// One prompt, n answers: seeds s, s + 1, ... so that each can be had alone again.
int answer_n_times(Engine& engine, const std::string& prompt, uint64_t seed, const RunFlags& flags) {
  std::vector<Job> jobs;
  for (uint32_t number = 0; number < flags.n_parallel; ++number) {
    jobs.push_back({.id = std::to_string(number + 1), .prompt = prompt, .seed = seed + number});
  }
  print_about_engine(engine, flags);
  const bool all = answer_many(
      engine, jobs,
      [&](const Job& job) { return make_request(engine.model(), job.prompt, *job.seed, flags); },
      [&](const Job& job, const GenerateResult& result) {
        if (flags.json) return print_json(json_of_run(result, flags.engine.cache.policy, engine.plan()));
        fmt::print("--- answer {} of {}: seed {}, {} tokens, {}\n{}\n", job.id, flags.n_parallel, *job.seed,
                   result.tokens.size(), finish_reason_name(result.finish_reason), result.text);
      });
  finish_stdout();
  return all ? kExitOk : kExitInterrupted;
}

// A file of prompts; answers that are in the output file already are not asked for again.
int answer_file(Engine& engine, std::vector<Job> jobs, uint64_t seed, const RunFlags& flags) {
  std::optional<AnswerFile> file;
  if (flags.out) file.emplace(*flags.out);
  std::erase_if(jobs, [&](const Job& job) { return file && file->has(job.id); });
  print_about_engine(engine, flags);
  const bool all = answer_many(
      engine, jobs,
      [&](const Job& job) {
        return make_request(engine.model(), job.prompt, job.seed.value_or(seed), flags);
      },
      [&](const Job& job, const GenerateResult& result) {
        Json row = {{"id", job.id}};
        row.update(json_of_run(result, flags.engine.cache.policy, engine.plan()));
        if (file) {
          file->append(job.id, row);
        } else {
          print_json(row);
        }
      });
  finish_stdout();
  return all ? kExitOk : kExitInterrupted;
}

void check_combinations(const RunFlags& flags) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (flags.prompts && (flags.prompt || flags.file))
    refuse("--prompts and --prompt or --file given, allowed: one of them");
  if (flags.out && !flags.prompts) refuse("--out without --prompts, allowed: with it");
  check_chat_flags(flags.is_chat, flags.chat);
}

}  // namespace

int run_command(const Arguments& arguments) {
  RunFlags flags;
  CLI::App app("Generate text from a prompt, in an amount of KV memory that is fixed before the first token.",
               "kvase run");
  add_flags(app, flags);
  if (!parse(app, arguments)) return kExitOk;

  require_model(flags.model.path);
  check_predict(flags.n_predict);
  check_combinations(flags);
  const std::vector<Job> jobs =
      flags.prompts ? parse_jobs(read_text(*flags.prompts, "--prompts"), "--prompts " + *flags.prompts)
                    : std::vector<Job>{};
  const std::string prompt = flags.prompts ? "" : read_prompt(flags.prompt, flags.file);
  check_sampling(flags.sampling);
  flags.engine.n_sequences = flags.n_parallel;
  // Refuses a cache that cannot be before it reads the weights.
  plan_memory(read_model_info(flags.model.path), flags.engine.cache, flags.n_parallel);

  const Model model = Model::load(flags.model);
  Engine engine(model, flags.engine);
  const uint64_t seed = flags.seed ? *flags.seed : random_seed();
  if (flags.prompts) return answer_file(engine, jobs, seed, flags);
  if (flags.n_parallel > 1) return answer_n_times(engine, prompt, seed, flags);
  return answer_one(engine, prompt, seed, flags);
}

}  // namespace kvase::cli

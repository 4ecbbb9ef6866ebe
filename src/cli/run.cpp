// SPDX-License-Identifier: MIT
// kvase run: one prompt, one answer, streamed.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <random>
#include <string>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/messages.h"
#include "cli/prompt.h"
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
  bool json = false;
  bool verbose = false;
};

constexpr const char* kFooter = R"(
The text goes to stdout, everything else to stderr. The prompt is raw text: no chat template is applied, no escapes are
read. Exit status: 0 done, 1 failure at run time, 2 bad arguments or input, 130 stopped by Ctrl-C (what there is was
printed).

Examples:
  kvase run -m model.gguf -p "Once upon a time" -n 200
  kvase run -m model.gguf -f question.txt --kv vase-attnv --kv-budget 1024 --temp 0.6 --seed 7
  kvase run -m model.gguf -f book.txt --kv snapkv:smooth=max --kv-budget 512MiB --kv-interval 256 --json
)";

void add_flags(CLI::App& app, RunFlags& flags) {
  app.add_option("-p,--prompt", flags.prompt, "The prompt")->type_name("TEXT")->group("Text");
  app.add_option("-f,--file", flags.file, "A file with the prompt; one newline at its end is dropped")
      ->type_name("FILE")
      ->group("Text");
  add_number<int64_t>(
      app, "-n,--predict", flags.n_predict,
      "Most tokens to generate, -1 (default): until the model ends or its trained context is reached")
      ->group("Text");
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

// Short enough to type again, and exact in every JSON reader.
uint64_t random_seed() { return std::random_device()(); }

// ---- what is said before and after
// ---------------------------------------------------------------------------------

std::string length_promise(const MemoryPlan& plan) {
  if (!plan.evicts) return fmt::format("for up to {} tokens", plan.shape.budget);
  if (plan.prefill == Prefill::whole)
    return fmt::format("for any answer to a prompt of up to {} tokens", plan.capacity - plan.shape.interval);
  return "for any length";
}

std::string shape_text(const MemoryPlan& plan) {
  if (!plan.evicts) return fmt::format("{} slots per head, nothing evicted", plan.capacity);
  return fmt::format("{} slots per head: budget {} + interval {}, window {}, sinks {}", plan.capacity,
                     plan.shape.budget, plan.shape.interval, plan.shape.window, plan.shape.n_sink);
}

void print_memory_line(const MemoryPlan& plan) {
  fmt::print(stderr, "KV cache: {} bytes ({}) {}: {}, {}\n", with_commas(plan.kv_bytes),
             human_bytes(plan.kv_bytes), length_promise(plan), plan.policy, shape_text(plan));
}

void warn_about_options(const CacheOptions& cache, const MemoryPlan& plan) {
  if (!plan.evicts &&
      (cache.budget || cache.interval || cache.window || cache.n_sink || parse_policy(cache.policy).budget)) {
    print_warning("full ignores budget, interval, window and sinks: it keeps everything up to -c tokens");
  }
  if (plan.evicts && plan.prefill == Prefill::bounded && cache.n_ctx) {
    print_warning(fmt::format("-c {} has no effect: {} needs no context, its cache never grows", *cache.n_ctx,
                              plan.policy));
  }
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

void print_details(const ModelInfo& info, const EngineOptions& options, const SamplingOptions& sampling) {
  fmt::print(stderr,
             "model: {} ({}), {} layers, {} query heads on {} KV heads of size {}, vocabulary {}, trained "
             "context {}\n",
             one_line(info.name.empty() ? info.path : info.name), info.architecture, info.n_layers,
             info.n_heads, info.n_kv_heads, info.head_dim, info.n_vocab, info.n_ctx_train);
  fmt::print(stderr, "weights: {} bytes ({})\n", with_commas(info.weights_bytes),
             human_bytes(info.weights_bytes));
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

// ---- the run
// -------------------------------------------------------------------------------------------------------

// A line on a terminal that is overwritten while the prompt is read.
class Progress {
 public:
  explicit Progress(bool wanted) : shown_(wanted && isatty(STDERR_FILENO) == 1) {}
  void update(size_t done, size_t total) {
    if (!shown_) return;
    fmt::print(stderr, "\rreading the prompt: {} of {} tokens", done, total);
    dirty_ = true;
  }
  void clear() {
    if (dirty_) fmt::print(stderr, "\r\033[K");
    dirty_ = false;
  }

 private:
  bool shown_ = false;
  bool dirty_ = false;
};

void write_text(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

GenerateResult answer(Engine& engine, const GenerateRequest& request, const RunFlags& flags) {
  const Interrupt interrupt;
  Progress progress(!flags.json);
  // Said only once work has begun: an error is then the only line on stderr.
  bool announced = false;
  const auto announce = [&] {
    if (announced) return;
    announced = true;
    for (const std::string& warning : engine.model().info().warnings) print_warning(warning);
    warn_about_options(flags.engine.cache, engine.plan());
    warn_about_positions(engine.model().info(), request.prompt.size(), request.n_predict);
    if (flags.json) return;
    if (flags.verbose) print_details(engine.model().info(), engine.options(), request.sampling);
    print_memory_line(engine.plan());
  };
  GenerateHooks hooks;
  hooks.should_stop = [] { return Interrupt::requested(); };
  hooks.on_prefill = [&](size_t done, size_t total) {
    announce();
    progress.update(done, total);
  };
  hooks.on_text = [&](std::string_view text) {
    announce();
    progress.clear();
    if (!flags.json) write_text(text);
  };
  GenerateResult result = generate(engine, request, hooks);
  announce();
  progress.clear();
  return result;
}

void finish_stdout() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw Error(ErrorCode::device, "stdout: the text could not be written, allowed: a place with room");
  }
}

}  // namespace

int run_command(const Arguments& arguments) {
  RunFlags flags;
  CLI::App app("Generate text from a prompt, in an amount of KV memory that is fixed before the first token.",
               "kvase run");
  add_flags(app, flags);
  if (!parse(app, arguments)) return kExitOk;

  require_model(flags.model.path);
  if (flags.n_predict < -1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--predict {}, allowed: -1 (until the end) or more", flags.n_predict));
  }
  const std::string prompt = read_prompt(flags.prompt, flags.file);
  check_sampling(flags.sampling);
  // Refuses a cache that cannot be before it reads the weights.
  plan_memory(read_model_info(flags.model.path), flags.engine.cache);

  const Model model = Model::load(flags.model);
  Engine engine(model, flags.engine);
  GenerateRequest request;
  request.prompt = model.tokenize(prompt, /*add_special=*/true, /*parse_special=*/true);
  request.sampling = flags.sampling;
  request.sampling.seed = flags.seed ? *flags.seed : random_seed();
  request.n_predict = flags.n_predict;
  const GenerateResult result = answer(engine, request, flags);

  const std::string& policy = flags.engine.cache.policy;
  if (flags.json) {
    print_json(json_of_run(result, policy, engine.plan()));
  } else {
    write_text("\n");
    print_summary(result, policy, engine.plan());
  }
  finish_stdout();
  return result.finish_reason == FinishReason::cancelled ? kExitInterrupted : kExitOk;
}

}  // namespace kvase::cli

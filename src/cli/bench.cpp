// SPDX-License-Identifier: MIT
// kvase bench: speed and memory at given context lengths, policy by policy, and libllama's beside them.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/arguments.h"
#include "cli/bench_engine.h"
#include "cli/bench_report.h"
#include "cli/bench_worker.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/machine.h"
#include "cli/messages.h"
#include "cli/progress.h"
#include "cli/read_speed.h"
#include "kvase/kvase.h"

namespace kvase::cli {
namespace {

constexpr uint32_t kMostContext = 1U << 24;
constexpr uint32_t kMostGenerated = 1U << 16;
constexpr uint32_t kMostRounds = 100;
constexpr uint32_t kWarmUpSteps = 4;  // the last tokens of a context come one by one, untimed

struct BenchFlags {
  ModelOptions model;
  EngineOptions engine;
  std::vector<uint32_t> contexts = {128, 1024, 4096};
  std::vector<std::string> policies;
  uint32_t n_prompt = 512;
  uint32_t n_gen = 64;
  uint32_t n_rounds = 3;
  uint32_t n_fill = 2048;
  bool peer = false;
  bool json = false;
  std::string svg;  // path
};

constexpr const char* kFooter = R"(
Every engine runs in a process of its own, so that PEAK RSS is its own. They take turns, round by round, so that whatever else
the machine does hits all alike: trust the ratios (VS PEER: libllama's speed is 1), not the numbers. All get the same tokens;
nobody samples. Before anything is timed, each has read 64 tokens.

DECODE: tokens/s, one at a time, of all sequences together, from -c tokens on: the median of the rounds, then their range. The
text grows by --n-gen tokens a round. CPU MS: processor time of all threads per token; with -t 1 hardly touched by what else
runs, with more it counts waiting too. FILL: tokens/s of the text up to -c, timed once. PROMPT: tokens/s of a prompt from empty,
median. SLOWEST: the slowest step of all rounds, as a multiple of the median. K AND V: bytes allocated; `full` and libllama need
room for -c and all rounds. EVENTS: share of decode time spent in evictions, which --n-gen covers evenly: it is rounded up to a
multiple of the interval. STATS: share spent in statistics and in adding up attention mass, those of events included. OF READ:
how fast attention reads keys and values, as a share of what the same threads read of plain memory in this run.

Of a longer context only the first --n-fill tokens are read, or two intervals more than a policy keeps. The rest is pretended:
a cache that keeps all is filled with copies of its rows, one that evicts takes the later position. Steps cost the same then.

The peer has keys and values in f16, the same threads and step size, one thread pool, and its defaults for the rest.

Examples:
  kvase bench -m model.gguf --peer
  kvase bench -m model.gguf -c 128,4096,16384 --kv full --kv vase-attnv:budget=1024 --peer --json
  kvase bench -m model.gguf -c 1024,4096,16384,65536 --kv full --kv vase-dkv --peer --repeat 1 --svg speed.svg
  kvase bench -m model.gguf -c 1024 --n-seq 8
)";

std::vector<uint32_t> parse_contexts(const std::string& text) {
  std::vector<uint32_t> contexts;
  for (const std::string& part : split_commas(text)) {
    const auto n = parse_number<uint32_t>("-c", part);
    if (n < 1 || n > kMostContext)
      refuse_number("-c", text, fmt::format("numbers from 1 to {}, as 128,4096", kMostContext));
    contexts.push_back(n);
  }
  std::ranges::sort(contexts);
  contexts.erase(std::ranges::unique(contexts).begin(), contexts.end());
  return contexts;
}

void add_flags(CLI::App& app, BenchFlags& flags) {
  add_model_flag(app, flags.model.path);
  add_engine_flags(app, flags.model, flags.engine);
  const auto read_contexts = [&flags](const std::string& text) { flags.contexts = parse_contexts(text); };
  app.add_option_function<std::string>(
         "-c,--ctx-size", read_contexts,
         "Tokens in the cache when timing starts, several with commas (default 128,1024,4096)")
      ->type_name("N,...")
      ->group("Measurement");
  add_number<uint32_t>(app, "--n-seq", flags.engine.n_sequences,
                       "Sequences decoded together, 1 to 256 (default 1)")
      ->group("Measurement");
  add_number<uint32_t>(app, "--n-prompt", flags.n_prompt,
                       "Tokens of the prompt that is read from empty (default 512)")
      ->group("Measurement");
  add_number<uint32_t>(app, "--n-gen", flags.n_gen,
                       "Tokens of each sequence in one round, 1 to 65536 (default 64)")
      ->group("Measurement");
  add_number<uint32_t>(
      app, "--n-fill", flags.n_fill,
      "Tokens of a context that are read; those of a longer one are pretended (default 2048)")
      ->group("Measurement");
  add_number<uint32_t>(app, "--repeat", flags.n_rounds, "Rounds, 1 to 100 (default 3)")->group("Measurement");
  app.add_flag("--peer", flags.peer, "Measure libllama on the same file too")->group("Measurement");
  add_policy_list_flag(app, flags.policies);
  app.get_option("--kv")->description(
      "Policy to measure; give it again for more (default: full and vase-attnv)");
  add_shape_flags(app, flags.engine.cache);
  app.add_option("--svg", flags.svg, "Also draw tokens per second against -c, as SVG, into this file")
      ->type_name("FILE")
      ->group("Output");
  add_json_flag(app, flags.json, "One JSON object per row on stdout instead of the table");
  finish_help(app, kFooter);
}

void check_range(const char* flag, uint32_t number, uint32_t most) {
  if (number < 1 || number > most)
    throw Error(ErrorCode::invalid_argument, fmt::format("{} {}, allowed: 1..{}", flag, number, most));
}

// Before the long work: that the file can be written is known only once it is open.
std::ofstream open_to_write(const std::string& path) {
  if (path.empty()) return {};
  std::ofstream file(path, std::ios::binary);
  if (!file) {
    throw Error(ErrorCode::invalid_argument, fmt::format("--svg {}: {}, allowed: a file that can be written",
                                                         one_line(path), std::strerror(errno)));
  }
  return file;
}

void check_flags(const BenchFlags& flags) {
  require_model(flags.model.path);
  check_range("-t", flags.engine.n_threads, 512);
  check_range("-ub", flags.engine.n_ubatch, 4096);
  check_range("--n-seq", flags.engine.n_sequences, 256);
  check_range("--n-prompt", flags.n_prompt, kMostContext);
  check_range("--n-gen", flags.n_gen, kMostGenerated);
  check_range("--n-fill", flags.n_fill, kMostContext);
  check_range("--repeat", flags.n_rounds, kMostRounds);
}

void complete(BenchFlags& flags) {
  if (flags.engine.n_threads == 0) flags.engine.n_threads = std::max(std::thread::hardware_concurrency(), 1U);
  if (flags.policies.empty()) flags.policies = {"full", "vase-attnv"};
  std::vector<std::string> different;
  for (const std::string& policy : flags.policies) {
    if (std::ranges::find(different, policy) == different.end()) different.push_back(policy);
  }
  flags.policies = std::move(different);
}

CacheOptions cache_options(const BenchFlags& flags, const std::string& policy, uint32_t n_positions) {
  CacheOptions cache = flags.engine.cache;
  cache.policy = policy;
  cache.n_ctx = n_positions;
  return cache;
}

// Events come every `interval` tokens: with a common multiple of all intervals, each round holds its fair
// share.
uint32_t round_up_to_intervals(const BenchFlags& flags, const ModelInfo& info) {
  uint64_t multiple = 1;
  for (const std::string& policy : flags.policies) {
    const MemoryPlan plan = plan_memory(info, cache_options(flags, policy, 1), flags.engine.n_sequences);
    if (plan.evicts) multiple = std::lcm(multiple, uint64_t{plan.shape.interval});
    if (multiple > kMostGenerated) break;
  }
  const uint64_t n_gen = (flags.n_gen + multiple - 1) / multiple * multiple;
  if (n_gen > kMostGenerated) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format(
            "--n-gen {}: found {} as a common multiple of the intervals, allowed: rounds of up to {} tokens",
            flags.n_gen, multiple, kMostGenerated));
  }
  return static_cast<uint32_t>(n_gen);
}

// All processes of one context are there at the same time, each with its own weights and cache.
void check_memory(const BenchFlags& flags, const ModelInfo& info, uint32_t n_positions) {
  std::vector<std::string> policies = flags.policies;
  if (flags.peer) policies.emplace_back("full");
  double bytes = 0;
  for (const std::string& policy : policies) {
    const MemoryPlan plan =
        plan_memory(info, cache_options(flags, policy, n_positions), flags.engine.n_sequences);
    bytes += static_cast<double>(info.weights_bytes) + static_cast<double>(plan.total_bytes());
  }
  const uint64_t available = available_memory_bytes();
  if (bytes <= static_cast<double>(available)) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("-c {}: {} processes need {} bytes for weights and caches, allowed: {} that are available",
                  flags.contexts.back(), policies.size(), with_commas(static_cast<uint64_t>(bytes)),
                  with_commas(available)));
}

// ---- the measurement
// -----------------------------------------------------------------------------------------------

template <typename Value>
std::optional<Value> optional_of(const nlohmann::json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<Value>());
}

// Over the tokens of all sequences.
struct Speed {
  double tps = 0;     // tokens per second
  double cpu_ms = 0;  // processor time of all threads per token
};

// One engine in its process, and what is known of it.
struct Contestant {
  BenchRow row;
  std::unique_ptr<Child> child;
  double decode_seconds = 0;
  std::optional<BenchTimes> times = {};  // of all rounds
};

class Bench {
 public:
  Bench(const BenchFlags& flags, const BenchConditions& conditions)
      : flags_(&flags), conditions_(&conditions) {}

  // The prompt's speed alone.
  std::vector<BenchRow> measure_prompt() {
    std::vector<Contestant> contestants = start(0, flags_->n_prompt);
    for (uint32_t round = 0; round < flags_->n_rounds; ++round) {
      for (Contestant& contestant : contestants) {
        ask(contestant, {{"do", "clear"}}, "clearing its cache");
        const Speed speed = fill(contestant, flags_->n_prompt);
        contestant.row.prompt_tps.push_back(speed.tps);
        contestant.row.prompt_cpu_ms.push_back(speed.cpu_ms);
      }
    }
    return finish(contestants);
  }

  // All but the prompt's.
  std::vector<BenchRow> measure_context(uint32_t n_ctx) {
    std::vector<Contestant> contestants = start(n_ctx, n_ctx + flags_->n_rounds * conditions_->n_gen);
    const uint32_t n_steps = std::min(kWarmUpSteps, n_ctx - 1);
    for (Contestant& contestant : contestants) {
      reach(contestant, n_ctx - n_steps);
    }
    for (Contestant& contestant : contestants)
      ask(contestant, {{"do", "decode"}, {"n", n_steps}}, "warming up");
    for (uint32_t round = 0; round < flags_->n_rounds; ++round) {
      for (Contestant& contestant : contestants) decode(contestant, round);
    }
    return finish(contestants);
  }

 private:
  std::vector<Contestant> start(uint32_t n_ctx, uint32_t n_positions) {
    std::vector<Contestant> contestants;
    for (const std::string& policy : flags_->policies)
      contestants.push_back(make(false, policy, n_ctx, n_positions));
    if (flags_->peer) contestants.push_back(make(true, "full", n_ctx, n_positions));
    return contestants;
  }

  Contestant make(bool peer, const std::string& policy, uint32_t n_ctx, uint32_t n_positions) {
    BenchSetup setup{
        .peer = peer, .model = flags_->model, .engine = flags_->engine, .n_fill = flags_->n_fill};
    setup.engine.cache = cache_options(*flags_, policy, n_positions);
    Contestant contestant;
    contestant.row = {.peer = peer, .policy = policy, .n_ctx = n_ctx, .n_positions = n_positions};
    contestant.child =
        std::make_unique<Child>(peer ? "libllama" : policy, Arguments{"bench", kBenchWorkerFlag});
    const nlohmann::json facts =
        ask(contestant, {{"do", "start"}, {"setup", json_of_setup(setup)}}, "loading the model");
    contestant.row.memory = {.kv_bytes = facts.at("kv_bytes"),
                             .side_bytes = optional_of<uint64_t>(facts.at("side_bytes")),
                             .map_bytes = optional_of<uint64_t>(facts.at("map_bytes"))};
    contestant.row.note = optional_of<std::string>(facts.at("note"));
    return contestant;
  }

  nlohmann::json ask(Contestant& contestant, const nlohmann::json& question, const std::string& doing) {
    const BenchRow& row = contestant.row;
    progress_.update(fmt::format("{}, {}: {}",
                                 row.n_ctx == 0 ? "prompt" : fmt::format("context {}", row.n_ctx),
                                 row.peer ? "libllama" : one_line(row.policy), doing));
    return contestant.child->ask(question, doing);
  }

  Speed speed_of(const nlohmann::json& answer, uint32_t n) const {
    const double n_tokens = static_cast<double>(n) * conditions_->n_sequences;
    return {.tps = n_tokens / answer.at("seconds").get<double>(),
            .cpu_ms = 1000 * answer.at("cpu_seconds").get<double>() / n_tokens};
  }

  Speed fill(Contestant& contestant, uint32_t n) {
    const auto answer = ask(contestant, {{"do", "fill"}, {"n", n}}, fmt::format("reading {} tokens", n));
    return speed_of(answer, n);
  }

  void reach(Contestant& contestant, uint32_t n) {
    const auto answer = ask(contestant, {{"do", "reach"}, {"n", n}}, fmt::format("reading {} tokens", n));
    BenchRow& row = contestant.row;
    row.n_read = answer.at("n_read");
    const Speed speed = speed_of(answer, row.n_read);
    row.prefill_tps = speed.tps;
    row.prefill_cpu_ms = speed.cpu_ms;
  }

  void decode(Contestant& contestant, uint32_t round) {
    const auto answer = ask(contestant, {{"do", "decode"}, {"n", conditions_->n_gen}},
                            fmt::format("decoding, round {} of {}", round + 1, flags_->n_rounds));
    const Speed speed = speed_of(answer, conditions_->n_gen);
    contestant.row.decode_tps.push_back(speed.tps);
    contestant.row.decode_cpu_ms.push_back(speed.cpu_ms);
    contestant.decode_seconds += answer.at("seconds").get<double>();
    const auto step_ms = answer.at("step_ms").get<std::vector<double>>();
    contestant.row.step_ms.insert(contestant.row.step_ms.end(), step_ms.begin(), step_ms.end());
    if (!answer.at("times").is_null()) add_times(contestant, answer.at("times"));
  }

  static void add_times(Contestant& contestant, const nlohmann::json& times) {
    BenchTimes sum = contestant.times.value_or(BenchTimes{});
    sum.events_ms += times.at("events_ms").get<double>();
    sum.statistics_ms += times.at("statistics_ms").get<double>();
    sum.attention_ms += times.at("attention_ms").get<double>();
    sum.attention_bytes += times.at("attention_bytes").get<double>();
    contestant.times = sum;
  }

  void set_shares(Contestant& contestant) const {
    if (!contestant.times) return;
    const BenchTimes& times = *contestant.times;
    BenchRow& row = contestant.row;
    const double decode_ms = 1000 * contestant.decode_seconds;
    row.evict_share = times.events_ms / decode_ms;
    row.stats_share = times.statistics_ms / decode_ms;
    row.attn_read_fraction = times.attention_bytes / (times.attention_ms / 1000) / conditions_->read_speed;
  }

  std::vector<BenchRow> finish(std::vector<Contestant>& contestants) {
    std::vector<BenchRow> rows;
    for (Contestant& contestant : contestants) {
      BenchRow& row = contestant.row;
      row.peak_rss_bytes =
          optional_of<uint64_t>(ask(contestant, {{"do", "peak"}}, "ending").at("peak_rss_bytes"));
      set_shares(contestant);
      rows.push_back(std::move(row));
    }
    return rows;
  }

  const BenchFlags* flags_;
  const BenchConditions* conditions_;
  ProgressLine progress_;
};

std::vector<BenchRow> measure(const BenchFlags& flags, const BenchConditions& conditions) {
  Bench bench(flags, conditions);
  const std::vector<BenchRow> prompt = bench.measure_prompt();
  std::vector<BenchRow> rows;
  for (const uint32_t n_ctx : flags.contexts) {
    std::vector<BenchRow> of_context = bench.measure_context(n_ctx);
    for (size_t engine = 0; engine < of_context.size(); ++engine) {
      of_context[engine].prompt_tps = prompt[engine].prompt_tps;
      of_context[engine].prompt_cpu_ms = prompt[engine].prompt_cpu_ms;
    }
    if (flags.json) {
      for (const BenchRow& row : of_context)
        print_json(json_of_bench_row(conditions, row, find_peer(of_context, row)));
      std::fflush(stdout);
    }
    std::ranges::move(of_context, std::back_inserter(rows));
  }
  return rows;
}

// ---- what is said
// ---------------------------------------------------------------------------------------------------

void print_report(const BenchFlags& flags, const BenchConditions& conditions, const ModelInfo& info,
                  const std::vector<BenchRow>& rows, double load) {
  fmt::print("{} ({}), weights {}\n", one_line(info.name.empty() ? info.path : info.name), info.architecture,
             human_bytes(info.weights_bytes));
  fmt::print(
      "{} threads, {} sequences, {} rounds of {} tokens each, -ub {}; load of the machine before: {:.1f}; it "
      "reads {:.1f} GB/s\n",
      conditions.n_threads, conditions.n_sequences, flags.n_rounds, conditions.n_gen, conditions.n_ubatch,
      load, conditions.read_speed / 1e9);
  const auto peer = std::ranges::find_if(rows, &BenchRow::peer);
  if (peer != rows.end()) fmt::print("libllama: {}\n", peer->note.value_or("-"));
  fmt::print("\n{}", bench_table(conditions, rows));
}

}  // namespace

int bench_command(const Arguments& arguments) {
  if (arguments == Arguments{kBenchWorkerFlag}) return run_bench_worker();
  BenchFlags flags;
  CLI::App app("Measure speed and memory at given context lengths, policy by policy.", "kvase bench");
  add_flags(app, flags);
  if (!parse(app, arguments)) return kExitOk;

  complete(flags);
  check_flags(flags);
  const ModelInfo info = read_model_info(flags.model.path);
  BenchConditions conditions{.model = flags.model.path,
                             .n_threads = flags.engine.n_threads,
                             .n_ubatch = flags.engine.n_ubatch,
                             .n_sequences = flags.engine.n_sequences,
                             .n_prompt = flags.n_prompt,
                             .n_gen = round_up_to_intervals(flags, info)};
  check_memory(flags, info,
               std::max(flags.n_prompt, flags.contexts.back() + flags.n_rounds * conditions.n_gen));
  if (conditions.n_gen != flags.n_gen) {
    print_warning(fmt::format(
        "--n-gen {} becomes {}, a multiple of every interval, so that each round has as many evictions",
        flags.n_gen, conditions.n_gen));
  }
  std::ofstream svg = open_to_write(flags.svg);
  double load = 0;
  getloadavg(&load, 1);
  conditions.read_speed = read_bytes_per_second(flags.engine.n_threads);
  const std::vector<BenchRow> rows = measure(flags, conditions);
  if (svg.is_open()) svg << bench_chart(conditions, info, rows);
  if (!flags.json) print_report(flags, conditions, info, rows, load);
  return kExitOk;
}

}  // namespace kvase::cli

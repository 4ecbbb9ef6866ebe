// SPDX-License-Identifier: MIT
// kvase eval fidelity: from flags to items, from items to rows and a report.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/eval.h"
#include "cli/flags.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/messages.h"
#include "cli/progress.h"
#include "cli/prompt.h"
#include "eval/fidelity.h"
#include "eval/fidelity_report.h"
#include "kvase/kvase.h"

namespace kvase::cli {
namespace {

constexpr uint32_t kMostBeside = 64;

struct FidelityFlags {
  ModelOptions model;
  eval::FidelityPlan plan;
  std::vector<std::string> files;
  uint32_t n_beside = 8;
  std::optional<std::string> out;
  std::optional<std::string> reference;
  eval::Shard shard;
  bool json = false;
};

constexpr const char* kFooter = R"(
The text is read once with the full cache, and beside it with every policy, the same tokens at the same time. Budgets are bytes
of K and V over capacity, the same for all: 1/4 of the full cache's for -c tokens; MiB; or tokens, which stand for the bytes that
budget and interval take together, so that a policy with another interval gets another budget and not another memory.

KL: how far the policy's distribution over the next token is from the full cache's, in nats; same top: share of the tokens where
both find the same token likeliest; -log p: of the text's own next token.

With --out DIR: rows.jsonl, whose first line says what all rows share; report.md, report.html and charts. The same command goes
on where a stopped one ended; other policies, budgets and seeds may be added to it.

Examples:
  kvase eval fidelity -m model.gguf -f book.txt --kv vase-attnv --kv snapkv --kv-budget 1/2,1/4,1/8
  kvase eval fidelity -m model.gguf -f book.txt -f proofs.txt -c 8192 --kv vase-dkv --kv window -s 1,2,3 --out results
  kvase eval fidelity -m model.gguf -f book.txt --kv snapkv --kv random --out part1 --shard 1/2
)";

// "a,b,c", and again.
std::vector<std::string> split(const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  for (const std::string& text : texts) std::ranges::move(split_commas(text), std::back_inserter(parts));
  return parts;
}

CLI::Option* add_list(CLI::App& app, const std::string& names, const std::string& help,
                      const std::function<void(const std::vector<std::string>&)>& read) {
  return app.add_option_function<std::vector<std::string>>(names, read, help)
      ->type_size(1)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_flags(CLI::App& app, FidelityFlags& flags) {
  add_model_flag(app, flags.model.path);
  add_engine_flags(app, flags.model, flags.plan.engine);
  add_list(app, "-f,--file", "Text to read; give it again for more",
           [&flags](const auto& files) { flags.files = files; })
      ->type_name("FILE")
      ->group("Measurement");
  add_number<uint32_t>(app, "-c,--ctx-size", flags.plan.n_tokens, "Tokens of each text (default 4096)")
      ->group("Measurement");
  const auto read_seeds = [&flags](const std::vector<std::string>& texts) {
    flags.plan.seeds.clear();
    for (const std::string& text : split(texts))
      flags.plan.seeds.push_back(parse_number<uint64_t>("--seed", text));
  };
  add_list(app, "-s,--seed", "Seeds of the policies that draw, several with commas (default 0)", read_seeds)
      ->type_name("N,...")
      ->group("Measurement");
  add_number<uint32_t>(app, "--parallel", flags.n_beside,
                       "Also -np. Policies beside one pass of the full cache, 1 to 64 (default 8). More: "
                       "less time, more memory")
      ->group("Measurement");
  add_policy_list_flag(app, flags.plan.policies);
  add_list(app, "--kv-budget",
           "Memory of each policy's cache: a share of the full cache's, MiB, or tokens; several with commas "
           "(default 1/4)",
           [&flags](const auto& texts) { flags.plan.budgets = split(texts); })
      ->type_name("1/N|MiB|TOKENS,...")
      ->group("Cache");
  CacheOptions& cache = flags.plan.engine.cache;
  add_number<uint32_t>(app, "--kv-interval", cache.interval, "Tokens between two evictions (default 64)",
                       "TOKENS")
      ->group("Cache");
  add_number<uint32_t>(app, "--kv-window", cache.window,
                       "Newest tokens that always stay (default: the interval)", "TOKENS")
      ->group("Cache");
  add_number<uint32_t>(app, "--kv-sinks", cache.n_sink,
                       "First tokens of the text that always stay (default: the policy's own)", "TOKENS")
      ->group("Cache");
  app.add_option("--out", flags.out, "Folder for rows, report and charts; a stopped run goes on there")
      ->type_name("DIR")
      ->group("Output");
  app.add_option("--reference", flags.reference,
                 "Policy that the report compares others with (default vase-attnv)")
      ->type_name("POLICY")
      ->group("Output");
  add_shard_flag(app, flags.shard);
  add_json_flag(app, flags.json, "One JSON object per row on stdout instead of the tables");
  finish_help(app, kFooter);
}

void complete(FidelityFlags& flags) {
  require_model(flags.model.path);
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (flags.files.empty()) refuse("no text given, allowed: -f FILE, once or more");
  if (flags.plan.seeds.empty()) refuse("no seed given, allowed: -s N,...");
  if (flags.n_beside < 1 || flags.n_beside > kMostBeside)
    refuse(fmt::format("--parallel {}, allowed: 1..{}", flags.n_beside, kMostBeside));
  if (flags.plan.policies.empty()) flags.plan.policies = {"vase-attnv"};
  if (flags.plan.budgets.empty()) flags.plan.budgets = {"1/4"};
}

std::vector<std::string> text_names(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const std::string& file : files) names.push_back(std::filesystem::path(file).filename().string());
  return names;
}

// The next items that can share a pass: of one text, in the order of the list. They leave the list.
std::vector<eval::FidelityItem> take_pass(std::vector<eval::FidelityItem>& items, size_t most) {
  std::vector<eval::FidelityItem> pass, rest;
  for (eval::FidelityItem& item : items) {
    const bool fits = pass.size() < most && item.text == items.front().text;
    (fits ? pass : rest).push_back(item);
  }
  items = std::move(rest);
  return pass;
}

// False if Ctrl-C ended it.
bool measure(const FidelityFlags& flags, const Model& model, const std::vector<eval::FidelityText>& texts,
             std::vector<eval::FidelityItem> items, eval::RowStore& store) {
  const Interrupt interrupt;
  ProgressLine progress;
  const size_t n_items = items.size();
  while (!items.empty()) {
    const size_t n_done = n_items - items.size();
    const std::vector<eval::FidelityItem> pass = take_pass(items, flags.n_beside);
    const auto show = [&](size_t n_read, size_t n_tokens) {
      const double share = static_cast<double>(n_read) / static_cast<double>(n_tokens);
      progress.update(
          fmt::format("{} of {} rows; {}: {} of {} tokens, {} policies side by side", n_done, n_items,
                      one_line(texts[pass.front().text].name), n_read, n_tokens, pass.size()),
          (static_cast<double>(n_done) + share * static_cast<double>(pass.size())) /
              static_cast<double>(n_items));
    };
    const std::vector<Json> rows =
        eval::measure_fidelity(model, flags.plan.engine, texts[pass.front().text], pass,
                               {.should_stop = &Interrupt::requested, .on_progress = show});
    if (rows.empty()) return false;
    progress.clear();
    for (size_t number = 0; number < rows.size(); ++number) {
      store.append(pass[number].key, rows[number]);
      if (flags.json) print_json(rows[number]);
    }
    std::fflush(stdout);
  }
  return true;
}

}  // namespace

int eval_fidelity_command(const Arguments& arguments) {
  FidelityFlags flags;
  CLI::App app("Measure how far each policy is from the full cache on given texts, at equal memory.",
               "kvase eval fidelity");
  add_flags(app, flags);
  if (!parse(app, arguments)) return kExitOk;

  complete(flags);
  const std::vector<std::string> names = text_names(flags.files);
  // Refuses what cannot be before it reads the weights.
  const ModelInfo info = read_model_info(flags.model.path);
  const std::vector<eval::FidelityItem> items = eval::fidelity_items(flags.plan, info, names);
  std::vector<std::string> contents;
  for (const std::string& file : flags.files) contents.push_back(read_text(file, "-f"));

  const Model model = Model::load(flags.model);
  std::vector<eval::FidelityText> texts;
  for (size_t number = 0; number < names.size(); ++number)
    texts.push_back(eval::make_fidelity_text(model, names[number], contents[number], flags.plan.n_tokens));
  if (flags.plan.n_tokens > info.n_ctx_train) {
    print_warning(
        fmt::format("-c {}: the model was trained for {} tokens, beyond them the full cache is no measure",
                    flags.plan.n_tokens, info.n_ctx_train));
  }
  eval::RowStore store(flags.out, eval::fidelity_definition(flags.plan, info, texts));
  const std::vector<eval::FidelityItem> left = eval::remaining(items, flags.shard, store);
  if (flags.json) {
    for (const Json& row : store.lines().rows) print_json(row);
  }
  const bool all = measure(flags, model, texts, left, store);

  const eval::JsonLines lines = store.lines();
  if (flags.out && !lines.rows.empty()) {
    const std::string reference = flags.reference.value_or(eval::default_reference(lines));
    report::write_report(
        *flags.out, eval::fidelity_report(lines, reference, command_line("kvase eval fidelity", arguments)));
  }
  for (const std::string& text : names) {
    if (flags.json || lines.rows.empty()) continue;
    fmt::print("\n{}\n\n", one_line(text));
    print_table(eval::fidelity_table(lines, text));
  }
  return all ? kExitOk : kExitInterrupted;
}

}  // namespace kvase::cli

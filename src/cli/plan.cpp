// SPDX-License-Identifier: MIT
// kvase plan: memory before loading weights, the full cache against each policy.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/machine.h"
#include "cli/messages.h"
#include "kvase/kvase.h"

namespace kvase::cli {
namespace {

struct PlanFlags {
  std::string model;
  CacheOptions cache;
  std::vector<std::string> policies;
  std::optional<uint64_t> memory_bytes;
  bool json = false;
};

struct Row {
  std::string policy;  // as given
  MemoryPlan plan;     // of one sequence
  uint64_t max_sequences = 0;
};

constexpr const char* kFooter = R"(
Nothing is loaded and nothing is allocated: the sizes come from the code that allocates. The first row is always `full`, at
-c tokens. MAX SEQUENCES: how many texts fit at once beside the weights. Without --kv, some well-known policies are shown; at
the same budget all of them take the same memory for K and V.

Examples:
  kvase plan -m model.gguf
  kvase plan -m model.gguf -c 131072 --kv vase-attnv:budget=1024 --kv vase-attnv:budget=4096
  kvase plan -m model.gguf --kv snapkv --kv-budget 512MiB --memory 8GiB --json
)";

// "8GiB" or "512MiB".
uint64_t parse_memory(const std::string& text) {
  const std::string allowed = "memory such as 8GiB or 512MiB";
  if (text.size() < 4) refuse_number("--memory", text, allowed);
  const std::string unit = text.substr(text.size() - 3);
  if (unit != "MiB" && unit != "GiB") refuse_number("--memory", text, allowed);
  const uint64_t unit_bytes = uint64_t{1} << (unit == "MiB" ? 20 : 30);
  const auto amount = parse_number<uint32_t>("--memory", std::string_view(text).substr(0, text.size() - 3));
  return amount * unit_bytes;  // below 2^62
}

void add_flags(CLI::App& app, PlanFlags& flags) {
  add_model_flag(app, flags.model);
  add_policy_list_flag(app, flags.policies);
  add_shape_flags(app, flags.cache);
  add_storage_flags(app, flags.cache);
  const auto read_memory = [&flags](const std::string& text) { flags.memory_bytes = parse_memory(text); };
  app.add_option_function<std::string>(
         "--memory", read_memory,
         "Memory to fill, as 8GiB or 512MiB (default: what this machine has available)")
      ->type_name("MiB|GiB")
      ->group("Cache");
  add_json_flag(app, flags.json, "One JSON object on stdout instead of the table");
  finish_help(app, kFooter);
}

std::vector<std::string> policies_to_show(const std::vector<std::string>& given) {
  static const std::vector<std::string> well_known = {"streaming-llm", "snapkv", "vase-attnv", "vase-dkv"};
  std::vector<std::string> policies = {"full"};
  for (const std::string& policy : given.empty() ? well_known : given) {
    if (std::find(policies.begin(), policies.end(), policy) == policies.end()) policies.push_back(policy);
  }
  return policies;
}

uint64_t max_sequences(const MemoryPlan& plan, uint64_t weights_bytes, uint64_t memory_bytes) {
  const uint64_t shared = weights_bytes + plan.map_bytes;
  const uint64_t per_sequence = plan.kv_bytes + plan.side_bytes;
  return memory_bytes > shared && per_sequence > 0 ? (memory_bytes - shared) / per_sequence : 0;
}

std::vector<Row> make_rows(const ModelInfo& info, const PlanFlags& flags, uint64_t memory_bytes) {
  std::vector<Row> rows;
  for (const std::string& policy : policies_to_show(flags.policies)) {
    CacheOptions cache = flags.cache;
    cache.policy = policy;
    Row row{policy, plan_memory(info, cache), 0};
    row.max_sequences = max_sequences(row.plan, info.weights_bytes, memory_bytes);
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_table(const ModelInfo& info, const std::vector<Row>& rows, uint32_t n_ctx, uint64_t memory_bytes) {
  fmt::print("{} ({}), {} layers, {} KV heads of size {}\n",
             one_line(info.name.empty() ? info.path : info.name), info.architecture, info.n_layers,
             info.n_kv_heads, info.head_dim);
  fmt::print("weights {} bytes ({}), {} of memory, {} bytes of K and V per token, `full` at {} tokens\n\n",
             with_commas(info.weights_bytes), human_bytes(info.weights_bytes), human_bytes(memory_bytes),
             with_commas(rows.front().plan.bytes_per_token), with_commas(n_ctx));
  std::vector<std::vector<std::string>> cells = {
      {"POLICY", "SLOTS PER HEAD", "K AND V", "BYTES", "SIDE", "MAPS", "OF FULL", "MAX SEQUENCES"}};
  const auto full_bytes = static_cast<double>(rows.front().plan.total_bytes());
  for (const Row& row : rows) {
    const MemoryPlan& plan = row.plan;
    cells.push_back({one_line(row.policy), with_commas(plan.capacity), human_bytes(plan.kv_bytes),
                     with_commas(plan.kv_bytes), human_bytes(plan.side_bytes), human_bytes(plan.map_bytes),
                     fmt::format("{:.1f} %", 100 * static_cast<double>(plan.total_bytes()) / full_bytes),
                     with_commas(row.max_sequences)});
  }
  const std::vector<Align> columns = {Align::left,  Align::right, Align::right, Align::right,
                                      Align::right, Align::right, Align::right, Align::right};
  fmt::print("{}", table(columns, cells));
}

void print_plan_json(const PlanFlags& flags, const ModelInfo& info, const std::vector<Row>& rows,
                     uint32_t n_ctx, uint64_t memory_bytes) {
  Json json = {{"model", flags.model},
               {"name", info.name},
               {"n_ctx", n_ctx},
               {"weights_bytes", info.weights_bytes},
               {"memory_bytes", memory_bytes},
               {"rows", Json::array()}};
  for (const Row& row : rows)
    json["rows"].push_back(json_of_plan_row(row.policy, row.plan, row.max_sequences));
  print_json(json);
}

}  // namespace

int plan_command(const Arguments& arguments) {
  PlanFlags flags;
  CLI::App app("Show what a cache will take, before loading anything.", "kvase plan");
  add_flags(app, flags);
  if (!parse(app, arguments)) return kExitOk;

  require_model(flags.model);
  const ModelInfo info = read_model_info(flags.model);
  const uint64_t memory_bytes = flags.memory_bytes.value_or(available_memory_bytes());
  const std::vector<Row> rows = make_rows(info, flags, memory_bytes);
  const uint32_t n_ctx = flags.cache.n_ctx.value_or(info.n_ctx_train);
  if (flags.json) {
    print_plan_json(flags, info, rows, n_ctx, memory_bytes);
  } else {
    for (const std::string& warning : info.warnings) print_warning(warning);
    print_table(info, rows, n_ctx, memory_bytes);
  }
  return kExitOk;
}

}  // namespace kvase::cli

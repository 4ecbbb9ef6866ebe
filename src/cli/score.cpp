// SPDX-License-Identifier: MIT
// kvase score: one policy, once, on tensors from a file.
#include <fmt/format.h>

#include <string>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/json.h"
#include "kvase/score.h"

namespace kvase::cli {
namespace {

constexpr const char* kFooter = R"(
The file is a GGUF with one layer of one sequence, shapes fastest dimension first:
  k, v  f32 [head_dim, n, n_kv_heads]   keys after RoPE, values
  q     f32 [head_dim, w, n_heads]      queries after RoPE of the last w tokens, which are the window
  pos   i32 [n]                         positions, ascending
It prints {"policy", "scores", "keep", "approx"}: one array per KV head; keep and approx hold slots, ascending; infinite scores
are null.

Example:
  kvase score --input layer.gguf --kv snapkv:smooth=avg --kv-budget 256 --seed 7
)";

}  // namespace

int score_command(const Arguments& arguments) {
  std::string input;
  ScoreOptions options;
  bool json = true;
  CLI::App app("Run one policy on tensors in a GGUF file, and print its scores and what it keeps as JSON.",
               "kvase score");
  app.add_option("--input", input, "GGUF file with k, v, q and pos")->type_name("FILE")->group("Input");
  add_policy_flag(app, options.cache.policy);
  add_shape_flags(app, options.cache);
  const std::string key = "Part of the key of random choices (default 0)";
  add_number<uint64_t>(app, "--seed", options.seed, key)->group("Random choices");
  add_number<uint32_t>(app, "--sequence", options.sequence, key)->group("Random choices");
  add_number<uint32_t>(app, "--layer", options.layer, key)->group("Random choices");
  add_number<uint32_t>(app, "--event", options.event, key)->group("Random choices");
  add_json_flag(app, json, "Print JSON, as always");
  finish_help(app, kFooter);
  if (!parse(app, arguments)) return kExitOk;

  if (input.empty()) {
    throw Error(ErrorCode::invalid_argument, "no input given, allowed: --input FILE with k, v, q and pos");
  }
  print_json(json_of_score(score(read_score_input(input), options)));
  return kExitOk;
}

}  // namespace kvase::cli

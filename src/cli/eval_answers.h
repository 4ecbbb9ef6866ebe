// SPDX-License-Identifier: MIT
// What the measurements share in which a model answers: flags, the loop over policies, the output.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/flags.h"
#include "eval/answers.h"
#include "kvase/kvase.h"

namespace kvase::cli {

struct AnswerFlags {
  ModelOptions model;
  EngineOptions engine;
  std::vector<std::string> policies;
  SamplingOptions sampling;
  std::optional<uint64_t> seed;
  int64_t n_predict = -1;
  uint32_t n_parallel = 1;
  uint32_t n_samples = 1;
  ChatFlags chat;
  bool is_raw = false;
  std::vector<std::string> stop;
  std::optional<std::string> out;
  std::optional<std::string> reference;
  eval::Shard shard;
  bool json = false;
};

// `n_predict` must hold the measurement's default already.
void add_answer_flags(CLI::App& app, AnswerFlags& flags);

// One thing to be answered.
struct AnswerCase {
  std::string id;
  std::string raw_prompt;    // for --raw
  std::string user_message;  // else, in the model's chat template
};

// Adds `score` and what else the measurement says of an answer to its row.
using ScoreAnswer = std::function<void(size_t number, const GenerateResult&, eval::Json& row)>;

// What the rows share, without the measurement's own settings: "kind" first.
eval::Json answer_definition(const std::string& kind, const AnswerFlags& flags, const ModelInfo& info);

// Checks flags that need no weights: policies, sampling, counts. Call it before reading anything large.
// Throws Error(invalid_argument).
void check_answer_flags(AnswerFlags& flags, const ModelInfo& info);

// Every policy answers every case, except what `--out` holds already; then tables, rows or a report.
// Returns the exit status.
int answer_cases(const AnswerFlags& flags, const Model& model, const eval::Json& definition,
                 const std::vector<AnswerCase>& cases, const ScoreAnswer& score, const std::string& command);

}  // namespace kvase::cli

// SPDX-License-Identifier: MIT
// Groups of flags that several commands share. Names are llama.cpp's where it has the flag.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kvase/chat.h"
#include "kvase/options.h"

namespace kvase::cli {

void add_model_flag(CLI::App& app, std::string& path);
// Throws Error(invalid_argument) if no model was given.
void require_model(const std::string& path);

void add_threads_flag(CLI::App& app, uint32_t& n_threads);
void add_engine_flags(CLI::App& app, ModelOptions& model, EngineOptions& engine);

void add_policy_flag(CLI::App& app, std::string& policy);
void add_policy_list_flag(CLI::App& app, std::vector<std::string>& policies);

// Budget, interval, window, sinks: the shape of a bounded cache.
void add_shape_flags(CLI::App& app, CacheOptions& cache);
// Rows, context and prefill.
void add_storage_flags(CLI::App& app, CacheOptions& cache);
void add_row_type_flags(CLI::App& app, RowType& type_k, RowType& type_v);

// Most tokens to generate.
void add_predict_flag(CLI::App& app, int64_t& n_predict);
// Throws Error(invalid_argument) unless it is -1 or more.
void check_predict(int64_t n_predict);

struct ChatFlags {
  std::optional<std::string> system;
  ChatOptions options;
  std::optional<int64_t> thinking_budget;  // tokens
  // Some flag was given.
  bool given() const {
    return system || !options.template_name.empty() || options.thinking || thinking_budget;
  }
};
void add_chat_flags(CLI::App& app, ChatFlags& chat);
// Throws Error(invalid_argument) if one was given without --chat, where it would do nothing.
void check_chat_flags(bool is_chat, const ChatFlags& chat);

// `seed` stays empty for -1: a random one is wanted.
void add_sampling_flags(CLI::App& app, SamplingOptions& sampling, std::optional<uint64_t>& seed);
// Short enough to type again, and exact in every JSON reader.
uint64_t random_seed();

void add_json_flag(CLI::App& app, bool& json, const std::string& help);

// Layout and footer of the help. Call it last: groups appear in the order in which they were first named.
void finish_help(CLI::App& app, const std::string& footer);

}  // namespace kvase::cli

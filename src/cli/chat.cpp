// SPDX-License-Identifier: MIT
// kvase chat: a conversation in the terminal, in the memory of one cache.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/answer_view.h"
#include "cli/arguments.h"
#include "cli/chat_prompt.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/messages.h"
#include "cli/run_report.h"
#include "kvase/kvase.h"

namespace kvase::cli {
namespace {

constexpr size_t kMaxLineBytes = size_t{16} << 20;  // keeps endless input from filling the memory
constexpr std::string_view kExit = "/exit";

struct Flags {
  ModelOptions model;
  EngineOptions engine;
  SamplingOptions sampling;
  ChatFlags chat;
  std::optional<uint64_t> seed;
  int64_t n_predict = -1;
  bool verbose = false;
};

constexpr const char* kFooter = R"(
Each line that you type is one message. /exit or Ctrl-D ends the conversation, Ctrl-C stops an answer; what was said so far
stays in it. The whole conversation is read again for every answer, in the memory that the first line names. Answers go to
stdout, everything else to stderr; thinking is shown, dimmed, where stdout is a terminal.

Examples:
  kvase chat -m model.gguf
  kvase chat -m model.gguf -sys "Answer in one sentence." --think off
  kvase chat -m model.gguf --kv-budget 1024 --think-budget 4000 --temp 0.6
)";

void add_flags(CLI::App& app, Flags& flags) {
  add_chat_flags(app, flags.chat);
  add_predict_flag(app, flags.n_predict);
  add_model_flag(app, flags.model.path);
  add_engine_flags(app, flags.model, flags.engine);
  add_policy_flag(app, flags.engine.cache.policy);
  add_shape_flags(app, flags.engine.cache);
  add_storage_flags(app, flags.engine.cache);
  add_sampling_flags(app, flags.sampling, flags.seed);
  app.add_flag("--verbose", flags.verbose, "Say on stderr after each answer what it took")->group("Output");
  finish_help(app, kFooter);
}

// One line without its end, or nothing at the end of the input. The rest of a line that is too long is read
// over. Throws Error(invalid_argument) for such a line, and for one that is not UTF-8.
std::optional<std::string> read_line(std::istream& input) {
  std::string line;
  bool too_long = false;
  char byte = 0;
  while (input.get(byte) && byte != '\n') {
    too_long = line.size() >= kMaxLineBytes;
    if (!too_long) line += byte;
  }
  if (!input && line.empty()) return std::nullopt;
  if (too_long) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input: more than {} bytes, allowed: up to that", kMaxLineBytes));
  }
  if (const auto offset = find_invalid_utf8(line)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input: byte 0x{:02x} at offset {} is not UTF-8, allowed: UTF-8 text",
                            static_cast<unsigned char>(line[*offset]), *offset));
  }
  return line;
}

void print_statistics(const GenerateResult& result) {
  const CacheState& cache = result.cache;
  const double n_decoded = static_cast<double>(cache.n_seen) - static_cast<double>(result.n_prompt);
  fmt::print(stderr, "[seen {}, kept {}, evictions {}, thinking and answer {} tokens, {}]\n", cache.n_seen,
             cache.n_kept, cache.n_evictions, result.tokens.size(),
             human_rate(n_decoded, result.decode_seconds, "tokens"));
}

class Conversation {
 public:
  // Throws as set_chat_prompt() if the flags do not fit the model.
  Conversation(Engine& engine, const Flags& flags, const SamplingOptions& sampling)
      : engine_(&engine), flags_(&flags), messages_(first_messages(flags.chat)) {
    request_.sampling = sampling;
    request_.n_predict = flags.n_predict;
    std::vector<ChatMessage> trial = messages_;
    trial.push_back({.role = "user", .content = "?"});
    set_chat_prompt(engine.model(), trial, flags.chat, request_);
  }

  // Answers and remembers both. A message that cannot be answered is forgotten.
  void say(const std::string& text) {
    messages_.push_back({.role = "user", .content = text});
    try {
      const GenerateResult result = answer();
      if (result.finish_reason == FinishReason::cancelled && result.text.empty()) {
        messages_.pop_back();
      } else {
        messages_.push_back({.role = "assistant", .content = result.text});
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
      messages_.pop_back();
      print_error(error.what());
    }
  }

 private:
  GenerateResult answer() {
    set_chat_prompt(engine_->model(), messages_, flags_->chat, request_);
    const Interrupt interrupt;
    AnswerView view;
    const GenerateResult result =
        generate(*engine_, request_,
                 {.on_text = [&view](std::string_view text) { view.show_text(text); },
                  .on_thinking = [&view](std::string_view text) { view.show_thinking(text); },
                  .should_stop = [] { return Interrupt::requested(); },
                  .on_prefill = [&view](size_t done, size_t total) { view.show_progress(done, total); }});
    view.finish();
    if (result.finish_reason == FinishReason::length) warn_about_length(result);
    if (flags_->verbose) print_statistics(result);
    return result;
  }

  void warn_about_length(const GenerateResult& result) const {
    const std::string reason = flags_->n_predict >= 0
                                   ? fmt::format("-n {}", flags_->n_predict)
                                   : fmt::format("the model was trained for {} tokens; -n N goes beyond",
                                                 engine_->model().info().n_ctx_train);
    print_warning(fmt::format("answer cut off after {} tokens: {}", result.tokens.size(), reason));
  }

  Engine* engine_;
  const Flags* flags_;
  std::vector<ChatMessage> messages_;
  GenerateRequest request_;
};

void talk(Conversation& conversation) {
  const bool asks = isatty(STDIN_FILENO) == 1;
  while (true) {
    if (asks) fmt::print(stderr, "\n> ");
    std::optional<std::string> line;
    try {
      line = read_line(std::cin);
    } catch (const Error& error) {
      print_error(error.what());
      continue;
    }
    if (!line || *line == kExit) break;
    if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
    conversation.say(*line);
    finish_stdout();
  }
  if (asks) fmt::print(stderr, "\n");
}

}  // namespace

int chat_command(const Arguments& arguments) {
  Flags flags;
  CLI::App app("Talk with a model, in an amount of KV memory that is fixed before the first word.",
               "kvase chat");
  add_flags(app, flags);
  if (!parse(app, arguments)) return kExitOk;

  require_model(flags.model.path);
  check_predict(flags.n_predict);
  check_sampling(flags.sampling);
  // Refuses a cache that cannot be before it reads the weights.
  plan_memory(read_model_info(flags.model.path), flags.engine.cache);

  const Model model = Model::load(flags.model);
  Engine engine(model, flags.engine);
  SamplingOptions sampling = flags.sampling;
  sampling.seed = flags.seed ? *flags.seed : random_seed();
  Conversation conversation(engine, flags, sampling);

  for (const std::string& warning : model.info().warnings) print_warning(warning);
  warn_about_options(flags.engine.cache, engine.plan());
  print_memory_line(engine.plan());
  fmt::print(stderr, "{} or Ctrl-D ends, Ctrl-C stops an answer; seed {}\n", kExit, sampling.seed);
  talk(conversation);
  return kExitOk;
}

}  // namespace kvase::cli

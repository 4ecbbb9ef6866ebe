// SPDX-License-Identifier: MIT
// One engine per policy, as many answers side by side as -np says, one row for each.
#include "cli/eval_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/arguments.h"
#include "cli/chat_prompt.h"
#include "cli/eval.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/messages.h"
#include "cli/progress.h"

namespace kvase::cli {
namespace {

constexpr uint32_t kMostSamples = 10'000;
constexpr size_t kWarnFrom = 10;  // answers, all of which were read and none of which was right

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

GenerateRequest make_request(const Model& model, const AnswerFlags& flags, const AnswerCase& one,
                             uint32_t sample) {
  GenerateRequest request;
  if (flags.is_raw) {
    request.prompt = model.tokenize(one.raw_prompt, /*add_special=*/true, /*parse_special=*/true);
  } else {
    std::vector<ChatMessage> messages = first_messages(flags.chat);
    messages.push_back({.role = "user", .content = one.user_message});
    set_chat_prompt(model, messages, flags.chat, request);
  }
  request.sampling = flags.sampling;
  request.sampling.seed = flags.seed.value_or(0);
  request.sampling.sample = sample;
  request.n_predict = flags.n_predict;
  request.stop = flags.stop;
  return request;
}

CacheOptions cache_of(const AnswerFlags& flags, const std::string& policy) {
  CacheOptions cache = flags.engine.cache;
  cache.policy = policy;
  return cache;
}

// What one policy does to its items. Requests are made before anything runs, so that a bad one is found at
// once.
class PolicyRun {
 public:
  PolicyRun(const AnswerFlags& flags, const Model& model, const std::string& policy,
            const std::vector<AnswerCase>& cases, std::vector<eval::AnswerItem> items)
      : policy_(policy), cases_(cases), items_(std::move(items)) {
    for (const eval::AnswerItem& item : items_)
      requests_.push_back(make_request(model, flags, cases[item.number], item.sample));
    options_ = flags.engine;
    options_.cache = cache_of(flags, policy);
    options_.n_sequences = static_cast<uint32_t>(std::min<size_t>(flags.n_parallel, items_.size()));
    if (!parse_policy(policy).policy->evicts()) give_room(flags.n_predict);
    plan_ = plan_memory(model.info(), options_.cache);
  }

  // False if Ctrl-C ended it.
  template <typename OnAnswer>
  bool answer(const Model& model, const OnAnswer& on_answer) {
    Engine engine(model, options_);
    Batch batch(engine);
    for (size_t number = 0; number < items_.size(); ++number) {
      batch.submit(requests_[number], {}, [this, number, &on_answer](const GenerateResult& result) {
        const eval::AnswerItem& item = items_[number];
        on_answer(item, eval::answer_row(policy_, plan_, cases_[item.number].id, item.sample, result),
                  result);
      });
    }
    while (batch.step()) {
      if (Interrupt::requested()) return false;
    }
    return true;
  }

 private:
  // The full cache need not hold more than the longest of these conversations.
  void give_room(int64_t n_predict) {
    if (options_.cache.n_ctx || n_predict < 0) return;
    size_t longest = 0;
    for (const GenerateRequest& request : requests_) longest = std::max(longest, request.prompt.size());
    options_.cache.n_ctx = static_cast<uint32_t>(longest + static_cast<size_t>(n_predict) + 1);
  }

  std::string policy_;
  const std::vector<AnswerCase>& cases_;
  std::vector<eval::AnswerItem> items_;
  std::vector<GenerateRequest> requests_;
  EngineOptions options_;
  MemoryPlan plan_;  // of one sequence
};

// False if Ctrl-C ended it.
bool measure(const AnswerFlags& flags, const Model& model, const std::vector<AnswerCase>& cases,
             const std::vector<eval::AnswerItem>& items, const ScoreAnswer& score, eval::RowStore& store) {
  const Interrupt interrupt;
  ProgressLine progress;
  size_t n_done = 0;
  for (size_t number = 0; number < flags.policies.size(); ++number) {
    std::vector<eval::AnswerItem> mine;
    std::ranges::copy_if(items, std::back_inserter(mine),
                         [&](const eval::AnswerItem& item) { return item.policy == number; });
    if (mine.empty()) continue;
    const std::string& policy = flags.policies[number];
    const auto show = [&] {
      progress.update(fmt::format("{} of {} answers, now {}", n_done, items.size(), one_line(policy)),
                      static_cast<double>(n_done) / static_cast<double>(items.size()));
    };
    show();
    PolicyRun run(flags, model, policy, cases, std::move(mine));
    const bool all =
        run.answer(model, [&](const eval::AnswerItem& item, eval::Json row, const GenerateResult& result) {
          score(item.number, result, row);
          store.append(item.key, row);
          ++n_done;
          show();
        });
    if (!all) return false;
  }
  return true;
}

// 0.95, not the digits of the nearest float.
eval::Json as_written(float number) { return eval::Json::parse(fmt::format("{}", number)); }

// An answer in all of them and none right: rather the file's answers are read wrongly than the model is.
void warn_if_none_is_right(const eval::JsonLines& lines) {
  for (const eval::Json& summary : eval::answer_summaries(lines)) {
    if (summary.value("n_unanswered", size_t{1}) > 0 || summary.at("score") != 0 ||
        summary.at("n") < kWarnFrom)
      continue;
    print_warning(
        fmt::format("{}: an answer in each of {} texts and none of them right; look at \"answer\" and "
                    "\"gold\" in the rows",
                    summary.at("policy").get<std::string>(), summary.at("n").get<size_t>()));
  }
}

}  // namespace

void add_answer_flags(CLI::App& app, AnswerFlags& flags) {
  add_number<int64_t>(
      app, "-n,--predict", flags.n_predict,
      fmt::format("Most tokens to generate, thinking included; -1: until the model ends or its trained "
                  "context is reached (default {})",
                  flags.n_predict))
      ->group("Measurement");
  add_number<uint32_t>(app, "--parallel", flags.n_parallel,
                       "Also -np. Answers at once, 1 to 256 (default 1); more: less time, more memory")
      ->group("Measurement");
  add_number<uint32_t>(app, "--samples", flags.n_samples, "Answers to each case (default 1)")
      ->group("Measurement");
  app.add_option("--stop", flags.stop, "End the answer before this text; may be given several times")
      ->type_name("TEXT")
      ->group("Measurement");
  app.add_flag("--raw", flags.is_raw, "No chat template: the model goes on with the text")->group("Chat");
  add_chat_flags(app, flags.chat);
  add_model_flag(app, flags.model.path);
  add_engine_flags(app, flags.model, flags.engine);
  add_policy_list_flag(app, flags.policies);
  app.get_option("--kv")->description(
      "Policy to measure; give it again for more (default: full and vase-attnv)");
  add_shape_flags(app, flags.engine.cache);
  add_storage_flags(app, flags.engine.cache);
  add_sampling_flags(app, flags.sampling, flags.seed);
  app.get_option("--seed")->description("Of the text and of the policy's choices: 0 to 2^64 - 1 (default 0)");
  app.add_option("--out", flags.out, "Folder for rows and report; a stopped run goes on there")
      ->type_name("DIR")
      ->group("Output");
  app.add_option("--reference", flags.reference,
                 "Policy that others are compared with (default: full if it is measured, else the best)")
      ->type_name("POLICY")
      ->group("Output");
  add_shard_flag(app, flags.shard);
  add_json_flag(app, flags.json, "One JSON object per policy and budget on stdout instead of the tables");
}

void check_answer_flags(AnswerFlags& flags, const ModelInfo& info) {
  check_predict(flags.n_predict);
  check_sampling(flags.sampling);
  if (flags.n_samples < 1 || flags.n_samples > kMostSamples)
    refuse(fmt::format("--samples {}, allowed: 1..{}", flags.n_samples, kMostSamples));
  if (flags.is_raw && flags.chat.given())
    refuse(
        "--raw and --system-prompt, --chat-template, --think or --think-budget given, allowed: one of them");
  if (flags.policies.empty()) flags.policies = {"full", "vase-attnv"};
  if (flags.reference && std::ranges::find(flags.policies, *flags.reference) == flags.policies.end())
    refuse(fmt::format("--reference {}, allowed: a policy that is measured", *flags.reference));
  for (const std::string& policy : flags.policies)
    plan_memory(info, cache_of(flags, policy), flags.n_parallel);
}

eval::Json answer_definition(const std::string& kind, const AnswerFlags& flags, const ModelInfo& info) {
  const CacheOptions& cache = flags.engine.cache;
  const SamplingOptions& sampling = flags.sampling;
  const auto or_null = [](const auto& value) { return value ? eval::Json(*value) : eval::Json(); };
  return {{"kind", kind},
          {"model", eval::model_definition(info)},
          {"chat",
           {{"raw", flags.is_raw},
            {"system", or_null(flags.chat.system)},
            {"template", flags.chat.options.template_name},
            {"think", or_null(flags.chat.options.thinking)},
            {"think_budget", or_null(flags.chat.thinking_budget)}}},
          {"n_predict", flags.n_predict},
          {"stop", flags.stop},
          {"sampling",
           {{"temp", as_written(sampling.temperature)},
            {"top_k", sampling.top_k},
            {"top_p", as_written(sampling.top_p)},
            {"min_p", as_written(sampling.min_p)},
            {"seed", flags.seed.value_or(0)}}},
          {"cache",
           {{"interval", or_null(cache.interval)},
            {"window", or_null(cache.window)},
            {"sinks", or_null(cache.n_sink)},
            {"type_k", row_type_name(cache.type_k)},
            {"type_v", row_type_name(cache.type_v)},
            {"prefill", cache.prefill == Prefill::whole ? "whole" : "bounded"}}}};
}

int answer_cases(const AnswerFlags& flags, const Model& model, const eval::Json& definition,
                 const std::vector<AnswerCase>& cases, const ScoreAnswer& score, const std::string& command) {
  std::vector<std::string> ids;
  for (const AnswerCase& one : cases) ids.push_back(one.id);
  std::vector<MemoryPlan> plans;
  for (const std::string& policy : flags.policies)
    plans.push_back(plan_memory(model.info(), cache_of(flags, policy)));
  const std::vector<eval::AnswerItem> items = eval::answer_items(flags.policies, plans, ids, flags.n_samples);

  eval::RowStore store(flags.out, definition);
  for (const std::string& warning : model.info().warnings) print_warning(warning);
  const bool all = measure(flags, model, cases, eval::remaining(items, flags.shard, store), score, store);

  const eval::JsonLines lines = store.lines();
  if (lines.rows.empty()) return all ? kExitOk : kExitInterrupted;
  const std::string reference = flags.reference.value_or(eval::default_answer_reference(lines));
  if (flags.out) report::write_report(*flags.out, eval::answer_report(lines, reference, command));
  warn_if_none_is_right(lines);
  if (flags.json) {
    for (const eval::Json& summary : eval::answer_summaries(lines)) print_json(summary);
  } else {
    for (const report::Table& table : eval::answer_tables(lines)) {
      print_table(table);
      fmt::print("\n");
    }
    if (const auto table = eval::answer_difference_table(lines, reference)) {
      fmt::print("Differences from {}\n\n", one_line(reference));
      print_table(*table);
    }
  }
  return all ? kExitOk : kExitInterrupted;
}

}  // namespace kvase::cli

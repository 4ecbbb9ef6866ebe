// SPDX-License-Identifier: MIT
// kvase eval loops: long answers, and how many fall into repetition.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/eval.h"
#include "cli/eval_answers.h"
#include "cli/jobs.h"
#include "cli/prompt.h"
#include "eval/loops.h"

namespace kvase::cli {
namespace {

struct LoopsFlags {
  AnswerFlags answers;
  std::optional<std::string> file;
};

constexpr const char* kFooter = R"(
An answer has fallen into repetition if one block of at most 256 tokens stands in it four times or more in a row, over 64 tokens
or more. The score is the share of the answers that have not. FILE holds prompts as `kvase run --prompts` reads them; without
it, eight requests for long texts are used.

Examples:
  kvase eval loops -m model.gguf --kv full --kv streaming-llm --kv vase-attnv --kv-budget 256 -n 4096 -np 8
  kvase eval loops -m model.gguf -f prompts.jsonl --samples 4 --temp 0.6 --out loops
)";

void add_flags(CLI::App& app, LoopsFlags& flags) {
  app.add_option("-f,--file", flags.file, "Prompts, JSON lines (default: eight requests for long texts)")
      ->type_name("FILE")
      ->group("Measurement");
  add_answer_flags(app, flags.answers);
  finish_help(app, kFooter);
}

std::vector<AnswerCase> read_cases(const std::optional<std::string>& file) {
  std::vector<AnswerCase> cases;
  if (file) {
    for (const Job& job : parse_jobs(read_text(*file, "-f"), "-f " + *file))
      cases.push_back({.id = job.id, .raw_prompt = job.prompt, .user_message = job.prompt});
    return cases;
  }
  for (const eval::LongPrompt& prompt : eval::long_prompts())
    cases.push_back({.id = prompt.id, .raw_prompt = prompt.text, .user_message = prompt.text});
  return cases;
}

void score_answer(const GenerateResult& result, eval::Json& row) {
  const auto loop = eval::find_loop(result.tokens);
  row["score"] = loop ? 0.0 : 1.0;
  row["loop_begin"] = loop ? eval::Json(loop->begin) : eval::Json();
  row["loop_period"] = loop ? eval::Json(loop->period) : eval::Json();
}

}  // namespace

int eval_loops_command(const Arguments& arguments) {
  LoopsFlags flags;
  flags.answers.n_predict = 2048;
  CLI::App app("Measure how many long answers fall into repetition under each policy.", "kvase eval loops");
  add_flags(app, flags);
  if (!parse(app, arguments)) return kExitOk;

  require_model(flags.answers.model.path);
  const std::vector<AnswerCase> cases = read_cases(flags.file);
  const ModelInfo info = read_model_info(flags.answers.model.path);
  check_answer_flags(flags.answers, info);

  eval::Json definition = answer_definition("loops", flags.answers, info);
  std::string prompts;
  for (const AnswerCase& one : cases) prompts += one.id + "\n" + one.raw_prompt + "\n";
  definition["prompts"] = eval::fingerprint(prompts);
  const Model model = Model::load(flags.answers.model);
  return answer_cases(
      flags.answers, model, definition, cases,
      [](size_t, const GenerateResult& result, eval::Json& row) { score_answer(result, row); },
      command_line("kvase eval loops", arguments));
}

}  // namespace kvase::cli

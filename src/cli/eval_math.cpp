// SPDX-License-Identifier: MIT
// kvase eval math: questions with one right answer each.
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/eval.h"
#include "cli/eval_answers.h"
#include "cli/prompt.h"
#include "eval/grader.h"
#include "eval/questions.h"

namespace kvase::cli {
namespace {

constexpr const char* kQuestionMark = "{question}";

struct MathFlags {
  AnswerFlags answers;
  std::string file;
  std::string prompt = "{question}\nReason step by step, and put the final answer within \\boxed{}.";
  uint32_t n_questions = 0;
};

constexpr const char* kFooter = R"(
FILE holds one question per line as JSON: "question" or "problem", and "answer" (of a text with "####" what follows it). An
answer is right if its value is: docs/evaluation.md says where it is looked for and how it is compared.

Every policy answers the same questions with the same seeds; differences are over pairs. With --out DIR each answer is kept in
DIR/rows.jsonl for reading, and the same command goes on where a stopped one ended; more questions, samples, policies and
budgets may be added to it.

Examples:
  kvase eval math -m model.gguf -f gsm8k.jsonl --n-questions 100 --kv full --kv snapkv --kv vase-attnv --kv-budget 512 -np 8
  kvase eval math -m model.gguf -f aime.jsonl --samples 16 --temp 0.6 --think on -n 32768 --kv-budget 4096 --out aime
  kvase eval math -m model.gguf -f gsm8k.jsonl --out part1 --shard 1/4
)";

void add_flags(CLI::App& app, MathFlags& flags) {
  app.add_option("-f,--file", flags.file, "Questions and answers, JSON lines")
      ->type_name("FILE")
      ->group("Measurement");
  add_number<uint32_t>(app, "--n-questions", flags.n_questions, "Only the first N (default: all)")
      ->group("Measurement");
  app.add_option(
         "--prompt", flags.prompt,
         fmt::format("What the model is told, with {} in the question's place (default: the question, "
                     "then a request to reason and to box the answer)",
                     kQuestionMark))
      ->type_name("TEXT")
      ->group("Measurement");
  add_answer_flags(app, flags.answers);
  finish_help(app, kFooter);
}

std::vector<AnswerCase> make_cases(const std::vector<eval::Question>& questions, const std::string& prompt) {
  const size_t mark = prompt.find(kQuestionMark);
  if (mark == std::string::npos) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--prompt without {}, allowed: once, where the question goes", kQuestionMark));
  }
  const std::string before = prompt.substr(0, mark);
  const std::string behind = prompt.substr(mark + std::string_view(kQuestionMark).size());
  std::vector<AnswerCase> cases;
  for (const eval::Question& question : questions) {
    const std::string text = fmt::format("{}{}{}", before, question.text, behind);
    cases.push_back({.id = question.id, .raw_prompt = text, .user_message = text});
  }
  return cases;
}

void score_answer(const eval::Question& question, const GenerateResult& result, eval::Json& row) {
  const bool cut_off = result.finish_reason == FinishReason::length;
  const eval::Grade grade = eval::grade(result.text, cut_off, question.gold);
  row["score"] = grade.correct ? 1.0 : 0.0;
  row["answer"] = grade.answer.text;
  row["answer_source"] = eval::answer_source_name(grade.answer.source);
  row["gold"] = question.gold;
}

}  // namespace

int eval_math_command(const Arguments& arguments) {
  MathFlags flags;
  flags.answers.n_predict = 2048;
  CLI::App app("Measure how many questions a model answers rightly under each policy.", "kvase eval math");
  add_flags(app, flags);
  if (!parse(app, arguments)) return kExitOk;

  require_model(flags.answers.model.path);
  if (flags.file.empty())
    throw Error(ErrorCode::invalid_argument, "no questions given, allowed: -f FILE with JSON lines");
  const std::string text = read_text(flags.file, "-f");
  std::vector<eval::Question> questions = eval::parse_questions(text, "-f " + flags.file);
  if (flags.n_questions > questions.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--n-questions {}, allowed: up to the {} of the file", flags.n_questions,
                            questions.size()));
  }
  if (flags.n_questions > 0) questions.resize(flags.n_questions);
  const std::vector<AnswerCase> cases = make_cases(questions, flags.prompt);
  const ModelInfo info = read_model_info(flags.answers.model.path);
  check_answer_flags(flags.answers, info);

  eval::Json definition = answer_definition("math", flags.answers, info);
  definition["questions"] = {{"file", std::filesystem::path(flags.file).filename().string()},
                             {"fingerprint", eval::fingerprint(text)}};
  definition["prompt"] = flags.prompt;
  const Model model = Model::load(flags.answers.model);
  return answer_cases(
      flags.answers, model, definition, cases,
      [&questions](size_t number, const GenerateResult& result, eval::Json& row) {
        score_answer(questions[number], result, row);
      },
      command_line("kvase eval math", arguments));
}

}  // namespace kvase::cli

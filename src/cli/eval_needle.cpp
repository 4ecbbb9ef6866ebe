// SPDX-License-Identifier: MIT
// kvase eval needle: sentences hidden in long texts, at every length and depth.
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/eval.h"
#include "cli/eval_answers.h"
#include "cli/prompt.h"
#include "eval/needle.h"

namespace kvase::cli {
namespace {

constexpr uint32_t kMostNeedles = 24;  // places that have names
constexpr uint32_t kMostTokens = 1 << 20;
constexpr uint32_t kMadeUpSentences = 4000;
constexpr uint64_t kMadeUpSeed = 1;

struct NeedleFlags {
  AnswerFlags answers;
  std::optional<std::string> file;
  std::vector<uint32_t> lengths = {512, 1024, 2048};
  std::vector<double> depths = {0, 0.25, 0.5, 0.75, 1};
  uint32_t n_needles = 4;
};

// One needle in one text.
struct Hidden {
  eval::Needle needle;
  uint32_t length = 0;
  double depth = 0;
  uint32_t number = 0;
};

constexpr const char* kFooter = R"(
Every text holds one sentence with a five-digit number, and a question for it at its end. At every length and depth several
needles are hidden, each in another part of the filler. The score is the share of answers that hold the number. Without -f the
filler is made-up sentences, which are easier to tell from a needle than a book's.

Examples:
  kvase eval needle -m model.gguf --kv full --kv snapkv --kv vase-attnv --kv-budget 256 -np 8
  kvase eval needle -m model.gguf -f book.txt --lengths 1000,4000 --depths 0.1,0.5,0.9 --needles 10 --out needles
)";

template <typename Number>
void add_list(CLI::App& app, const std::string& name, std::vector<Number>& target, const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [&target, name](const std::string& text) {
           target.clear();
           for (const std::string& part : split_commas(text))
             target.push_back(parse_number<Number>(name, part));
         },
         help)
      ->type_name("N,...")
      ->group("Measurement");
}

void add_flags(CLI::App& app, NeedleFlags& flags) {
  app.add_option("-f,--file", flags.file, "Text to hide needles in (default: made-up sentences)")
      ->type_name("FILE")
      ->group("Measurement");
  add_list(app, "--lengths", flags.lengths, "Tokens of the text around the needle (default 512,1024,2048)");
  add_list(app, "--depths", flags.depths,
           "Share of the text in front of the needle, 0 to 1 (default 0,0.25,0.5,0.75,1)");
  add_number<uint32_t>(
      app, "--needles", flags.n_needles,
      fmt::format("At every length and depth, 1 to {} (default {})", kMostNeedles, flags.n_needles))
      ->group("Measurement");
  add_answer_flags(app, flags.answers);
  finish_help(app, kFooter);
}

void check(const NeedleFlags& flags) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (flags.n_needles < 1 || flags.n_needles > kMostNeedles)
    refuse(fmt::format("--needles {}, allowed: 1..{}", flags.n_needles, kMostNeedles));
  for (const uint32_t length : flags.lengths) {
    if (length < 1 || length > kMostTokens)
      refuse(fmt::format("--lengths {}, allowed: 1..{}", length, kMostTokens));
  }
  for (const double depth : flags.depths) {
    if (!(depth >= 0 && depth <= 1)) refuse(fmt::format("--depths {}, allowed: 0 to 1", depth));
  }
}

std::vector<Hidden> all_hidden(const NeedleFlags& flags) {
  std::vector<Hidden> all;
  for (const uint32_t length : flags.lengths) {
    for (const double depth : flags.depths) {
      for (uint32_t number = 0; number < flags.n_needles; ++number)
        all.push_back({eval::make_needle(number), length, depth, number});
    }
  }
  return all;
}

AnswerCase make_case(const Hidden& hidden, const eval::Haystack& haystack, uint32_t n_needles) {
  const size_t start = haystack.n_sentences() * hidden.number / n_needles;
  const std::string text = haystack.with_needle(hidden.needle, hidden.length, hidden.depth, start);
  const std::string question = hidden.needle.question();
  return {.id = fmt::format("{} tokens, depth {}, needle {}", hidden.length, hidden.depth, hidden.number),
          .raw_prompt =
              fmt::format("{}\n\nQuestion: {}\nAnswer: {}", text, question, hidden.needle.answer_begins()),
          .user_message = fmt::format("{}\n\n{} Answer with the number.", text, question)};
}

}  // namespace

int eval_needle_command(const Arguments& arguments) {
  NeedleFlags flags;
  flags.answers.n_predict = 48;
  CLI::App app("Measure how many sentences hidden in long texts a model finds under each policy.",
               "kvase eval needle");
  add_flags(app, flags);
  if (!parse(app, arguments)) return kExitOk;

  require_model(flags.answers.model.path);
  check(flags);
  const std::string filler =
      flags.file ? read_text(*flags.file, "-f") : eval::made_up_text(kMadeUpSentences, kMadeUpSeed);
  const ModelInfo info = read_model_info(flags.answers.model.path);
  check_answer_flags(flags.answers, info);

  eval::Json definition = answer_definition("needle", flags.answers, info);
  definition["filler"] = {
      {"file",
       flags.file ? eval::Json(std::filesystem::path(*flags.file).filename().string()) : eval::Json()},
      {"fingerprint", eval::fingerprint(filler)}};
  definition["n_needles"] = flags.n_needles;  // where in the filler each text begins
  const Model model = Model::load(flags.answers.model);
  const eval::Haystack haystack(filler, [&model](std::string_view text) {
    return model.tokenize(text, /*add_special=*/false, /*parse_special=*/false).size();
  });
  const std::vector<Hidden> all = all_hidden(flags);
  std::vector<AnswerCase> cases;
  for (const Hidden& hidden : all) cases.push_back(make_case(hidden, haystack, flags.n_needles));
  return answer_cases(
      flags.answers, model, definition, cases,
      [&all](size_t number, const GenerateResult& result, eval::Json& row) {
        const Hidden& hidden = all[number];
        row["score"] = eval::has_needle(result.text, hidden.needle) ? 1.0 : 0.0;
        row["length"] = hidden.length;
        row["depth"] = hidden.depth;
        row["needle"] = hidden.needle.number;
      },
      command_line("kvase eval needle", arguments));
}

}  // namespace kvase::cli

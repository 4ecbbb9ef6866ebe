// SPDX-License-Identifier: MIT
// kvase calibrate: fits a model's value maps on a text, writes them, and reports how well they predict.
#include "kvase/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/messages.h"
#include "cli/progress.h"
#include "cli/prompt.h"

namespace kvase::cli {
namespace {

struct CalibrateFlags {
  std::string model;
  std::string text;
  std::string output;
  CalibrateOptions options;
  bool json = false;
};

constexpr const char* kFooter = R"(
The text is cut into sequences of -c tokens, shorter ones where there would be fewer than 16; every 16th is held out. From the
others, one linear map per layer and KV head is fitted from keys (before RoPE) to values, and written to a GGUF file that only
this model accepts. 100 tokens for each channel of a head are enough for the fit; use text like what the model will write.

R2: share of the values' variance that the maps predict on held-out text, all heads together; WORST: of the worst head; TRAIN:
on the fitted text; ZERO-BASED: against zero instead of the mean. ALL HEADS: R2 of one map from the keys of all heads to their
values; it fits only policies that keep the same tokens in every head, and is not written.
EVICT, MEAN, MAP: error of attention's output on held-out queries relative to full attention, with a quarter of the tokens kept
or as many bytes as keys without values. MODE: which of the three the layer will use with the `vector` modifier; it is stored in
the file (off, zero, linear).

Examples:
  kvase calibrate -m model.gguf -f book.txt -o model.kv-ols.gguf
  kvase calibrate -m model.gguf -f traces.txt -o model.kv-ols.gguf --tokens 200000 --json
)";

void add_flags(CLI::App& app, CalibrateFlags& flags) {
  add_model_flag(app, flags.model);
  add_threads_flag(app, flags.options.n_threads);
  app.add_option("-f,--file", flags.text, "Text to fit on, UTF-8")->type_name("FILE")->group("Fit");
  app.add_option("-o,--output", flags.output, "GGUF file to write the maps to")
      ->type_name("FILE")
      ->group("Fit");
  add_number<uint32_t>(app, "-c,--ctx-size", flags.options.n_ctx,
                       "Most tokens of a sequence, 512 to the trained context (default 4096)", "TOKENS")
      ->group("Fit");
  add_number<uint64_t>(app, "--tokens", flags.options.n_tokens,
                       "Most tokens of the text to use (default: all)", "TOKENS")
      ->group("Fit");
  add_number<double>(app, "--ridge", flags.options.ridge,
                     "Penalty on large weights, as a share of a key channel's variance (default 1e-4)",
                     "SHARE")
      ->group("Fit");
  add_row_type_flags(app, flags.options.type_k, flags.options.type_v);
  add_json_flag(app, flags.json, "One JSON object on stdout instead of the report");
  finish_help(app, kFooter);
}

double mean_of(const Calibration& calibration, double (*value)(const LayerCalibration&)) {
  double sum = 0;
  for (const LayerCalibration& layer : calibration.layers) sum += value(layer);
  return sum / static_cast<double>(calibration.layers.size());
}

double worst_head(const LayerCalibration& layer) {
  const auto held_out = [](const ScopeFit& head) { return head.r2.held_out; };
  return std::ranges::min(layer.heads, {}, held_out).r2.held_out;
}

// The columns of the report that are numbers of a layer.
struct Column {
  const char* name;
  double (*value)(const LayerCalibration&);
};
constexpr Column kColumns[] = {
    {"R2", [](const LayerCalibration& layer) { return layer.r2.held_out; }},
    {"WORST", worst_head},
    {"TRAIN", [](const LayerCalibration& layer) { return layer.r2.train; }},
    {"ZERO-BASED", [](const LayerCalibration& layer) { return layer.r2.uncentred; }},
    {"ALL HEADS", [](const LayerCalibration& layer) { return layer.layer.r2.held_out; }},
    {"EVICT", [](const LayerCalibration& layer) { return layer.output_error.evict; }},
    {"MEAN", [](const LayerCalibration& layer) { return layer.output_error.zero; }},
    {"MAP", [](const LayerCalibration& layer) { return layer.output_error.linear; }},
};

void print_report(const CalibrateFlags& flags, const Calibration& calibration, double seconds) {
  fmt::print("{} tokens in {} sequences of {}, {} held out; {}\n\n", with_commas(calibration.n_tokens),
             calibration.n_sequences, calibration.n_ctx, calibration.n_held_out, human_seconds(seconds));
  std::vector<std::string> head = {"LAYER"};
  std::vector<std::string> means = {"mean"};
  std::vector<Align> aligns = {Align::right};
  for (const Column& column : kColumns) {
    head.emplace_back(column.name);
    means.push_back(fmt::format("{:.3f}", mean_of(calibration, column.value)));
    aligns.push_back(Align::right);
  }
  head.emplace_back("MODE");
  means.emplace_back("");
  aligns.push_back(Align::left);
  std::vector<std::vector<std::string>> rows = {head};
  for (size_t index = 0; index < calibration.layers.size(); ++index) {
    const LayerCalibration& layer = calibration.layers[index];
    std::vector<std::string> row = {fmt::format("{}", index)};
    for (const Column& column : kColumns) row.push_back(fmt::format("{:.3f}", column.value(layer)));
    row.push_back(layer.mode);
    rows.push_back(std::move(row));
  }
  rows.push_back(means);
  fmt::print("{}\n{}: {}\n", table(aligns, rows), one_line(flags.output),
             human_bytes(std::filesystem::file_size(flags.output)));
}

Json json_of(const R2& r2) {
  return {{"train", r2.train}, {"held_out", r2.held_out}, {"uncentred", r2.uncentred}};
}

Json json_of(const ScopeFit& fit) {
  Json json = json_of(fit.r2);
  json["lambda"] = fit.lambda;
  return json;
}

Json json_of(const LayerCalibration& layer) {
  Json json = {{"mode", layer.mode}, {"r2", json_of(layer.r2)}, {"heads", Json::array()}};
  for (const ScopeFit& head : layer.heads) json["heads"].push_back(json_of(head));
  json["all_heads"] = json_of(layer.layer);
  json["output_error"] = {{"evict", layer.output_error.evict},
                          {"zero", layer.output_error.zero},
                          {"linear", layer.output_error.linear}};
  return json;
}

void print_calibration_json(const CalibrateFlags& flags, const Calibration& calibration, double seconds) {
  Json per_layer = Json::array(), layers = Json::array();
  for (const LayerCalibration& layer : calibration.layers) {
    per_layer.push_back(layer.r2.held_out);
    layers.push_back(json_of(layer));
  }
  const auto held_out = [](const LayerCalibration& layer) { return layer.r2.held_out; };
  print_json({{"file", flags.output},
              {"n_tokens", calibration.n_tokens},
              {"r2",
               {{"mean", mean_of(calibration, held_out)},
                {"min", held_out(std::ranges::min(calibration.layers, {}, held_out))},
                {"per_layer", per_layer}}},
              {"n_ctx", calibration.n_ctx},
              {"n_sequences", calibration.n_sequences},
              {"n_held_out", calibration.n_held_out},
              {"seconds", seconds},
              {"layers", layers}});
}

}  // namespace

int calibrate_command(const Arguments& arguments) {
  CalibrateFlags flags;
  CLI::App app("Fit the maps that rebuild values from keys, on a text, and report how well they predict.",
               "kvase calibrate");
  add_flags(app, flags);
  if (!parse(app, arguments)) return kExitOk;

  require_model(flags.model);
  if (flags.text.empty()) throw Error(ErrorCode::invalid_argument, "no text given, allowed: -f FILE");
  if (flags.output.empty())
    throw Error(ErrorCode::invalid_argument, "no file for the maps given, allowed: -o FILE");
  flags.options.text_name = std::filesystem::path(flags.text).filename().string();
  const std::string text = read_text(flags.text, "-f");
  const Model model = Model::load({.path = flags.model});
  const Interrupt interrupt;
  const auto start = std::chrono::steady_clock::now();
  Calibration calibration;
  {
    ProgressLine progress;
    const auto show = [&](uint64_t done, uint64_t total) {
      progress.update(fmt::format("{} of {} tokens", with_commas(done), with_commas(total)),
                      static_cast<double>(done) / static_cast<double>(total));
    };
    calibration = calibrate(model, text, flags.output, flags.options,
                            {.on_progress = show, .should_stop = &Interrupt::requested});
  }
  if (Interrupt::requested()) return kExitInterrupted;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const std::string& warning : calibration.warnings) print_warning(warning);
  if (flags.json) {
    print_calibration_json(flags, calibration, seconds);
  } else {
    print_report(flags, calibration, seconds);
  }
  return kExitOk;
}

}  // namespace kvase::cli

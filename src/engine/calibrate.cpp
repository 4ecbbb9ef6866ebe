// SPDX-License-Identifier: MIT
// Fitted sequences into moments, moments into maps, held-out sequences into R2 and the gate's errors.
#include "kvase/calibrate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/cores.h"
#include "base/errors.h"
#include "engine/tapped_run.h"
#include "model/map_identity.h"
#include "policy/tier.h"
#include "stats/rows.h"
#include "value_map/gate.h"
#include "value_map/solve.h"

namespace kvase {
namespace {

constexpr uint32_t kShortestSequence = 512;  // tokens; a quarter of it must hold the gate's window and sinks
constexpr uint32_t kDefaultSequence = 4096;
constexpr uint32_t kHoldOutEvery = 16;  // sequences
constexpr uint32_t kGateWindow = 64;    // queries
constexpr uint32_t kGateQueries = TappedRun::kStep - kGateWindow;
constexpr uint32_t kGateSequences = 4;     // of those held out: 256 queries per head
constexpr uint32_t kRowsPerChannel = 100;  // fitted rows for each channel of a key that a fit should have

struct Sequences {
  uint32_t length = 0;  // tokens
  std::vector<std::vector<Token>> fitted, held_out;
  uint64_t n_tokens() const { return (fitted.size() + held_out.size()) * uint64_t{length}; }
};

// With every default filled in.
CalibrateOptions complete(CalibrateOptions options, const ModelInfo& model) {
  if (options.n_threads == 0) options.n_threads = usable_cores();
  if (options.n_threads > 512) invalid("-t {}, allowed: 1..512", options.n_threads);
  if (model.n_ctx_train < kShortestSequence) {
    invalid("calibrate: found a model trained on {} tokens, allowed: {} or more", model.n_ctx_train,
            kShortestSequence);
  }
  const uint32_t n_ctx = options.n_ctx.value_or(std::min(kDefaultSequence, model.n_ctx_train));
  if (n_ctx < kShortestSequence || n_ctx > model.n_ctx_train)
    invalid("-c {}, allowed: {}..{}", n_ctx, kShortestSequence, model.n_ctx_train);
  options.n_ctx = n_ctx;
  // Written so that NaN fails too.
  if (!(options.ridge >= 0 && std::isfinite(options.ridge)))
    invalid("--ridge {}, allowed: 0 or more", options.ridge);
  return options;
}

// Before hours of work, not after them.
void check_writable(const std::string& path) {
  const bool was_there = std::filesystem::exists(path);
  const bool opened = std::ofstream(path, std::ios::app).is_open();
  if (!opened) invalid("{}: cannot write the map, allowed: a path that can be written", path);
  if (!was_there) std::filesystem::remove(path);
}

// Sequences of n_ctx tokens, shorter ones where there would be fewer than kHoldOutEvery; each starts as a
// text does. Every kHoldOutEvery-th is held out, or the last of fewer.
Sequences cut_text(const Model& model, std::string_view text, const CalibrateOptions& options) {
  const std::vector<Token> start = model.tokenize("", true, false);
  std::vector<Token> tokens = model.tokenize(text, false, false);
  if (options.n_tokens && tokens.size() > *options.n_tokens) tokens.resize(*options.n_tokens);
  const uint64_t wanted =
      std::clamp<uint64_t>(tokens.size() / kHoldOutEvery, kShortestSequence, *options.n_ctx);
  Sequences sequences;
  sequences.length = static_cast<uint32_t>(wanted / TappedRun::kStep * TappedRun::kStep);
  const size_t n_new = sequences.length - start.size();
  const size_t n_sequences = tokens.size() / n_new;
  if (n_sequences < 2) {
    invalid("calibrate: found {} tokens of text, allowed: {} or more, and {} are recommended", tokens.size(),
            2 * n_new, uint64_t{kRowsPerChannel} * model.info().head_dim * 2);
  }
  for (size_t index = 0; index < n_sequences; ++index) {
    std::vector<Token> sequence = start;
    const auto first = tokens.begin() + static_cast<ptrdiff_t>(index * n_new);
    sequence.insert(sequence.end(), first, first + static_cast<ptrdiff_t>(n_new));
    const bool held_out = index % kHoldOutEvery == kHoldOutEvery - 1 ||
                          (n_sequences < kHoldOutEvery && index + 1 == n_sequences);
    (held_out ? sequences.held_out : sequences.fitted).push_back(std::move(sequence));
  }
  return sequences;
}

// One layer's keys and values in f32, as a thread works on them.
struct LayerRows {
  std::vector<float> keys, keys_before_rope, values, rebuilt;  // [head_dim, length, n_kv_heads]
  std::vector<float> x, y;                                     // one token's rows of all heads
  MomentBlock block;
  LayerRows(uint32_t head_dim, uint32_t n_kv_heads, uint32_t length)
      : keys(size_t{head_dim} * n_kv_heads * length),
        keys_before_rope(keys.size()),
        values(keys.size()),
        rebuilt(keys.size()),
        x(size_t{head_dim} * n_kv_heads),
        y(x.size()),
        block(head_dim * n_kv_heads, head_dim * n_kv_heads) {}
};

class Calibrator {
 public:
  Calibrator(const Model& model, const CalibrateOptions& options, const Sequences& sequences,
             const MapIdentity& identity, const CalibrateHooks& hooks)
      : info_(&model.info()),
        scale_(model.impl().params.attention_scale),
        ridge_(options.ridge),
        sequences_(&sequences),
        hooks_(&hooks),
        run_(model, sequences.length, options.type_k, options.type_v, options.n_threads),
        inverse_(identity.rope, info_->head_dim),
        fitted_(info_->n_layers, Moments(n_channels(), n_channels())),
        held_out_(fitted_),
        layer_fits_(info_->n_layers),
        head_fits_(info_->n_layers),
        gate_(info_->n_layers) {
    for (uint32_t thread = 0; thread < options.n_threads; ++thread)
      rows_.emplace_back(info_->head_dim, info_->n_kv_heads, sequences.length);
  }

  // False if a hook wanted to stop.
  bool calibrate() {
    for (const std::vector<Token>& tokens : sequences_->fitted) {
      if (!read(tokens, fitted_, false)) return false;
    }
    fit();
    for (size_t index = 0; index < sequences_->held_out.size(); ++index) {
      if (!read(sequences_->held_out[index], held_out_, index < kGateSequences)) return false;
    }
    return true;
  }

  LayerCalibration report(uint32_t layer) const {
    LayerCalibration result;
    FitErrors train_sum, held_out_sum;
    for (uint32_t kv_head = 0; kv_head < info_->n_kv_heads; ++kv_head) {
      const uint32_t first = kv_head * info_->head_dim;
      const Fit& fit = head_fits_[layer][kv_head];
      const FitErrors train = errors_of(fit, fitted_[layer].part(first, info_->head_dim), 0, info_->head_dim);
      const FitErrors held_out =
          errors_of(fit, held_out_[layer].part(first, info_->head_dim), 0, info_->head_dim);
      result.heads.push_back({r2_of(train, held_out), fit.lambda});
      train_sum.add(train);
      held_out_sum.add(held_out);
    }
    result.r2 = r2_of(train_sum, held_out_sum);
    const Fit& fit = layer_fits_[layer];
    result.layer = {r2_of(errors_of(fit, fitted_[layer], 0, n_channels()),
                          errors_of(fit, held_out_[layer], 0, n_channels())),
                    fit.lambda};
    const GateErrors& gate = gate_[layer];
    result.output_error = {.evict = std::sqrt(gate.evict / gate.full),
                           .zero = std::sqrt(gate.zero / gate.full),
                           .linear = std::sqrt(gate.linear / gate.full)};
    result.mode = mode_name(best_mode(layer));
    return result;
  }

  ValueMaps maps() const {
    ValueMaps maps{.layers = maps_};
    for (uint32_t layer = 0; layer < info_->n_layers; ++layer) maps.layers[layer].mode = best_mode(layer);
    return maps;
  }

  std::vector<float> r2_of_heads(double R2::*which, std::span<const LayerCalibration> layers) const {
    std::vector<float> values;
    for (const LayerCalibration& layer : layers) {
      for (const ScopeFit& head : layer.heads) values.push_back(static_cast<float>(head.r2.*which));
    }
    return values;
  }

 private:
  uint32_t n_channels() const { return info_->head_dim * info_->n_kv_heads; }

  static R2 r2_of(const FitErrors& train, const FitErrors& held_out) {
    return {.train = train.r2(), .held_out = held_out.r2(), .uncentred = held_out.r2_uncentred()};
  }

  TierMode best_mode(uint32_t layer) const {
    const GateErrors& gate = gate_[layer];
    if (gate.linear < gate.zero && gate.linear < gate.evict) return TierMode::linear;
    return gate.zero < gate.evict ? TierMode::zero : TierMode::off;
  }

  static const char* mode_name(TierMode mode) {
    switch (mode) {
      case TierMode::off:
        return "off";
      case TierMode::zero:
        return "zero";
      case TierMode::linear:
        return "linear";
    }
    return "";
  }

  // Runs one sequence and adds it to every layer's moments, and to the gate.
  bool read(const std::vector<Token>& tokens, std::vector<Moments>& moments, bool through_gate) {
    const auto after_step = [&] {
      n_done_ += TappedRun::kStep;
      if (hooks_->on_progress) hooks_->on_progress(n_done_, sequences_->n_tokens());
      return !hooks_->should_stop || !hooks_->should_stop();
    };
    if (!run_.run(tokens, after_step)) return false;
    run_.compute().parallel_for(info_->n_layers, [&](uint32_t layer, uint32_t thread) {
      load_rows(layer, rows_[thread]);
      add_moments(rows_[thread], moments[layer]);
      if (!moments[layer].is_finite()) {
        bad_file("{}: layer {}: found keys or values that are not finite, before token {} of the text",
                 info_->path, layer, n_done_);
      }
      if (through_gate) add_gate(layer, rows_[thread]);
    });
    return true;
  }

  void load_rows(uint32_t layer, LayerRows& rows) const {
    const Cache& cache = run_.cache();
    const size_t head_values = size_t{sequences_->length} * info_->head_dim;
    for (uint32_t kv_head = 0; kv_head < info_->n_kv_heads; ++kv_head) {
      const size_t first = kv_head * head_values;
      to_f32(cache.dims().type_k, cache.key_rows(layer, 0, kv_head), head_values, rows.keys.data() + first);
      to_f32(cache.dims().type_v, cache.value_rows(layer, 0, kv_head), head_values,
             rows.values.data() + first);
      for (uint32_t pos = 0; pos < sequences_->length; ++pos) {
        const size_t row = first + size_t{pos} * info_->head_dim;
        inverse_.unrotate(rows.keys.data() + row, pos, rows.keys_before_rope.data() + row);
      }
    }
  }

  void add_moments(LayerRows& rows, Moments& moments) const {
    const size_t head_dim = info_->head_dim;
    for (uint32_t pos = kAttentionSinks; pos < sequences_->length; ++pos) {
      for (uint32_t kv_head = 0; kv_head < info_->n_kv_heads; ++kv_head) {
        const size_t row = (size_t{kv_head} * sequences_->length + pos) * head_dim;
        std::copy_n(rows.keys_before_rope.data() + row, head_dim, rows.x.data() + kv_head * head_dim);
        std::copy_n(rows.values.data() + row, head_dim, rows.y.data() + kv_head * head_dim);
      }
      rows.block.add(rows.x.data(), rows.y.data(), moments);
    }
    rows.block.flush(moments);
  }

  void fit() {
    run_.compute().parallel_for(info_->n_layers, [&](uint32_t layer, uint32_t) {
      layer_fits_[layer] = fit_map(fitted_[layer], ridge_);
      for (uint32_t kv_head = 0; kv_head < info_->n_kv_heads; ++kv_head) {
        const Moments head = fitted_[layer].part(kv_head * info_->head_dim, info_->head_dim);
        head_fits_[layer].push_back(fit_map(head, ridge_));
      }
    });
    for (uint32_t layer = 0; layer < info_->n_layers; ++layer) maps_.push_back(map_of(layer));
  }

  LayerMap map_of(uint32_t layer) const {
    LayerMap map{.mode = TierMode::linear, .head_dim = info_->head_dim};
    for (const Fit& fit : head_fits_[layer]) {
      map.weight.insert(map.weight.end(), fit.weight.begin(), fit.weight.end());
      map.bias.insert(map.bias.end(), fit.bias.begin(), fit.bias.end());
    }
    for (const double mean : fitted_[layer].mean_y) map.value_mean.push_back(static_cast<float>(mean));
    return map;
  }

  // The window's queries and those that measure are the last step's.
  void add_gate(uint32_t layer, LayerRows& rows) {
    const size_t head_dim = info_->head_dim, length = sequences_->length;
    const uint32_t group = info_->n_heads / info_->n_kv_heads;
    std::vector<float> queries(TappedRun::kStep * group * head_dim);
    for (uint32_t kv_head = 0; kv_head < info_->n_kv_heads; ++kv_head) {
      const size_t first = kv_head * length * head_dim;
      for (size_t pos = 0; pos < length; ++pos) {
        float* rebuilt = rows.rebuilt.data() + first + pos * head_dim;
        std::fill_n(rebuilt, head_dim, 0.0F);
        apply(maps_[layer], kv_head, rows.keys_before_rope.data() + first + pos * head_dim, 1.0F, rebuilt);
      }
      for (size_t token = 0; token < TappedRun::kStep; ++token) {
        const float* from = run_.queries(layer) + (token * info_->n_heads + kv_head * group) * head_dim;
        std::copy_n(from, group * head_dim, queries.data() + token * group * head_dim);
      }
      gate_[layer].add(measure_gate({.head_dim = info_->head_dim,
                                     .n = sequences_->length,
                                     .n_window = kGateWindow,
                                     .n_eval = kGateQueries,
                                     .n_sink = kAttentionSinks,
                                     .group = group,
                                     .scale = scale_,
                                     .keys = rows.keys.data() + first,
                                     .values = rows.values.data() + first,
                                     .rebuilt = rows.rebuilt.data() + first,
                                     .queries = queries.data()}));
    }
  }

  const ModelInfo* info_;
  float scale_;
  double ridge_;
  const Sequences* sequences_;
  const CalibrateHooks* hooks_;
  TappedRun run_;
  RopeInverse inverse_;
  std::vector<LayerRows> rows_;  // per thread
  std::vector<Moments> fitted_, held_out_;
  std::vector<Fit> layer_fits_;
  std::vector<std::vector<Fit>> head_fits_;  // [n_layers][n_kv_heads]
  std::vector<LayerMap> maps_;
  std::vector<GateErrors> gate_;
  uint64_t n_done_ = 0;  // tokens
};

std::vector<std::string> warnings(const Sequences& sequences, uint32_t head_dim) {
  const uint64_t n_rows = sequences.fitted.size() * uint64_t{sequences.length - kAttentionSinks};
  const uint64_t enough = uint64_t{kRowsPerChannel} * head_dim;
  if (n_rows >= enough) return {};
  return {fmt::format("{} tokens were fitted, {} or more are recommended for heads of {} channels", n_rows,
                      enough, head_dim)};
}

}  // namespace

Calibration calibrate(const Model& model, std::string_view text, const std::string& path,
                      const CalibrateOptions& given, const CalibrateHooks& hooks) {
  const CalibrateOptions options = complete(given, model.info());
  check_writable(path);
  const Sequences sequences = cut_text(model, text, options);
  const GgufFile file(model.info().path);
  const MapIdentity identity = map_identity(file, check_model(file));
  Calibrator calibrator(model, options, sequences, identity, hooks);
  if (!calibrator.calibrate()) return {};

  Calibration result{
      .n_ctx = sequences.length,
      .n_sequences = static_cast<uint32_t>(sequences.fitted.size() + sequences.held_out.size()),
      .n_held_out = static_cast<uint32_t>(sequences.held_out.size()),
      .n_tokens = sequences.n_tokens(),
      .layers = {},
      .warnings = warnings(sequences, model.info().head_dim)};
  for (uint32_t layer = 0; layer < model.info().n_layers; ++layer)
    result.layers.push_back(calibrator.report(layer));
  save_value_maps(path, calibrator.maps(), identity,
                  {.model_name = model.info().name,
                   .dataset = options.text_name,
                   .cache_type_k = row_type_name(options.type_k),
                   .ridge = static_cast<float>(options.ridge),
                   .n_tokens = result.n_tokens,
                   .r2_train = calibrator.r2_of_heads(&R2::train, result.layers),
                   .r2_held_out = calibrator.r2_of_heads(&R2::held_out, result.layers)});
  return result;
}

}  // namespace kvase

// SPDX-License-Identifier: MIT
// Fit a model's value maps: run a text through the model, regress every KV head's values on its keys, and
// write what the `vector` modifier needs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvase/model.h"
#include "kvase/options.h"

namespace kvase {

struct CalibrateOptions {
  std::string text_name = {};  // recorded in the map
  // Most tokens of one sequence, 512..trained context. Default: 4096, or the trained context if that is less.
  std::optional<uint32_t> n_ctx = {};
  std::optional<uint64_t> n_tokens = {};  // most tokens of the text to use; default: all
  double ridge = 1e-4;                    // >= 0, of the mean variance of a key channel
  RowType type_k = RowType::f16;          // keys and values are fitted as a cache of these types returns them
  RowType type_v = RowType::f16;
  uint32_t n_threads = 0;  // 1..512; 0: all cores that this process may use
};

struct CalibrateHooks {
  std::function<void(uint64_t done, uint64_t total)> on_progress = {};  // tokens
  std::function<bool()> should_stop = {};
};

// 1 - (squared error) / (squared deviation from the mean), summed over channels. "Held out": on sequences
// that were not fitted.
struct R2 {
  double train = 0;
  double held_out = 0;
  double uncentred = 0;  // held out, and deviation from zero instead of from the mean
};

struct ScopeFit {
  R2 r2;
  double lambda = 0;  // added to the diagonal of the keys' second moments
};

// |out - out_full| / |out_full| of attention on held-out queries, at a budget of a quarter of the text, of
// equal bytes: evict; keys without values, a mean in their place; the same with the map.
struct OutputError {
  double evict = 0;
  double zero = 0;
  double linear = 0;
};

struct LayerCalibration {
  std::vector<ScopeFit> heads;  // one map per KV head: what the file holds
  R2 r2;                        // of these maps, all channels of the layer together
  ScopeFit layer;               // one map from all heads' keys to all heads' values: for comparison only
  OutputError output_error;
  std::string mode;  // "off", "zero" or "linear": the smallest output error
};

struct Calibration {
  uint32_t n_ctx = 0;  // tokens of a sequence
  uint32_t n_sequences = 0;
  uint32_t n_held_out = 0;  // sequences
  uint64_t n_tokens = 0;    // in all sequences
  std::vector<LayerCalibration> layers;
  std::vector<std::string> warnings;
};

// Writes the map to `path`, unless should_stop said so: then an empty Calibration comes back. Throws Error:
// invalid_argument (an option out of range, too little text, a path that cannot be written), out_of_memory.
Calibration calibrate(const Model& model, std::string_view text, const std::string& path,
                      const CalibrateOptions& options, const CalibrateHooks& hooks = {});

}  // namespace kvase

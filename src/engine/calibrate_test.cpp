// SPDX-License-Identifier: MIT
// Calibration of toy models: a map that is exact where keys determine values, the same map whatever the
// threads, and a file that only its model accepts.
#include "kvase/calibrate.h"

#include <algorithm>

#include "kvase/error.h"
#include "model/map_identity.h"
#include "system/toy.h"
#include "tensor/test_gguf.h"

namespace kvase {
namespace {

class CalibrateTest : public testing::Test {
 protected:
  // All heads' keys together have as many channels as the hidden state.
  static ToyModelSpec spec_of(const std::string& architecture) {
    return {.architecture = architecture,
            .n_embd = 64,
            .n_heads = 4,
            .n_kv_heads = 2,
            .head_dim = 32,
            .n_ff = 64};
  }
  Model load(const ToyModelSpec& spec) const {
    write_toy_model(model_, spec);
    return Model::load({.path = model_});
  }
  MapIdentity identity() const {
    const GgufFile file(model_);
    return map_identity(file, check_model(file));
  }
  Calibration run(const Model& model, uint32_t n_threads = 1) const {
    return calibrate(model, random_text(2600), map_,
                     {.ridge = 1e-9, .type_k = RowType::f32, .type_v = RowType::f32, .n_threads = n_threads});
  }

  test::TempDir dir_;
  std::string model_ = dir_.file("toy.gguf");
  std::string map_ = dir_.file("map.gguf");
};

// Without a key norm the keys of all heads are an invertible image of the normed hidden state, so they
// determine the values; one head's keys do not. With keys that still had RoPE on them they would not either.
TEST_F(CalibrateTest, AllHeadsKeysDetermineTheValues) {
  for (const char* architecture : {"llama", "qwen2"}) {
    for (const ToyRopeScaling scaling : {ToyRopeScaling::none, ToyRopeScaling::yarn}) {
      ToyModelSpec spec = spec_of(architecture);
      spec.rope_scaling = scaling;
      spec.rope_freqs = scaling == ToyRopeScaling::none;
      const Calibration calibration = run(load(spec));
      ASSERT_EQ(calibration.layers.size(), 2U);
      for (const LayerCalibration& layer : calibration.layers) {
        EXPECT_GT(layer.layer.r2.held_out, 0.98) << architecture;
        EXPECT_GT(layer.layer.r2.train, 0.98) << architecture;
        ASSERT_EQ(layer.heads.size(), 2U);
        EXPECT_LT(layer.r2.held_out, 0.9) << architecture;
        EXPECT_GT(layer.r2.train, layer.r2.held_out) << architecture;
      }
    }
  }
}

TEST_F(CalibrateTest, AKeyNormHidesPartOfThem) {
  for (const LayerCalibration& layer : run(load(spec_of("qwen3"))).layers) {
    EXPECT_LT(layer.layer.r2.held_out, 0.98);
    EXPECT_GT(layer.layer.r2.held_out, layer.r2.held_out);
  }
}

TEST_F(CalibrateTest, CutsTheTextIntoWholeSequences) {
  const Calibration calibration = run(load(spec_of("llama")));
  EXPECT_EQ(calibration.n_ctx, 512U);
  EXPECT_GE(calibration.n_sequences, 2U);
  EXPECT_EQ(calibration.n_held_out, 1U);
  EXPECT_EQ(calibration.n_tokens, uint64_t{calibration.n_sequences} * 512);
  ASSERT_EQ(calibration.warnings.size(), 1U);
  EXPECT_NE(calibration.warnings[0].find("or more are recommended"), std::string::npos);
}

TEST_F(CalibrateTest, ThreadsDoNotChangeTheMap) {
  const Model model = load(spec_of("llama"));
  run(model, 1);
  const test::Bytes one = test::read_bytes(map_);
  run(model, 3);
  EXPECT_EQ(test::read_bytes(map_), one);
}

TEST_F(CalibrateTest, TheFileIsItsModels) {
  const Calibration calibration = run(load(spec_of("llama")));
  const ValueMaps maps = load_value_maps(map_, identity());
  ASSERT_EQ(maps.layers.size(), 2U);
  for (size_t layer = 0; layer < 2; ++layer) {
    const OutputError& error = calibration.layers[layer].output_error;
    const double best = std::min({error.evict, error.zero, error.linear});
    const std::array by_mode = {error.evict, error.zero, error.linear};
    EXPECT_EQ(by_mode[static_cast<size_t>(maps.layers[layer].mode)], best);
    EXPECT_GT(best, 0.0);
    EXPECT_LT(best, 1.0);
  }
  ToyModelSpec other = spec_of("llama");
  other.seed = 2;
  load(other);
  test::expect_error([&] { load_value_maps(map_, identity()); }, ErrorCode::bad_model_file,
                     "found a map of another model");
  ToyModelSpec turned = spec_of("llama");
  turned.freq_base = 500000;
  load(turned);
  test::expect_error([&] { load_value_maps(map_, identity()); }, ErrorCode::bad_model_file,
                     "map of another RoPE setting: RoPE base: found 10000, allowed: 500000");
}

TEST_F(CalibrateTest, ProgressAndStopping) {
  const Model model = load(spec_of("llama"));
  uint64_t seen = 0, total_seen = 0;
  const Calibration stopped = calibrate(model, random_text(2600), map_, {.n_threads = 1},
                                        {.on_progress =
                                             [&](uint64_t done, uint64_t total) {
                                               seen = done;
                                               total_seen = total;
                                             },
                                         .should_stop = [&] { return seen >= 256; }});
  EXPECT_EQ(seen, 256U);
  EXPECT_GE(total_seen, 1024U);
  EXPECT_TRUE(stopped.layers.empty());
  EXPECT_FALSE(std::filesystem::exists(map_));
}

TEST_F(CalibrateTest, BadOptionsAreRefused) {
  const Model model = load(spec_of("llama"));
  const auto refused = [&](const CalibrateOptions& options, const std::string& text,
                           const std::string& part) {
    test::expect_error([&] { calibrate(model, text, map_, options); }, ErrorCode::invalid_argument, part);
    EXPECT_FALSE(std::filesystem::exists(map_));
  };
  refused({.n_ctx = 511}, random_text(2600), "-c 511, allowed: 512..4096");
  refused({.n_ctx = 4097}, random_text(2600), "-c 4097, allowed: 512..4096");
  refused({.ridge = -1}, random_text(2600), "--ridge -1, allowed: 0 or more");
  refused({.n_threads = 513}, random_text(2600), "-t 513, allowed: 1..512");
  refused({}, "a short text", "tokens of text, allowed:");
  refused({.n_tokens = 600}, random_text(2600), "found 600 tokens of text, allowed:");
  test::expect_error([&] { calibrate(model, random_text(2600), dir_.file("none/map.gguf"), {}); },
                     ErrorCode::invalid_argument, "cannot write the map");
}

}  // namespace
}  // namespace kvase

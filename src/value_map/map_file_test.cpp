// SPDX-License-Identifier: MIT
// A map comes back as it was saved, and is refused by any other model, with any other RoPE, or damaged.
#include "value_map/map_file.h"

#include <ggml-cpu.h>
#include <gtest/gtest.h>

#include "tensor/test_gguf.h"

namespace kvase {
namespace {

MapIdentity identity() {
  return {.architecture = "llama",
          .model_hash = "0123456789abcdef",
          .n_layers = 3,
          .n_kv_heads = 2,
          .head_dim = 4,
          .rope = {.n_rot = 4, .pairs = RopePairs::adjacent, .freq_base = 5e5F, .divisors = {1, 8}}};
}

ValueMaps some_maps() {
  ValueMaps maps;
  for (const TierMode mode : {TierMode::linear, TierMode::zero, TierMode::off}) {
    LayerMap map{.mode = mode, .head_dim = 4};
    for (int index = 0; index < 32; ++index) map.weight.push_back(static_cast<float>(index) * 0.25F - 3);
    for (int index = 0; index < 8; ++index) {
      map.bias.push_back(static_cast<float>(index) * 0.1F);
      map.value_mean.push_back(static_cast<float>(index) * -0.3F);
    }
    maps.layers.push_back(std::move(map));
  }
  return maps;
}

class MapFile : public testing::Test {
 protected:
  MapFile() {
    ggml_cpu_init();
    save_value_maps(
        path_, some_maps(), identity(),
        {.model_name = "toy", .dataset = "text", .cache_type_k = "f32", .ridge = 1e-4F, .n_tokens = 9});
  }
  void expect_refused(const MapIdentity& model, const std::string& part) const {
    test::expect_error([&] { load_value_maps(path_, model); }, ErrorCode::bad_model_file, part);
  }
  void expect_refused(const test::Edit& edit, const std::string& part) const {
    test::rewrite(path_, edited_, edit);
    test::expect_error([&] { load_value_maps(edited_, identity()); }, ErrorCode::bad_model_file, part);
  }

  test::TempDir folder_;
  std::string path_ = folder_.file("map.gguf");
  std::string edited_ = folder_.file("edited.gguf");
};

TEST_F(MapFile, ComesBack) {
  const ValueMaps saved = some_maps(), loaded = load_value_maps(path_, identity());
  ASSERT_EQ(loaded.layers.size(), 3U);
  for (size_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(loaded.layers[layer].mode, saved.layers[layer].mode);
    EXPECT_EQ(loaded.layers[layer].head_dim, 4U);
    EXPECT_EQ(loaded.layers[layer].value_mean, saved.layers[layer].value_mean);
  }
  EXPECT_EQ(loaded.layers[0].weight, saved.layers[0].weight);
  EXPECT_EQ(loaded.layers[0].bias, saved.layers[0].bias);
  // Without a linear map the mean is all that is rebuilt.
  EXPECT_TRUE(loaded.layers[1].weight.empty());
  EXPECT_EQ(loaded.layers[1].bias, saved.layers[1].value_mean);
  EXPECT_EQ(loaded.bytes(), (32 + 6 * 8) * sizeof(float) + loaded.rope_table.bytes());
}

TEST_F(MapFile, OfAnotherModelIsRefused) {
  MapIdentity other = identity();
  other.model_hash = "fedcba9876543210";
  expect_refused(other, "found a map of another model");
  other = identity();
  other.architecture = "qwen3";
  expect_refused(other, "found \"llama\", allowed \"qwen3\"");
  other = identity();
  other.n_layers = 4;
  expect_refused(other, "\"kv_ols.n_layer\": found 3, allowed 4");
  other = identity();
  other.n_kv_heads = 1;
  expect_refused(other, "\"kv_ols.n_head_kv\": found 2, allowed 1");
  other = identity();
  other.head_dim = 8;
  expect_refused(other, "\"kv_ols.head_dim\": found 4, allowed 8");
}

TEST_F(MapFile, WithAnotherRopeIsRefused) {
  MapIdentity other = identity();
  other.rope.freq_base = 1e4F;
  expect_refused(other, "map of another RoPE setting: RoPE base: found 500000, allowed: 10000");
  other = identity();
  other.rope.pairs = RopePairs::half_split;
  expect_refused(other, "RoPE pairs: found adjacent, allowed: half-split");
  other = identity();
  other.rope.divisors[1] = 4;
  expect_refused(other, "RoPE divisor: found 8, allowed: 4");
  other = identity();
  other.rope.freq_scale = 0.25F;
  expect_refused(other, "RoPE frequency scale: found 1, allowed: 0.25");
  other.rope.freq_scale = 1;
  other.rope.ext_factor = 1;
  expect_refused(other, "RoPE YaRN share: found 0, allowed: 1");
}

TEST_F(MapFile, TruncatedIsRefused) {
  const test::Bytes whole = test::read_bytes(path_);
  const auto cut_to = [&](size_t n_bytes, const std::string& part) {
    test::write_bytes(edited_, {whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n_bytes)});
    test::expect_error([&] { load_value_maps(edited_, identity()); }, ErrorCode::bad_model_file, part);
  };
  cut_to(whole.size() - 1, "file is truncated in tensor \"blk.2.kv_ols.vmean\"");
  for (size_t n_bytes = 0; n_bytes < whole.size() - 1; n_bytes += 97) cut_to(n_bytes, "");
}

TEST_F(MapFile, DamagedIsRefused) {
  expect_refused({.keys = [](gguf_context* file) { gguf_set_val_str(file, "general.type", "model"); }},
                 "found no value map");
  expect_refused({.keys = [](gguf_context* file) { gguf_set_val_u32(file, "kv_ols.version", 2); }},
                 "\"kv_ols.version\": found 2, allowed 1");
  expect_refused({.keys = [](gguf_context* file) { gguf_set_val_str(file, "kv_ols.scope", "layer"); }},
                 "found \"layer\", allowed \"head\"");
  expect_refused({.keys = [](gguf_context* file) { gguf_set_val_bool(file, "kv_ols.bias", false); }},
                 "without intercepts");
  expect_refused({.keys = [](gguf_context* file) { gguf_remove_key(file, "kv_ols.rope_base"); }},
                 "\"kv_ols.rope_base\" is missing");
  expect_refused({.keys = [](gguf_context* file) { gguf_set_val_str(file, "kv_ols.rope_style", "x"); }},
                 "allowed norm or neox");
  const auto set_modes = [](std::vector<int32_t> modes) {
    return [modes](gguf_context* file) {
      gguf_set_arr_data(file, "kv_ols.mode", GGUF_TYPE_INT32, modes.data(), modes.size());
    };
  };
  expect_refused({.keys = set_modes({0, 1, 3})}, "\"kv_ols.mode\": found 3");
  expect_refused({.keys = set_modes({0, 1})}, "\"kv_ols.mode\": found 2 numbers");
  expect_refused({.drop = {"blk.1.kv_ols.weight"}}, "\"blk.1.kv_ols.weight\": found none");
  expect_refused({.drop = {"blk.2.kv_ols.bias"}, .add = {{"blk.2.kv_ols.bias", GGML_TYPE_F32, {4, 3}}}},
                 "\"blk.2.kv_ols.bias\": found f32 [4, 3], allowed f32 [4, 2, 1, 1]");
}

TEST_F(MapFile, NumbersThatAreNotFiniteAreRefused) {
  ValueMaps maps = some_maps();
  maps.layers[1].value_mean[3] = std::numeric_limits<float>::infinity();
  save_value_maps(path_, maps, identity(), {});
  expect_refused(identity(), "\"blk.1.kv_ols.vmean\": found a number that is not finite");
}

TEST_F(MapFile, PathThatCannotBeWrittenIsRefused) {
  test::expect_error([&] { save_value_maps(folder_.file("none/map.gguf"), some_maps(), identity(), {}); },
                     ErrorCode::invalid_argument, "cannot write the map");
}

}  // namespace
}  // namespace kvase

// SPDX-License-Identifier: MIT
// `+vector` in the real engine, with maps that `calibrate` fitted to the toy model: nothing is lost while the
// text fits, the plan and all invariants hold when it does not, neighbours change nothing; and where keys
// determine values exactly, slots without a value answer like slots with one.
#include <gguf.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>

#include "kvase/calibrate.h"
#include "system/invariants.h"
#include "system/policies.h"

namespace kvase {
namespace {

// A map file of a model, removed with its object.
class MapFile {
 public:
  MapFile(const Model& model, const std::string& path, RowType type) : path_(path) {
    fit = calibrate(model, random_text(2600), path_,
                    {.ridge = 1e-9, .type_k = type, .type_v = type, .n_threads = 1});
  }
  ~MapFile() { std::filesystem::remove(path_); }
  MapFile(const MapFile&) = delete;
  MapFile& operator=(const MapFile&) = delete;
  std::string policy(const std::string& base, const std::string& more = "") const {
    return base + "+vector:map=" + path_ + more;
  }

  Calibration fit;

 private:
  std::string path_;
};

struct Variant {
  const char* name;
  const char* base;
  const char* more = "";
};

constexpr Variant kVariants[] = {{"vase_attnv", "vase-attnv"},
                                 {"vase_attnv_as_published", "vase-attnv", ",route=plain"},
                                 {"vase_dkv", "vase-dkv"},
                                 {"snapkv", "snapkv"},
                                 {"snapkv_of_slots", "snapkv:smooth=avg,axis=slot"},
                                 {"snapkv_pyramid", "snapkv+pyramid:beta=2"},
                                 {"h2o", "h2o:recent=8,window=8"},
                                 {"keydiff", "keydiff"},
                                 {"lagkv", "lagkv:lag=8"},
                                 {"leverage", "leverage"},
                                 {"random", "random"}};

class VectorPolicy : public testing::TestWithParam<Variant> {
 protected:
  static std::string policy() {
    static const MapFile map(toy_model(), toy().path() + ".map", RowType::f16);
    return map.policy(GetParam().base, GetParam().more);
  }
  static std::vector<Token> tokens(size_t n, uint64_t seed) {
    return random_tokens(n, toy_model().info().n_vocab, seed);
  }
};

TEST_P(VectorPolicy, BudgetOfTheWholeTextGivesTheFullCachesText) {
  Engine full(toy_model(), full_cache(256));
  Engine engine(toy_model(), options_for(policy(), {256, 64}));
  const std::vector<Token> prompt = tokens(50, 1);
  EXPECT_EQ(greedy(engine, prompt, 60, {.seed = 3}), greedy(full, prompt, 60, {}));
}

TEST_P(VectorPolicy, InvariantsAndBytesHoldThrough600Tokens) {
  const EngineOptions options = options_for(policy(), {80, 16});
  Engine engine(toy_model(), options);
  const Engine plain(toy_model(), options_for(GetParam().base, {80, 16}));
  EXPECT_EQ(engine.plan().kv_bytes, plain.plan().kv_bytes);
  EXPECT_GT(engine.plan().map_bytes, 0U);
  const std::vector<Token> text = tokens(600, 2);
  const SequenceId sequence = engine.open({.seed = 9, .n_prompt = 150});
  feed(engine, sequence, std::span(text).first(150));
  for (size_t index = 150; index < text.size(); ++index) {
    feed(engine, sequence, std::span(text).subspan(index, 1));
    expect_invariants(engine, sequence, static_cast<int64_t>(index) + 1, "token " + std::to_string(index));
    if (HasFailure()) return;
  }
  EXPECT_GT(engine.kept_positions(sequence, 0, 0).size(), 80U) << "more keys than the budget has pairs";
}

TEST_P(VectorPolicy, TwoSequencesTogetherAnswerAsTheyDoAlone) {
  const std::vector<std::vector<Token>> texts = {tokens(150, 9), tokens(97, 10)};
  Engine together(toy_model(), options_for(policy(), {80, 16}, 2));
  const SequenceId ids[] = {together.open({.seed = 1, .sample = 0}), together.open({.seed = 1, .sample = 1})};
  std::vector<std::vector<float>> beside(2);
  const std::vector<Feed> feeds = {{.sequence = ids[0], .tokens = texts[0], .logits = WantLogits::last},
                                   {.sequence = ids[1], .tokens = texts[1], .logits = WantLogits::last}};
  together.advance(feeds, {.on_logits = [&](size_t feed_index, size_t, std::span<const float> logits) {
                     beside[feed_index].assign(logits.begin(), logits.end());
                   }});
  for (uint32_t index = 0; index < 2; ++index) {
    Engine alone(toy_model(), options_for(policy(), {80, 16}));
    const SequenceId sequence = alone.open({.seed = 1, .sample = index});
    EXPECT_EQ(feed(alone, sequence, texts[index]), beside[index]) << "sequence " << index;
    EXPECT_EQ(together.kept_positions(ids[index], 1, 1), alone.kept_positions(sequence, 1, 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Bases, VectorPolicy, testing::ValuesIn(kVariants),
                         [](const auto& variant) { return std::string(variant.param.name); });

// Gives every value projection the weights of the key projection beside it.
void let_values_be_keys(const std::string& path) {
  const std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf(
      gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}), gguf_free);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto place = [&](const std::string& name) { return gguf_find_tensor(gguf.get(), name.c_str()); };
  for (const char* layer : {"blk.0", "blk.1"}) {
    const int64_t key = place(std::string(layer) + ".attn_k.weight");
    const int64_t value = place(std::string(layer) + ".attn_v.weight");
    std::vector<char> bytes(gguf_get_tensor_size(gguf.get(), key));
    const auto at = [&](int64_t tensor) {
      return static_cast<std::streamoff>(gguf_get_data_offset(gguf.get()) +
                                         gguf_get_tensor_offset(gguf.get(), tensor));
    };
    file.seekg(at(key)).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.seekp(at(value)).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

// The newest 96 keys with 32 values and a perfect map, in the bytes of 64 slots, answer like the newest 96
// slots. From six budgets of text on: before, the tier is growing, and what it lost is still remembered.
TEST(Vector, APerfectMapAnswersLikeTheValues) {
  const ToyFile file({.n_layers = 2, .n_heads = 6, .n_kv_heads = 2, .head_dim = 32});
  let_values_be_keys(file.path());
  const Model model = file.load();
  const MapFile map(model, file.path() + ".map", RowType::f32);
  for (const LayerCalibration& layer : map.fit.layers) {
    ASSERT_GT(layer.r2.held_out, 0.99999);
    ASSERT_EQ(layer.mode, "linear");
  }
  const auto logits_of = [&](const std::string& policy, uint32_t budget) {
    EngineOptions options = options_for(policy, {budget, 16});
    options.cache.type_k = options.cache.type_v = RowType::f32;
    Engine engine(model, options);
    const SequenceId sequence = engine.open({});
    const std::vector<Token> text = random_tokens(480, model.info().n_vocab, 4);
    feed(engine, sequence, std::span(text).first(384));
    std::vector<std::vector<float>> all;
    for (size_t index = 384; index < text.size(); ++index)
      all.push_back(feed(engine, sequence, std::span(text).subspan(index, 1)));
    EXPECT_EQ(engine.kept_positions(sequence, 0, 0).size(), 96U);
    return all;
  };
  const auto values = logits_of("window", 96), rebuilt = logits_of(map.policy("window"), 64);
  const auto means = logits_of("window+zero", 64);
  double furthest = 0;
  for (size_t token = 0; token < values.size(); ++token) {
    for (size_t index = 0; index < values[token].size(); ++index) {
      ASSERT_NEAR(rebuilt[token][index], values[token][index], 2e-3) << "token " << token;
      furthest = std::max(furthest, std::abs(double{means[token][index]} - values[token][index]));
    }
  }
  EXPECT_GT(furthest, 0.1) << "the values matter";
}

}  // namespace
}  // namespace kvase

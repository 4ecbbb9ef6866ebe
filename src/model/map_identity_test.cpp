// SPDX-License-Identifier: MIT
// A model's identity follows what its keys and values depend on, and nothing else.
#include "model/map_identity.h"

#include "tensor/test_gguf.h"

namespace kvase {
namespace {

MapIdentity identity_of(const std::string& path) {
  const GgufFile file(path);
  return map_identity(file, check_model(file));
}

class MapIdentityTest : public testing::Test {
 protected:
  MapIdentity identity_with(const ToyModelSpec& spec) const {
    const std::string path = dir_.file("toy.gguf");
    write_toy_model(path, spec);
    return identity_of(path);
  }
  test::TempDir dir_;
};

TEST_F(MapIdentityTest, SaysTheShape) {
  const MapIdentity identity = identity_with(test::tiny_spec("qwen3"));
  EXPECT_EQ(identity.architecture, "qwen3");
  EXPECT_EQ(identity.n_layers, 1U);
  EXPECT_EQ(identity.n_kv_heads, 1U);
  EXPECT_EQ(identity.head_dim, 8U);
  EXPECT_EQ(identity.rope.n_rot, 8U);
  EXPECT_EQ(identity.rope.pairs, RopePairs::half_split);
  EXPECT_EQ(identity.model_hash.size(), 16U);
}

TEST_F(MapIdentityTest, HashFollowsTheWeights) {
  ToyModelSpec spec = test::tiny_spec();
  const std::string hash = identity_with(spec).model_hash;
  EXPECT_EQ(identity_with(spec).model_hash, hash);
  spec.name = "another name";
  EXPECT_EQ(identity_with(spec).model_hash, hash);
  spec.seed = 2;
  EXPECT_NE(identity_with(spec).model_hash, hash);
}

TEST_F(MapIdentityTest, RopeIsTheFiles) {
  ToyModelSpec spec = test::tiny_spec();
  const MapIdentity plain = identity_with(spec);
  EXPECT_EQ(plain.rope.pairs, RopePairs::adjacent);
  spec.freq_base = 500000;
  spec.rope_freqs = true;
  spec.rope_scaling = ToyRopeScaling::yarn;
  const MapIdentity scaled = identity_with(spec);
  EXPECT_EQ(scaled.rope.freq_base, 500000.0F);
  EXPECT_EQ(scaled.rope.freq_scale, 0.25F);
  EXPECT_EQ(scaled.rope.ext_factor, 1.0F);
  ASSERT_EQ(scaled.rope.divisors.size(), 4U);
  for (const float divisor : scaled.rope.divisors) {
    EXPECT_GE(divisor, 1.0F);
    EXPECT_LE(divisor, 8.0F);
  }
  EXPECT_EQ(difference(scaled.rope, plain.rope), "RoPE base: found 500000, allowed: 10000");
}

}  // namespace
}  // namespace kvase

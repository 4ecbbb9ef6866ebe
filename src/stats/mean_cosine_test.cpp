// SPDX-License-Identifier: MIT
// Mean cosines against the double loop over all pairs, for every row type.
#include "stats/mean_cosine.h"

#include <gtest/gtest.h>

#include "stats/test_rows.h"

namespace kvase {
namespace {

TEST(MeanCosine, MatchesAllPairs) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
    for (const uint32_t head_dim : {1U, 8U, 80U, 128U}) {
      for (const uint32_t n : {1U, 31U, 67U}) {
        const TestRows rows = random_rows(type, head_dim, n);
        std::vector<float> found(n);
        const std::vector<uint32_t> slots = scattered(n, 5);
        MeanCosine(head_dim, n).compute(rows.view(), slots, found);
        const std::vector<double> expected = oracle::mean_cosines(rows.spans(), wide(slots));
        for (uint32_t slot = 0; slot < n; ++slot)
          EXPECT_NEAR(found[slot], expected[slot], 1e-7)
              << ggml_type_name(type) << " " << head_dim << " " << n;
      }
    }
  }
}

TEST(MeanCosine, OnlyTheGivenSlotsCount) {
  const TestRows rows = random_rows(GGML_TYPE_F32, 16, 6);
  const std::vector<uint32_t> slots = {4, 1, 5};
  std::vector<float> found(6, 9.0F);
  MeanCosine(16, 6).compute(rows.view(), slots, found);
  const std::vector<double> expected = oracle::mean_cosines(rows.spans(), {1, 4, 5});
  for (const uint32_t slot : slots) EXPECT_NEAR(found[slot], expected[slot], 1e-7);
  for (const uint32_t slot : {0U, 2U, 3U}) EXPECT_EQ(found[slot], 9.0F);
}

TEST(MeanCosine, ByHandWithARowOfZeros) {
  const TestRows rows = store_rows(GGML_TYPE_F16, 2, {3, 4, 0, 0, -3, -4, 4, -3});
  std::vector<float> found(4);
  MeanCosine work(2, 4);
  work.compute(rows.view(), std::vector<uint32_t>{0, 1, 2, 3}, found);
  EXPECT_EQ(found, (std::vector<float>{0, 0, 0, 0.25F}));
  work.compute(rows.view(), std::vector<uint32_t>{0, 3}, found);  // scratch is clean again
  EXPECT_EQ(found[0], 0.5F);
}

}  // namespace
}  // namespace kvase

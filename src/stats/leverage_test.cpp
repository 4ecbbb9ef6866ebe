// SPDX-License-Identifier: MIT
// Leverages against elimination in double precision, and what theory says of them.
#include "stats/leverage.h"

#include <gtest/gtest.h>

#include "stats/test_rows.h"

namespace kvase {
namespace {

std::vector<float> leverages(const TestRows& rows, const std::vector<uint32_t>& slots) {
  std::vector<float> found(rows.exact.size() / rows.head_dim);
  Leverage(rows.head_dim).compute(rows.view(), slots, found);
  return found;
}

TEST(Leverage, MatchesElimination) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
    for (const uint32_t head_dim : {1U, 8U, 24U, 80U}) {
      for (const uint32_t n : {1U, 33U, 129U}) {   // fewer rows than channels too: the ridge decides
        for (const float shift : {0.0F, 30.0F}) {  // nearly one direction
          const TestRows rows = random_rows(type, head_dim, n, shift);
          const std::vector<uint32_t> slots = scattered(n, 7);
          const std::vector<float> found = leverages(rows, slots);
          const std::vector<double> expected = oracle::leverages(rows.spans(), wide(slots));
          for (uint32_t slot = 0; slot < n; ++slot) {
            EXPECT_NEAR(found[slot], expected[slot], 1e-6)
                << ggml_type_name(type) << " " << head_dim << " rows " << n << " shift " << shift;
          }
        }
      }
    }
  }
}

TEST(Leverage, SumsToTheRank) {
  const TestRows rows = random_rows(GGML_TYPE_F32, 32, 200);
  double sum = 0;
  for (const float value : leverages(rows, scattered(200, 7))) sum += double{value};
  EXPECT_NEAR(sum, 32, 1e-3);
}

TEST(Leverage, OnlyTheGivenSlotsCount) {
  TestRows rows = random_rows(GGML_TYPE_F32, 8, 20);
  const std::vector<uint32_t> slots = {19, 3, 0, 7};
  const std::vector<float> found = leverages(rows, slots);
  EXPECT_EQ(found[1], 0.0F);
  const std::vector<double> expected = oracle::leverages(rows.spans(), wide(slots));
  for (const uint32_t slot : slots) EXPECT_NEAR(found[slot], expected[slot], 1e-6);
}

TEST(Leverage, RowsOfZerosHaveNone) {
  const TestRows all = store_rows(GGML_TYPE_F32, 4, std::vector<float>(12, 0.0F));
  EXPECT_EQ(leverages(all, {0, 1, 2}), std::vector<float>(3, 0.0F));
  const TestRows one = store_rows(GGML_TYPE_F32, 2, {1, 0, 0, 0, 1, 0});
  const std::vector<float> found = leverages(one, {0, 1, 2});
  EXPECT_NEAR(found[0], 0.5, 1e-6);
  EXPECT_EQ(found[1], 0.0F);
}

}  // namespace
}  // namespace kvase

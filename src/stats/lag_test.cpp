// SPDX-License-Identifier: MIT
// Deviations against double loops, partition by partition.
#include "stats/lag.h"

#include <gtest/gtest.h>

#include "stats/test_rows.h"

namespace kvase {
namespace {

TEST(LagDeviation, MatchesDoubleLoops) {
  constexpr uint32_t kRows = 150;
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
    for (const uint32_t head_dim : {8U, 24U, 80U, 128U}) {
      for (const uint32_t lag : {2U, 7U, 50U, 75U, 76U}) {  // 76: fewer than two partitions
        const TestRows rows = random_rows(type, head_dim, kRows);
        const std::vector<uint32_t> by_position = scattered(kRows, 7);
        std::vector<int32_t> pos(kRows);
        for (uint32_t place = 0; place < kRows; ++place)
          pos[by_position[place]] = static_cast<int32_t>(place);
        std::vector<float> found(kRows, 9.0F);
        LagDeviation(head_dim, lag).compute(rows.view(), by_position, found);
        const std::vector<double> expected = oracle::lags(rows.spans(), pos, lag, 0);
        for (uint32_t slot = 0; slot < kRows; ++slot) {
          EXPECT_NEAR(found[slot], expected[slot], 1e-6 * (1 + expected[slot]))
              << ggml_type_name(type) << " " << head_dim << " lag " << lag;
        }
      }
    }
  }
}

// Partition {slot 2, slot 0} against {slot 3, slot 1}: channel 0 spans 0..2, channel 1 is constant, channel 2
// spans -1..1.
TEST(LagDeviation, ByHandWithAConstantChannel) {
  const TestRows rows = store_rows(GGML_TYPE_F16, 3,
                                   {2, 5, 1,   //
                                    0, 4, -1,  //
                                    1, 9, -1,  //
                                    2, 4, 1});
  std::vector<float> found(4, 9.0F);
  LagDeviation(3, 2).compute(rows.view(), std::vector<uint32_t>{2, 0, 3, 1}, found);
  EXPECT_FLOAT_EQ(found[0], std::sqrt(1.0F / 3));   // y = 1, 0, 1
  EXPECT_FLOAT_EQ(found[2], std::sqrt(1.0F / 12));  // y = 1/2, 0, 0
  EXPECT_EQ(found[1], 0);
  EXPECT_EQ(found[3], 0);
}

}  // namespace
}  // namespace kvase

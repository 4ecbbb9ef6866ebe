// SPDX-License-Identifier: MIT
// Redundancy against the whole matrix of cosines.
#include "stats/redundancy.h"

#include <gtest/gtest.h>

#include "stats/test_rows.h"

namespace kvase {
namespace {

std::vector<float> found_for(const TestRows& rows, const std::vector<uint32_t>& by_position) {
  std::vector<float> found(by_position.size());
  Redundancy(rows.head_dim, static_cast<uint32_t>(by_position.size()))
      .compute(rows.view(), by_position, found);
  return found;
}

// Slot by_position[p] has position p.
std::vector<double> expected_for(const TestRows& rows, const std::vector<uint32_t>& by_position) {
  oracle::HeadInput head;
  head.k = rows.spans();
  head.pos.resize(by_position.size());
  for (size_t place = 0; place < by_position.size(); ++place)
    head.pos[by_position[place]] = static_cast<int32_t>(place);
  return oracle::redundancies(head);
}

TEST(Redundancy, MatchesTheMatrix) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
    for (const uint32_t head_dim : {8U, 80U, 128U}) {
      for (const uint32_t n : {1U, 2U, 16U, 63U, 130U}) {
        for (const float shift : {0.0F, 1.0F, 3.0F}) {  // similar: few pairs, about half, all
          const TestRows rows = random_rows(type, head_dim, n, shift);
          const std::vector<uint32_t> by_position = scattered(n, 11);
          const std::vector<float> found = found_for(rows, by_position);
          const std::vector<double> expected = expected_for(rows, by_position);
          for (uint32_t slot = 0; slot < n; ++slot) {
            EXPECT_NEAR(found[slot], expected[slot], 3e-7)
                << ggml_type_name(type) << " " << head_dim << " rows " << n << " shift " << shift;
          }
        }
      }
    }
  }
}

// Two copies exempt each other; of three, the two newer ones do, and both exempt the third from nothing.
TEST(Redundancy, OlderCopiesOfThreePay) {
  const TestRows rows = store_rows(GGML_TYPE_F32, 4,
                                   {1, 0, 0, 0,  //
                                    0, 1, 0, 0,  //
                                    0, 1, 0, 0,  //
                                    0, 1, 0, 0});
  const std::vector<float> found = found_for(rows, {0, 1, 2, 3});
  EXPECT_FLOAT_EQ(found[0], 0);
  EXPECT_FLOAT_EQ(found[1], 0.5F);   // rows 2 and 3
  EXPECT_FLOAT_EQ(found[2], 0.25F);  // row 1; row 3 exempts it
  EXPECT_FLOAT_EQ(found[3], 0);      // rows 1 and 2 exempt it
}

TEST(Redundancy, ZerosAreRedundantToNobody) {
  const TestRows rows = store_rows(GGML_TYPE_F32, 2, {0, 0, 1, 0, 0, 0});
  for (const float value : found_for(rows, {1, 0, 2})) EXPECT_NEAR(value, 0, 1e-7);
}

}  // namespace
}  // namespace kvase

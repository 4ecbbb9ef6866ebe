// SPDX-License-Identifier: MIT
// Redundancy against the whole matrix of cosines.
#include "stats/redundancy.h"

#include <gtest/gtest.h>

#include "stats/test_rows.h"

namespace kvase {
namespace {

// Slot by_position[p] has position p.
std::vector<int32_t> positions(const std::vector<uint32_t>& by_position) {
  std::vector<int32_t> pos(by_position.size());
  for (size_t place = 0; place < by_position.size(); ++place)
    pos[by_position[place]] = static_cast<int32_t>(place);
  return pos;
}

std::vector<float> found_for(const TestRows& rows, const std::vector<uint32_t>& by_position) {
  std::vector<float> found(by_position.size());
  std::vector<int32_t> similar(by_position.size(), kNeverCompared);
  Redundancy(rows.head_dim, static_cast<uint32_t>(by_position.size()))
      .compute(rows.view(), by_position, positions(by_position), similar, found);
  return found;
}

std::vector<double> expected_for(const TestRows& rows, const std::vector<uint32_t>& by_position) {
  oracle::HeadInput head;
  head.k = rows.spans();
  head.pos = positions(by_position);
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

// Tokens come and go: what earlier events found gives the numbers of the whole matrix.
TEST(Redundancy, LaterEventsMatchTheMatrixToo) {
  constexpr uint32_t kTokens = 400, kCapacity = 90, kHeadDim = 16;
  size_t n_kept = 0;                              // earlier finds that are taken again
  for (const float shift : {0.0F, 0.7F, 1.0F}) {  // hardly a pair is similar, some are, about half
    const TestRows rows = random_rows(GGML_TYPE_F32, kHeadDim, kTokens, shift);
    Redundancy redundancy(kHeadDim, kCapacity);
    std::vector<int32_t> pos, similar;  // per slot; the slot's row is that of its token
    for (int32_t token = 0; token < static_cast<int32_t>(kTokens); ++token) {
      pos.push_back(token);
      similar.push_back(kNeverCompared);
      if (pos.size() < kCapacity) continue;
      std::vector<float> values;
      oracle::HeadInput head;
      head.pos = pos;
      for (const int32_t of_slot : pos) {
        head.k.push_back(rows.spans()[static_cast<size_t>(of_slot)]);
        values.insert(values.end(), head.k.back().begin(), head.k.back().end());
      }
      const TestRows stored = store_rows(GGML_TYPE_F32, kHeadDim, values);
      std::vector<uint32_t> by_position;
      for (const size_t slot : oracle::by_position(pos)) by_position.push_back(static_cast<uint32_t>(slot));
      const std::vector<int32_t> before = similar;
      std::vector<float> found(pos.size());
      redundancy.compute(stored.view(), by_position, pos, similar, found);
      const std::vector<double> expected = oracle::redundancies(head);
      for (size_t slot = 0; slot < pos.size(); ++slot) {
        ASSERT_NEAR(found[slot], expected[slot], 3e-7) << "token " << token << " shift " << shift;
        n_kept += before[slot] != kNeverCompared && before[slot] == similar[slot];
      }
      // Every third slot goes, holes filled from the end: the newest similar key of many rows among them.
      for (size_t hole = 0; hole + 1 < pos.size(); hole += 3) {
        pos[hole] = pos.back();
        similar[hole] = similar.back();
        pos.pop_back();
        similar.pop_back();
      }
    }
  }
  EXPECT_GT(n_kept, 100U);
}

TEST(Redundancy, ZerosAreRedundantToNobody) {
  const TestRows rows = store_rows(GGML_TYPE_F32, 2, {0, 0, 1, 0, 0, 0});
  for (const float value : found_for(rows, {1, 0, 2})) EXPECT_NEAR(value, 0, 1e-7);
}

}  // namespace
}  // namespace kvase

// SPDX-License-Identifier: MIT
// The oracle of the statistics, by hand: attention tables of a few weights, rows of a few channels.
#include "golden/oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/synthetic.h"

namespace kvase {
namespace {

using testing::FloatNear;
using testing::Pointwise;

// A head whose softmax weights are the numbers of a table: keys are unit vectors, and q = sqrt(head_dim) *
// ln(weight).
class TableHead {
 public:
  // weights[query head][query][key]
  explicit TableHead(const std::vector<std::vector<std::vector<double>>>& weights) {
    const size_t n = weights[0][0].size();
    rows_.reserve(n + weights.size() * weights[0].size());
    for (size_t slot = 0; slot < n; ++slot) {
      rows_.emplace_back(n, 0.0f);
      rows_.back()[slot] = 1;
      head_.k.push_back(rows_.back());
      head_.v.push_back(rows_.back());
      head_.pos.push_back(static_cast<int32_t>(slot));
    }
    for (const auto& member : weights) {
      head_.q.emplace_back();
      for (const auto& query : member) {
        rows_.emplace_back();
        for (const double weight : query) {
          rows_.back().push_back(static_cast<float>(std::sqrt(static_cast<double>(n)) * std::log(weight)));
        }
        head_.q.back().push_back(rows_.back());
      }
    }
  }

  std::vector<float> mass(MassSpec::Domain domain, MassSpec::Group group, uint32_t window) const {
    return mass({.domain = domain, .group = group}, window);
  }
  std::vector<float> mass(const MassSpec& spec, uint32_t window) const {
    return oracle::mass(head_, spec, synthetic::small_event(head_.pos.size(), window));
  }

 private:
  std::vector<std::vector<float>> rows_;
  oracle::HeadInput head_;
};

auto approximately(const std::vector<float>& expected) { return Pointwise(FloatNear(1e-6f), expected); }

// Six keys, the last two queries. Over candidates slot 0 outweighs slot 1; over all slots, where the last
// query mostly looks at its own window, slot 1 outweighs slot 0.
TEST(Oracle, MassOverCandidatesAndOverAllRankDifferently) {
  const TableHead head({{{1, 2, 1, 4, 8, 1000}, {3, 1, 1, 3, 28, 28}}});
  EXPECT_THAT(head.mass(MassSpec::Domain::candidates, MassSpec::Group::mean, 2),
              approximately({4.0f / 16, 3.0f / 16, 2.0f / 16, 7.0f / 16, 0, 0}));
  EXPECT_THAT(head.mass(MassSpec::Domain::all, MassSpec::Group::mean, 2),
              approximately({7.0f / 128, 9.0f / 128, 5.0f / 128, 19.0f / 128, 0, 0}));
}

TEST(Oracle, QueryHeadsAreJoinedAsAsked) {
  const TableHead head({{{1, 4, 1, 2, 9}}, {{3, 1, 1, 3, 9}}});
  EXPECT_THAT(head.mass(MassSpec::Domain::candidates, MassSpec::Group::mean, 1),
              approximately({4.0f / 16, 5.0f / 16, 2.0f / 16, 5.0f / 16, 0}));
  EXPECT_THAT(head.mass(MassSpec::Domain::candidates, MassSpec::Group::max_logit, 1),
              approximately({3.0f / 11, 4.0f / 11, 1.0f / 11, 3.0f / 11, 0}));
  EXPECT_THAT(head.mass(MassSpec::Domain::candidates, MassSpec::Group::per_head, 1),
              approximately({0.125f, 0.5f, 0.125f, 0.25f, 0, 0.375f, 0.125f, 0.125f, 0.375f, 0}));
}

// Three keys and their queries, two heads. The window is the last token.
TEST(Oracle, QueriesCountAsAsked) {
  const TableHead head({{{1, 1, 1}, {1, 3, 1}, {1, 2, 1}}, {{1, 1, 1}, {1, 1, 1}, {3, 3, 2}}});
  EXPECT_THAT(head.mass({.queries = MassSpec::Queries::last, .domain = MassSpec::Domain::all}, 1),
              approximately({(0.25f + 0.375f) / 2, (0.5f + 0.375f) / 2, 0}));
  const float first = 1 + (0.25f + 0.5f) / 2 + (0.25f + 0.375f) / 2;
  const float second = (0.75f + 0.5f) / 2 + (0.5f + 0.375f) / 2;
  for (const auto domain : {MassSpec::Domain::all, MassSpec::Domain::candidates})
    EXPECT_THAT(head.mass({.queries = MassSpec::Queries::all, .domain = domain}, 1),
                approximately({first, second, 0.25f}));
}

TEST(Oracle, StatisticsOfARow) {
  const std::vector<float> row = {3, -4, 0, 1};
  EXPECT_DOUBLE_EQ(oracle::range(row), 7);
  EXPECT_DOUBLE_EQ(oracle::variance(row), 26.0 / 3);  // mean 0, divided by 3
  EXPECT_DOUBLE_EQ(oracle::length(row), std::sqrt(26.0));
  EXPECT_DOUBLE_EQ(oracle::largest(row), 4);
  EXPECT_DOUBLE_EQ(oracle::sketched_square(row, {1, 0, 0, 1, 5, 5, 2, 0}), 25 + 16);  // rank 2
}

// E |x G|^2 = |x|^2.
TEST(Oracle, SketchKeepsLengthsOnAverage) {
  const std::vector<float> row = {1, -2, 3, 0.5f, 0, 1, 1, -1};
  double sum = 0;
  EventContext event;
  for (event.event = 0; event.event < 1000; ++event.event) {
    sum += oracle::sketched_square(row, oracle::sketch_matrix({.rank = 20, .redraw = true}, event, 8)) / 1000;
  }
  EXPECT_NEAR(sum / oracle::dot(row, row), 1.0, 0.05);
}

}  // namespace
}  // namespace kvase

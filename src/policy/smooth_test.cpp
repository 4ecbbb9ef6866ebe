// SPDX-License-Identifier: MIT
// Smoothing: edges, axes, rows, and that the window stays out of it.
#include "policy/smooth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "golden/synthetic.h"

namespace kvase {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using Kind = Smoothing::Kind;
using Axis = Smoothing::Axis;

oracle::Layer layer_of(const std::vector<float>& mass) { return synthetic::small_layer(mass, {}, 1); }

std::vector<double> smoothed(oracle::Layer& layer, const Smoothing& smoothing, uint32_t window = 0,
                             uint32_t n_rows = 1) {
  const LayerView view = layer.view();
  return smoothed_mass(view.heads[0], n_rows, synthetic::small_event(layer.heads[0].pos.size(), window),
                       smoothing);
}

auto near(double value) { return DoubleNear(value, 1e-12); }

TEST(Smooth, MeanPadsWithZerosAndDividesByTheKernel) {
  oracle::Layer layer = layer_of({1, 2, 3, 4, 5});
  EXPECT_THAT(smoothed(layer, {Kind::avg, 5, Axis::position}),
              ElementsAre(near(1.2), near(2.0), near(3.0), near(2.8), near(2.4)));
}

TEST(Smooth, MaximumPadsWithMinusInfinity) {
  oracle::Layer layer = layer_of({1, 5, 2, 0, 1});
  EXPECT_THAT(smoothed(layer, {Kind::max, 3, Axis::position}), ElementsAre(5, 5, 5, 2, 1));
}

TEST(Smooth, NoneAndAKernelOfOneChangeNothing) {
  oracle::Layer layer = layer_of({1, 5, 2});
  EXPECT_THAT(smoothed(layer, {Kind::none, 5, Axis::position}), ElementsAre(1, 5, 2));
  EXPECT_THAT(smoothed(layer, {Kind::avg, 1, Axis::position}), ElementsAre(1, 5, 2));
}

TEST(Smooth, AKernelWiderThanTheRowStillDividesByItself) {
  oracle::Layer layer = layer_of({1, 2});
  EXPECT_THAT(smoothed(layer, {Kind::avg, 63, Axis::position}), ElementsAre(near(3.0 / 63), near(3.0 / 63)));
}

TEST(Smooth, TheWindowNeitherGivesNorTakes) {
  oracle::Layer layer = layer_of({3, 3, 3, 100, 100});
  EXPECT_THAT(smoothed(layer, {Kind::avg, 3, Axis::position}, 2),
              ElementsAre(near(2), near(3), near(2), 0, 0));
  EXPECT_THAT(smoothed(layer, {Kind::max, 3, Axis::position}, 2), ElementsAre(3, 3, 3, 0, 0));
}

TEST(Smooth, NeighboursFollowPositionOrRankNeverTheSlot) {
  oracle::Layer layer = layer_of({1, 2, 4, 8});
  layer.heads[0].pos = {3, 0, 2, 1};   // in the text: 2 8 4 1
  layer.heads[0].rank = {0, 2, 1, 3};  // in the layout: 1 4 2 8
  EXPECT_THAT(smoothed(layer, {Kind::max, 3, Axis::position}), ElementsAre(4, 8, 8, 8));
  EXPECT_THAT(smoothed(layer, {Kind::max, 3, Axis::slot}), ElementsAre(4, 8, 4, 8));
}

TEST(Smooth, NanSpreadsToItsNeighboursOnly) {
  oracle::Layer layer = layer_of({1, 1, std::numeric_limits<float>::quiet_NaN(), 1, 1, 1});
  const std::vector<double> mean = smoothed(layer, {Kind::avg, 3, Axis::position});
  for (size_t slot = 0; slot < 6; ++slot) EXPECT_EQ(std::isnan(mean[slot]), slot >= 1 && slot <= 3) << slot;
  EXPECT_THAT(smoothed(layer, {Kind::max, 3, Axis::position}), ElementsAre(1, 1, 1, 1, 1, 1));
}

// Mean of maxima, not maximum of means.
TEST(Smooth, EveryRowIsFilteredOnItsOwn) {
  oracle::Layer layer = layer_of({4, 0, 0});
  layer.heads[0][Statistic::mass] = {4, 0, 0, 0, 0, 6};
  EXPECT_THAT(smoothed(layer, {Kind::max, 3, Axis::position}, 0, 2), ElementsAre(2, 5, 3));
}

}  // namespace
}  // namespace kvase

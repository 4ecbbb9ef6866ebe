// SPDX-License-Identifier: MIT
// Ticks that a person would choose, names that never overlap, data that is where it should be.
#include "report/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>

namespace kvase::report {
namespace {

std::vector<std::string> labels_of(const std::vector<Tick>& ticks) {
  std::vector<std::string> labels;
  for (const Tick& tick : ticks) labels.push_back(tick.label);
  return labels;
}

// The vertical places of the texts that hold `mark`.
std::vector<double> text_places(const std::string& svg, const std::string& mark) {
  std::vector<double> places;
  const std::regex pattern("<text x=\"[0-9.]+\" y=\"([0-9.]+)\"[^>]*>[^<]*" + mark);
  for (std::sregex_iterator found(svg.begin(), svg.end(), pattern), end; found != end; ++found)
    places.push_back(std::stod((*found)[1]));
  return places;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

Chart flat_chart(size_t n_series) {
  Chart chart{.title = "All at one place", .x = {.label = "x"}, .y = {.label = "y"}};
  for (size_t index = 0; index < n_series; ++index)
    chart.series.push_back({"series-" + std::to_string(index), {{1, 1}, {2, 1}}});
  return chart;
}

TEST(Ticks, LinearAreRoundAndInside) {
  EXPECT_THAT(labels_of(choose_ticks(0, 1, Scale::linear)),
              testing::ElementsAre("0.0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(labels_of(choose_ticks(-3, 7, Scale::linear)), testing::ElementsAre("-2", "0", "2", "4", "6"));
  EXPECT_THAT(labels_of(choose_ticks(0, 24000, Scale::linear)),
              testing::ElementsAre("0", "5,000", "10,000", "15,000", "20,000"));
  EXPECT_THAT(labels_of(choose_ticks(0.101, 0.106, Scale::linear)),
              testing::ElementsAre("0.101", "0.102", "0.103", "0.104", "0.105", "0.106"));
}

TEST(Ticks, LogTakesDecadesOrFinerSteps) {
  EXPECT_THAT(labels_of(choose_ticks(1e-4, 1, Scale::log)),
              testing::ElementsAre("0.0001", "0.001", "0.01", "0.1", "1"));
  EXPECT_THAT(labels_of(choose_ticks(1, 50, Scale::log)),
              testing::ElementsAre("1", "2", "5", "10", "20", "50"));
  EXPECT_GE(choose_ticks(0.31, 0.39, Scale::log).size(), 4U);
  EXPECT_LE(choose_ticks(1e-30, 1e30, Scale::log).size(), 10U);
}

TEST(Chart, NamesOfTwentySeriesNeverOverlap) {
  std::vector<double> places = text_places(to_svg(flat_chart(20)), "series-");
  ASSERT_EQ(places.size(), 20U);
  std::ranges::sort(places);
  for (size_t index = 1; index < places.size(); ++index)
    EXPECT_GE(places[index] - places[index - 1], 13) << index;
}

TEST(Chart, LeavesOutWhatAnAxisCannotShowAndSaysSo) {
  Chart chart{.title = "t", .x = {.label = "x"}, .y = {.label = "y", .scale = Scale::log}};
  chart.series = {{"a", {{1, 0.5}, {2, 0}, {3, std::nan("")}, {4, 0.25}}}};
  const std::string svg = to_svg(chart);
  EXPECT_EQ(count(svg, "<title>a: "), 2U);
  EXPECT_THAT(svg, testing::HasSubstr("2 points that the axes cannot show were left out"));
  EXPECT_THAT(svg, testing::Not(testing::HasSubstr("nan")));
}

TEST(Chart, WithoutPointsSaysNoData) {
  EXPECT_THAT(to_svg({.title = "t", .x = {.label = "x"}, .y = {.label = "y"}}),
              testing::HasSubstr(">no data<"));
}

TEST(Chart, PutsLargerValuesHigherAndFurtherRight) {
  Chart chart{.title = "t", .x = {.label = "x", .scale = Scale::log}, .y = {.label = "y"}};
  chart.series = {{"a", {{1, 10}, {10, 20}, {100, 30}}}};
  const std::string svg = to_svg(chart);
  const std::regex pattern("points=\"([0-9.]+),([0-9.]+) ([0-9.]+),([0-9.]+) ([0-9.]+),([0-9.]+) \"");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(svg, found, pattern));
  const auto number = [&](size_t group) { return std::stod(found[group]); };
  EXPECT_NEAR(number(3) - number(1), number(5) - number(3), 0.2);  // equal factors, equal distances
  EXPECT_GT(number(3), number(1));
  EXPECT_NEAR(number(2) - number(4), number(4) - number(6), 0.2);
  EXPECT_GT(number(2), number(4));
}

TEST(Chart, SpreadBelowALogAxisEndsAtItsBottom) {
  Chart chart{.title = "t", .x = {.label = "x"}, .y = {.label = "y", .scale = Scale::log}};
  chart.series = {{"a", {{1, 0.5, Interval{-0.1, 1}}, {2, 0.1}}}};
  for (const Spread spread : {Spread::bars, Spread::band}) {
    chart.spread = spread;
    EXPECT_THAT(to_svg(chart), testing::Not(testing::HasSubstr("nan")));
  }
}

TEST(Chart, EscapesNames) {
  Chart chart = flat_chart(1);
  chart.series[0].name = "a<b & \"c\"";
  chart.title = "<script>";
  const std::string svg = to_svg(chart);
  EXPECT_THAT(svg, testing::HasSubstr("a&lt;b &amp; &quot;c&quot;"));
  EXPECT_THAT(svg, testing::Not(testing::HasSubstr("<script>")));
}

}  // namespace
}  // namespace kvase::report

// SPDX-License-Identifier: MIT
// Line and scatter charts as SVG text: self-contained, readable on light and dark pages, in colours and
// shapes that colour-blind eyes tell apart.
//
// Every series is named beside its last point, in a column on the right that never overlaps; the column is
// the legend. A point that an axis cannot show (not finite, or not positive on a log axis) is left out, and a
// line below the chart counts them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace kvase::report {

enum class Scale { linear, log };

struct Tick {
  double value = 0;
  std::string label;
};

struct Axis {
  std::string label;  // with the unit, as "K and V, MiB"
  Scale scale = Scale::linear;
  std::vector<Tick> ticks = {};  // where to put them; empty: chosen from the data
  bool from_zero = false;        // linear only: the axis begins at 0 though no point does
};

struct Interval {
  double low = 0, high = 0;
};

struct Point {
  double x = 0, y = 0;
  std::optional<Interval> spread = std::nullopt;  // of y
};

struct Series {
  std::string name;
  std::vector<Point> points;
};

enum class Spread { bars, band };

struct Chart {
  std::string title;
  std::string subtitle = {};  // what was measured, on what
  Axis x, y;
  std::vector<Series> series = {};
  bool lines = true;             // joined from left to right; false: markers only
  Spread spread = Spread::bars;  // how Point::spread is drawn
};

// A whole SVG document, UTF-8, ending in a line break.
std::string to_svg(const Chart& chart);

// Ticks that a person would choose, ascending, within [low, high]. REQUIRES: low < high, both finite; log:
// low > 0.
std::vector<Tick> choose_ticks(double low, double high, Scale scale);

}  // namespace kvase::report

// SPDX-License-Identifier: MIT
// Data to pixels, and every text at a place of its own.
#include "report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "report/markup.h"

namespace kvase::report {
namespace {

// All lengths in pixels.
constexpr double kPlotLeft = 84, kPlotWidth = 540, kLeastPlotHeight = 380;
constexpr double kLabelStep = 17;    // between two names
constexpr double kLabelGap = 46;     // from plot to names
constexpr double kCharacter = 7.2;   // width of one at 13 px, a little more than the average
constexpr size_t kLongestName = 48;  // characters; the whole name is in the tooltip
constexpr double kPadding = 0.04;    // of the axis, beyond the outermost points
constexpr double kMarker = 4.2;      // half the width

// Okabe and Ito's colours and neighbours of them, dark enough on white; brighter ones on dark. Beside the
// shape, so that neither has to tell twenty series apart alone.
constexpr std::array<const char*, 7> kOnLight = {"#0072B2", "#D55E00", "#007A5A", "#A8327A",
                                                 "#A67C00", "#2B8CBE", "#555555"};
constexpr std::array<const char*, 7> kOnDark = {"#58A6FF", "#FF9257", "#3CC8A0", "#E58CC0",
                                                "#F0C649", "#8FD3FF", "#BDBDBD"};

std::string style() {
  std::string light, dark;
  for (size_t color = 0; color < kOnLight.size(); ++color) {
    light += fmt::format(".kc{}{{color:{}}}", color, kOnLight[color]);
    dark += fmt::format(".kc{}{{color:{}}}", color, kOnDark[color]);
  }
  return fmt::format(
      "<style>.kc-page{{fill:#ffffff}}.kc-text{{fill:#1f2328}}.kc-faint{{fill:#59636e}}.kc-grid{{stroke:#"
      "e1e5ea}}"
      ".kc-axis{{stroke:#59636e}}{}"
      "@media (prefers-color-scheme:dark){{.kc-page{{fill:#0d1117}}.kc-text{{fill:#e6edf3}}"
      ".kc-faint{{fill:#9198a1}}.kc-grid{{stroke:#2b323b}}.kc-axis{{stroke:#9198a1}}{}}}</style>\n",
      light, dark);
}

// ---- ticks

// 1, 2 or 5 times a power of ten, not below `least`.
double nice_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

std::string with_separators(const std::string& digits) {
  const size_t point = std::min(digits.find('.'), digits.size());
  const size_t first = digits.starts_with('-') ? 1 : 0;
  std::string text = digits;
  for (size_t place = point; place > first + 3; place -= 3) text.insert(place - 3, 1, ',');
  return text;
}

std::string linear_label(double value, double step) {
  const double size = std::max(std::abs(value), step);
  if (size >= 1e7 || step < 1e-6) return fmt::format("{:g}", value);
  const int n_decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  return with_separators(fmt::format("{:.{}f}", std::abs(value) < step / 2 ? 0.0 : value, n_decimals));
}

std::vector<Tick> linear_ticks(double low, double high) {
  const double step = nice_step((high - low) / 6);
  std::vector<Tick> ticks;
  const auto last = static_cast<int64_t>(std::floor(high / step + 1e-9));
  for (auto multiple = static_cast<int64_t>(std::ceil(low / step - 1e-9)); multiple <= last; ++multiple) {
    const double value = static_cast<double>(multiple) * step;
    ticks.push_back({value, linear_label(value, step)});
  }
  return ticks;
}

std::vector<Tick> decade_ticks(double low, double high, std::initializer_list<double> factors, int every) {
  std::vector<Tick> ticks;
  const auto first = static_cast<int>(std::floor(std::log10(low)));
  const auto last = static_cast<int>(std::ceil(std::log10(high)));
  for (int exponent = first; exponent <= last; ++exponent) {
    if (exponent % every != 0) continue;
    for (const double factor : factors) {
      const double value = factor * std::pow(10, exponent);
      if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
      ticks.push_back({value, value >= 1e4 && value < 1e7 ? with_separators(fmt::format("{:.0f}", value))
                                                          : fmt::format("{:g}", value)});
    }
  }
  return ticks;
}

// ---- axes

// Values to a share of the axis, 0 at its beginning.
class Ruler {
 public:
  Ruler(const Axis& axis, double low, double high) : log_(axis.scale == Scale::log) {
    if (axis.from_zero && !log_) low = std::min(low, 0.0), high = std::max(high, 0.0);
    low_ = forward(low);
    high_ = forward(high);
    double padding = kPadding * (high_ - low_);
    if (padding <= 0) padding = log_ ? 0.1 : std::max(std::abs(low_) * 0.1, 1e-12);
    const bool keeps_zero = axis.from_zero && !log_ && low == 0;
    if (!keeps_zero) low_ -= padding;
    high_ += padding;
  }
  double share(double value) const { return (forward(value) - low_) / (high_ - low_); }
  // A spread may reach beyond what the axis can show.
  double clipped(double value) const { return log_ && value <= 0 ? 0 : std::clamp(share(value), 0.0, 1.0); }
  double low() const { return backward(low_); }
  double high() const { return backward(high_); }

 private:
  double forward(double value) const { return log_ ? std::log10(value) : value; }
  double backward(double value) const { return log_ ? std::pow(10, value) : value; }
  bool log_;
  double low_ = 0, high_ = 0;
};

bool can_show(const Axis& axis, double value) {
  return std::isfinite(value) && (axis.scale == Scale::linear || value > 0);
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

// ---- the picture

struct Label {
  size_t series = 0;
  double x = 0, y = 0;  // of the last point
  double text_y = 0;    // where the name stands
};

// Corners in units of kMarker; none: a circle.
using Corners = std::vector<std::array<double, 2>>;
const std::array<Corners, 6>& marker_shapes() {
  static const std::array<Corners, 6> shapes = {{
      {},
      {{-.9, -.9}, {.9, -.9}, {.9, .9}, {-.9, .9}},
      {{0, -1.2}, {1.15, .9}, {-1.15, .9}},
      {{0, -1.35}, {1.35, 0}, {0, 1.35}, {-1.35, 0}},
      {{0, 1.2}, {1.15, -.9}, {-1.15, -.9}},
      {{-1.1, -.4},
       {-.4, -.4},
       {-.4, -1.1},
       {.4, -1.1},
       {.4, -.4},
       {1.1, -.4},
       {1.1, .4},
       {.4, .4},
       {.4, 1.1},
       {-.4, 1.1},
       {-.4, .4},
       {-1.1, .4}},
  }};
  return shapes;
}

std::string marker(size_t series, double x, double y) {
  const Corners& corners = marker_shapes()[series % marker_shapes().size()];
  if (corners.empty())
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"currentColor\"/>", x, y, kMarker);
  std::string path;
  for (const auto& [right, down] : corners)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', x + kMarker * right, y + kMarker * down);
  return fmt::format("<path d=\"{}z\" fill=\"currentColor\"/>", path);
}

class Picture {
 public:
  explicit Picture(const Chart& chart) : chart_(&chart), series_(chart.series) {
    Range x, y;
    for (Series& series : series_) {
      const size_t n_given = series.points.size();
      std::erase_if(series.points, [&](const Point& point) {
        return !can_show(chart.x, point.x) || !can_show(chart.y, point.y);
      });
      n_hidden_ += n_given - series.points.size();
      std::ranges::stable_sort(series.points, {}, &Point::x);
      for (const Point& point : series.points) {
        x.add(point.x);
        y.add(point.y);
        if (!point.spread) continue;
        for (const double end : {point.spread->low, point.spread->high})
          if (can_show(chart.y, end)) y.add(end);
      }
    }
    if (!x.empty()) {
      x_.emplace(chart.x, x.low, x.high);
      y_.emplace(chart.y, y.low, y.high);
    }
    const size_t n_labels = static_cast<size_t>(
        std::ranges::count_if(series_, [](const Series& series) { return !series.points.empty(); }));
    height_ = std::max(kLeastPlotHeight, kLabelStep * static_cast<double>(n_labels));
    top_ = chart.subtitle.empty() ? 48 : 68;
  }

  std::string draw() {
    std::string body;
    if (x_) {
      body += draw_x_axis() + draw_y_axis();
      for (size_t series = 0; series < series_.size(); ++series) body += draw_series(series);
      body += draw_labels();
    } else {
      body += text(kPlotLeft + kPlotWidth / 2, top_ + height_ / 2, "no data", "middle", "kc-faint");
    }
    return frame(body);
  }

 private:
  double pixel_x(double value) const { return kPlotLeft + kPlotWidth * x_->share(value); }
  double pixel_y(double value) const { return top_ + height_ * (1 - y_->share(value)); }
  double pixel_y_clipped(double value) const { return top_ + height_ * (1 - y_->clipped(value)); }
  double bottom() const { return top_ + height_; }

  static std::string text(double x, double y, const std::string& words, const char* anchor, const char* css,
                          int size = 13) {
    return fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\" font-size=\"{}\">{}</text>\n", x, y,
        anchor, css, size, escape_markup(words));
  }
  static std::string line(double x1, double y1, double x2, double y2, const char* css) {
    return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1,
                       y1, x2, y2, css);
  }

  std::string frame(const std::string& body) const {
    size_t longest = 0;
    for (const Series& series : series_)
      longest = std::max(longest, std::min(series.name.size(), kLongestName));
    const double names = series_.empty() ? 0 : kLabelGap + kCharacter * static_cast<double>(longest);
    const double heading =
        kCharacter * 1.02 *
        static_cast<double>(std::max(chart_->subtitle.size(), chart_->title.size() * 5 / 4));
    const double width = std::max(kPlotLeft + kPlotWidth + names + 16, heading + 32);
    const double height = bottom() + (n_hidden_ > 0 ? 84 : 64);
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" "
        "role=\"img\" aria-label=\"{2}\" font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', "
        "sans-serif\">\n<title>{2}</title>\n",
        width, height, escape_markup(chart_->title));
    svg += style();
    svg += fmt::format("<rect width=\"{:.0f}\" height=\"{:.0f}\" class=\"kc-page\"/>\n", width, height);
    svg += text(16, 28, chart_->title, "start", "kc-text\" font-weight=\"600", 16);
    if (!chart_->subtitle.empty()) svg += text(16, 49, chart_->subtitle, "start", "kc-faint");
    svg += body;
    svg += text(kPlotLeft + kPlotWidth / 2, bottom() + 46, chart_->x.label, "middle", "kc-text");
    svg += fmt::format(
        "<text transform=\"translate(20 {:.1f}) rotate(-90)\" text-anchor=\"middle\" class=\"kc-text\" "
        "font-size=\"13\">{}</text>\n",
        top_ + height_ / 2, escape_markup(chart_->y.label));
    if (n_hidden_ > 0) {
      svg +=
          text(16, height - 12, fmt::format("{} points that the axes cannot show were left out", n_hidden_),
               "start", "kc-faint", 12);
    }
    return svg + "</svg>\n";
  }

  std::vector<Tick> ticks(const Axis& axis, const Ruler& ruler) const {
    return axis.ticks.empty() ? choose_ticks(ruler.low(), ruler.high(), axis.scale) : axis.ticks;
  }

  std::string draw_x_axis() const {
    std::string svg;
    for (const Tick& tick : ticks(chart_->x, *x_)) {
      const double share = can_show(chart_->x, tick.value) ? x_->share(tick.value) : -1;
      if (share < 0 || share > 1) continue;
      svg += line(pixel_x(tick.value), top_, pixel_x(tick.value), bottom(), "kc-grid");
      svg += text(pixel_x(tick.value), bottom() + 20, tick.label, "middle", "kc-faint", 12);
    }
    return svg + line(kPlotLeft, bottom(), kPlotLeft + kPlotWidth, bottom(), "kc-axis");
  }

  std::string draw_y_axis() const {
    std::string svg;
    for (const Tick& tick : ticks(chart_->y, *y_)) {
      const double share = can_show(chart_->y, tick.value) ? y_->share(tick.value) : -1;
      if (share < 0 || share > 1) continue;
      svg += line(kPlotLeft, pixel_y(tick.value), kPlotLeft + kPlotWidth, pixel_y(tick.value), "kc-grid");
      svg += text(kPlotLeft - 8, pixel_y(tick.value) + 4, tick.label, "end", "kc-faint", 12);
    }
    return svg + line(kPlotLeft, top_, kPlotLeft, bottom(), "kc-axis");
  }

  std::string draw_series(size_t index) const {
    const Series& series = series_[index];
    std::string svg = open_group(index);
    if (chart_->spread == Spread::band) svg += draw_band(series);
    if (chart_->lines && series.points.size() > 1) {
      std::string points;
      for (const Point& point : series.points)
        points += fmt::format("{:.1f},{:.1f} ", pixel_x(point.x), pixel_y(point.y));
      svg += fmt::format(
          "<polyline points=\"{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.8\"{}/>\n", points,
          index >= kOnLight.size() ? " stroke-dasharray=\"6 3\"" : "");
    }
    for (const Point& point : series.points) {
      if (chart_->spread == Spread::bars && point.spread) svg += draw_bar(point);
      svg += fmt::format("<g><title>{}</title>{}</g>\n", escape_markup(tooltip(series, point)),
                         marker(index, pixel_x(point.x), pixel_y(point.y)));
    }
    return svg + "</g>\n";
  }

  static std::string open_group(size_t index) {
    return fmt::format("<g class=\"kc{}\">\n", index % kOnLight.size());
  }

  static std::string tooltip(const Series& series, const Point& point) {
    std::string words = fmt::format("{}: {:.6g}, {:.6g}", series.name, point.x, point.y);
    if (point.spread) words += fmt::format(" ({:.6g} to {:.6g})", point.spread->low, point.spread->high);
    return words;
  }

  std::string draw_bar(const Point& point) const {
    const double x = pixel_x(point.x);
    const double low = pixel_y_clipped(point.spread->low);
    const double high = pixel_y_clipped(point.spread->high);
    return fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}h6m-3 0V{2:.1f}m-3 0h6\" fill=\"none\" stroke=\"currentColor\" "
        "stroke-width=\"1.2\"/>\n",
        x - 3, low, high);
  }

  std::string draw_band(const Series& series) const {
    std::string forth, back;
    for (const Point& point : series.points) {
      const Interval spread = point.spread.value_or(Interval{point.y, point.y});
      forth += fmt::format("{:.1f},{:.1f} ", pixel_x(point.x), pixel_y_clipped(spread.high));
      back = fmt::format("{:.1f},{:.1f} ", pixel_x(point.x), pixel_y_clipped(spread.low)) + back;
    }
    return fmt::format("<polygon points=\"{}{}\" fill=\"currentColor\" fill-opacity=\"0.15\"/>\n", forth,
                       back);
  }

  // Names in the order of the last points, pushed apart downwards, then upwards from the bottom.
  std::vector<Label> place_labels() const {
    std::vector<Label> labels;
    for (size_t index = 0; index < series_.size(); ++index) {
      if (series_[index].points.empty()) continue;
      const Point& last = series_[index].points.back();
      labels.push_back({index, pixel_x(last.x), pixel_y(last.y), pixel_y(last.y)});
    }
    std::ranges::stable_sort(labels, {}, &Label::y);
    double least = top_ + kLabelStep / 2;
    for (Label& label : labels) {
      label.text_y = std::max(label.y, least);
      least = label.text_y + kLabelStep;
    }
    double most = bottom() - kLabelStep / 2;
    for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
      label->text_y = std::min(label->text_y, most);
      most = label->text_y - kLabelStep;
    }
    return labels;
  }

  std::string draw_labels() const {
    std::string svg;
    const double x = kPlotLeft + kPlotWidth + kLabelGap;
    for (const Label& label : place_labels()) {
      const std::string& name = series_[label.series].name;
      svg += open_group(label.series);
      svg += fmt::format(
          "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}h8\" fill=\"none\" stroke=\"currentColor\" "
          "stroke-width=\"0.8\" "
          "stroke-opacity=\"0.55\"/>\n",
          label.x + kMarker + 2, label.y, x - 24, label.text_y);
      svg += marker(label.series, x - 9, label.text_y);
      svg += fmt::format("\n<g><title>{}</title>{}</g></g>\n", escape_markup(name),
                         text(x, label.text_y + 4.5, short_name(name), "start", "kc-text"));
    }
    return svg;
  }

  static std::string short_name(const std::string& name) {
    return name.size() <= kLongestName ? name : name.substr(0, kLongestName - 1) + "…";
  }

  const Chart* chart_;
  std::vector<Series> series_;  // what the axes can show
  std::optional<Ruler> x_, y_;  // none if there is nothing to show
  size_t n_hidden_ = 0;
  double top_ = 0, height_ = 0;
};

}  // namespace

std::vector<Tick> choose_ticks(double low, double high, Scale scale) {
  if (scale == Scale::linear) return linear_ticks(low, high);
  const double n_decades = std::log10(high / low);
  if (n_decades >= 3) return decade_ticks(low, high, {1}, static_cast<int>(n_decades / 8) + 1);
  if (n_decades >= 1.3) return decade_ticks(low, high, {1, 2, 5}, 1);
  std::vector<Tick> ticks = decade_ticks(low, high, {1, 1.5, 2, 3, 4, 5, 7}, 1);
  return ticks.size() >= 4 ? ticks : linear_ticks(low, high);
}

std::string to_svg(const Chart& chart) { return Picture(chart).draw(); }

}  // namespace kvase::report

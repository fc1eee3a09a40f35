#include "scenario/report_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "scenario/report_format.h"

namespace weir::scenario {
namespace {

// In units of the view box.
constexpr double kWidth = 640;
constexpr double kHeight = 270;
constexpr double kLeft = 62;
constexpr double kRight = 12;
constexpr double kTop = 14;
constexpr double kBottom = 36;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotHeight = kHeight - kTop - kBottom;
constexpr size_t kMaxReadOuts = 240;     // slots with a read-out; beyond: none
constexpr size_t kMaxReadOutLines = 12;  // series named in one
constexpr double kReadOutLineHeight = 15;

// 1, 2 or 5 times a power of ten, so that at most `most` steps cover `range`.
double NiceStep(double range, int most) {
  const double rough = range / most;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

struct Scale {
  double x0 = 0, x1 = 1;  // data
  double y0 = 0, y1 = 1;  // data; powers of ten when logarithmic
  bool logarithmic = false;
  double step = 1;

  double X(double x) const { return kLeft + (x - x0) / (x1 - x0) * kPlotWidth; }
  double Y(double y) const {
    double share = 0;
    if (logarithmic) {
      share = (std::log10(std::max(y, y0)) - std::log10(y0)) / (std::log10(y1) - std::log10(y0));
    } else {
      share = (y - y0) / (y1 - y0);
    }
    return kTop + (1 - std::clamp(share, 0.0, 1.0)) * kPlotHeight;
  }
};

Scale ScaleOf(const Chart& chart) {
  Scale scale;
  double high = chart.y_max;
  for (const Series& series : chart.series) {
    for (double y : series.y) {
      if (std::isfinite(y)) high = std::max(high, y);
    }
  }
  if (!(high > 0)) high = 1;
  if (!chart.slot_starts.empty()) scale.x0 = chart.slot_starts.front();
  scale.x1 = std::max(chart.end, scale.x0 + 1e-3);
  scale.logarithmic = chart.logarithmic && chart.y_min > 0;
  if (scale.logarithmic) {
    scale.y0 = std::pow(10, std::floor(std::log10(chart.y_min)));
    scale.y1 = std::pow(10, std::ceil(std::log10(high)));
    if (scale.y1 <= scale.y0 * 1.001) scale.y1 = scale.y0 * 10;
  } else {
    scale.step = NiceStep(high * 1.04, 5);
    scale.y1 = std::ceil(high * 1.04 / scale.step) * scale.step;
  }
  return scale;
}

void DrawYTick(double y, const Scale& scale, std::string* svg) {
  const double at = scale.Y(y);
  fmt::format_to(std::back_inserter(*svg),
                 "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
                 "<text class=\"tick\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                 kLeft, kWidth - kRight, at, at, kLeft - 7, at + 4, FormatCount(y));
}

void DrawAxes(const Scale& scale, std::string* svg) {
  if (scale.logarithmic) {
    for (double y = scale.y0; y <= scale.y1 * 1.001; y *= 10) DrawYTick(y, scale, svg);
  } else {
    for (double y = 0; y <= scale.y1 * 1.001; y += scale.step) DrawYTick(y, scale, svg);
  }
  const double step = NiceStep(scale.x1 - scale.x0, 10);
  // Adding 0.0 turns a negative zero into zero.
  for (double x = std::ceil(scale.x0 / step - 1e-9) * step; x <= scale.x1 + step * 1e-6;
       x += step) {
    fmt::format_to(std::back_inserter(*svg),
                   "<line class=\"axis\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" "
                   "y2=\"{2:.1f}\"/><text class=\"tick\" text-anchor=\"middle\" x=\"{0:.1f}\" "
                   "y=\"{3:.1f}\">{4}</text>\n",
                   scale.X(x), kTop + kPlotHeight, kTop + kPlotHeight + 4, kTop + kPlotHeight + 17,
                   FormatSeconds(x + 0.0));
  }
  fmt::format_to(
      std::back_inserter(*svg),
      "<line class=\"axis\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
      "<text class=\"tick\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">time, s</text>\n",
      kLeft, kWidth - kRight, kTop + kPlotHeight, kTop + kPlotHeight, kWidth - kRight, kHeight - 4);
}

double SlotEnd(const Chart& chart, size_t slot) {
  return slot + 1 < chart.slot_starts.size() ? chart.slot_starts[slot + 1] : chart.end;
}

void DrawLine(const Chart& chart, const Series& series, const Scale& scale, std::string* svg) {
  std::string path;
  std::string dots;
  bool drawing = false;
  for (size_t i = 0; i < std::min(series.y.size(), chart.slot_starts.size()); ++i) {
    if (!std::isfinite(series.y[i])) {
      drawing = false;
      continue;
    }
    const double x = scale.X((chart.slot_starts[i] + SlotEnd(chart, i)) / 2);
    const double y = scale.Y(series.y[i]);
    fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", drawing ? "L" : "M", x, y);
    const bool alone = !drawing && (i + 1 >= series.y.size() || !std::isfinite(series.y[i + 1]));
    if (alone) {
      fmt::format_to(std::back_inserter(dots),
                     "<circle class=\"dot s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>",
                     series.style, x, y);
    }
    drawing = true;
  }
  fmt::format_to(std::back_inserter(*svg), "<path class=\"line s{}\" d=\"{}\"/>{}\n", series.style,
                 path, dots);
}

void DrawReferences(const Chart& chart, const Scale& scale, std::string* svg) {
  for (const Reference& reference : chart.references) {
    if (reference.y > scale.y1 || reference.y <= 0) continue;
    fmt::format_to(std::back_inserter(*svg),
                   "<line class=\"reference s{0}\" x1=\"{1:.1f}\" x2=\"{2:.1f}\" y1=\"{3:.1f}\" "
                   "y2=\"{3:.1f}\"><title>{4}</title></line>\n",
                   reference.style, kLeft, kWidth - kRight, scale.Y(reference.y),
                   EscapeHtml(reference.name));
  }
}

void DrawMarkers(const Chart& chart, const Scale& scale, std::string* svg) {
  for (const Marker& marker : chart.markers) {
    const double x = scale.X(marker.x);
    fmt::format_to(std::back_inserter(*svg),
                   "<line class=\"marker\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" "
                   "y2=\"{2:.1f}\"/><text class=\"marker-text\" text-anchor=\"middle\" "
                   "x=\"{0:.1f}\" y=\"{3:.1f}\">{4}</text>\n",
                   x, kTop, kTop + kPlotHeight, kTop - 3, marker.number);
  }
}

// What CSS shows while the pointer is over the slot: a line, and the values of all series, the
// largest first.
void DrawReadOut(const Chart& chart, size_t slot, const Scale& scale, std::string* svg) {
  const double start = chart.slot_starts[slot];
  const double end = SlotEnd(chart, slot);
  const double x = scale.X((start + end) / 2);
  std::vector<const Series*> present;
  for (const Series& series : chart.series) {
    if (slot < series.y.size() && std::isfinite(series.y[slot])) present.push_back(&series);
  }
  std::stable_sort(present.begin(), present.end(),
                   [slot](const Series* a, const Series* b) { return a->y[slot] > b->y[slot]; });
  if (present.size() > kMaxReadOutLines) present.resize(kMaxReadOutLines);
  size_t widest = 14;
  for (const Series* series : present) {
    widest = std::max(widest, std::min<size_t>(DisplayWidth(series->name), 24) + 12);
  }
  const double width = 22 + 6.4 * static_cast<double>(widest);
  const double height = 10 + kReadOutLineHeight * static_cast<double>(present.size() + 1);
  const double left = x + 10 + width > kWidth ? x - 10 - width : x + 10;
  const double top = kTop + 4;
  fmt::format_to(std::back_inserter(*svg),
                 "<g class=\"slot\"><rect class=\"hit\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
                 "height=\"{:.1f}\"/><g class=\"tip\"><line class=\"cross\" x1=\"{:.1f}\" "
                 "x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><rect class=\"box\" x=\"{:.1f}\" "
                 "y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"4\"/>"
                 "<text class=\"tip-title\" x=\"{:.1f}\" y=\"{:.1f}\">{}-{} s, {}</text>",
                 scale.X(start), kTop, std::max(scale.X(end) - scale.X(start), 0.5), kPlotHeight, x,
                 x, kTop, kTop + kPlotHeight, left, top, width, height, left + 8, top + 15,
                 FormatSeconds(start), FormatSeconds(end), EscapeHtml(chart.unit));
  double y = top + 15;
  for (const Series* series : present) {
    y += kReadOutLineHeight;
    const std::string name = Printable(series->name);
    fmt::format_to(std::back_inserter(*svg),
                   "<circle class=\"dot s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/><text "
                   "x=\"{:.1f}\" y=\"{:.1f}\">{}</text><text text-anchor=\"end\" x=\"{:.1f}\" "
                   "y=\"{:.1f}\">{}</text>",
                   series->style, left + 11, y - 4, left + 19, y,
                   EscapeHtml(DisplayWidth(name) > 24 ? FitLeft(name, 24) : name), left + width - 8,
                   y, FormatCount(series->y[slot]));
  }
  svg->append("</g></g>\n");
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (char c : Printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string DrawChart(const Chart& chart) {
  const Scale scale = ScaleOf(chart);
  std::string svg = fmt::format(
      "<figure class=\"chart\"><figcaption>{} <span class=\"unit\">{}{}</span></figcaption>"
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{} over time\">\n",
      EscapeHtml(chart.title), EscapeHtml(chart.unit), scale.logarithmic ? ", logarithmic" : "",
      kWidth, kHeight, EscapeHtml(chart.title));
  DrawAxes(scale, &svg);
  DrawReferences(chart, scale, &svg);
  DrawMarkers(chart, scale, &svg);
  for (const Series& series : chart.series) DrawLine(chart, series, scale, &svg);
  if (chart.slot_starts.size() <= kMaxReadOuts) {
    for (size_t slot = 0; slot < chart.slot_starts.size(); ++slot) {
      DrawReadOut(chart, slot, scale, &svg);
    }
  }
  return svg + "</svg></figure>\n";
}

}  // namespace weir::scenario

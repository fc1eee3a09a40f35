// Line charts as inline SVG, drawn without scripts: axes with units, change markers, and a read-out
// for each slot of time that CSS shows under the pointer. Internal to the HTML report.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::scenario {

// Text as HTML or SVG content or attribute value. Control characters and stray bytes become '?'.
[[nodiscard]] std::string EscapeHtml(std::string_view text);

struct Series {
  std::string name;
  int style = 0;          // class "s0", "s1", ... of the page's style sheet
  std::vector<double> y;  // one for each slot; NaN = no value
};

struct Reference {
  double y = 0;
  int style = 0;
  std::string name;
};

struct Marker {
  double x = 0;
  int number = 0;
};

struct Chart {
  std::string title;
  std::string unit;
  bool logarithmic = false;
  double y_max = 0;                 // at least this much is shown (charts to be compared share it)
  double y_min = 0;                 // logarithmic only: the smallest value to show, > 0
  std::vector<double> slot_starts;  // ascending; seconds
  double end = 0;                   // of the last slot
  std::vector<Series> series;
  std::vector<Reference> references;
  std::vector<Marker> markers;
};

[[nodiscard]] std::string DrawChart(const Chart& chart);

}  // namespace weir::scenario

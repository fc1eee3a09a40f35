// How numbers and names are written in tables, verdicts and pages. Internal to the reports.
#pragma once

#include <string>
#include <string_view>

#include "base/time.h"

namespace weir::scenario {

// "1,234,567", "998.7", "62.5", "0.33", "0": at least four significant digits, no trailing zeros
// behind the point.
[[nodiscard]] std::string FormatCount(double value);
// "12 B/s", "693 kB/s", "4.979 MB/s", "1.53 GB/s"
[[nodiscard]] std::string FormatBandwidth(double bytes_per_s);
// Milliseconds with three significant digits, no unit: "0.012", "1.92", "104", "2,041".
[[nodiscard]] std::string FormatMillis(Duration d);
// With a unit that fits: "12 us", "1.92 ms", "2.04 s".
[[nodiscard]] std::string FormatLatency(Duration d);
// Whole percent of a share: "93 %". Shares that are not 0 or 1 are never shown as 0 or 100.
[[nodiscard]] std::string FormatPercent(double share);
// "98.3 % of 10,000"; "98 times 100" when the capacity is nowhere near. Requires: capacity > 0.
[[nodiscard]] std::string FormatUse(double rate, double capacity);
// Seconds without trailing zeros: "12", "12.5".
[[nodiscard]] std::string FormatSeconds(double seconds);

// Code points of UTF-8 text, a stray byte counting as one: its width in a terminal.
[[nodiscard]] size_t DisplayWidth(std::string_view text);
// Control characters and stray bytes become '?', so that a name cannot steer a terminal.
[[nodiscard]] std::string Printable(std::string_view text);
// Exactly `width` columns: padded, or cut in the middle with an ellipsis.
[[nodiscard]] std::string FitLeft(std::string_view text, size_t width);
[[nodiscard]] std::string FitRight(std::string_view text, size_t width);

}  // namespace weir::scenario

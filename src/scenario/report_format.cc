#include "scenario/report_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace weir::scenario {
namespace {

// Between the digits in front of the point, if there is one.
std::string WithCommas(std::string number) {
  const size_t first = number.starts_with('-') ? 1 : 0;
  const size_t point = std::min(number.find('.'), number.size());
  for (size_t i = point; i > first + 3; i -= 3) number.insert(i - 3, ",");
  return number;
}

std::string TrimZeros(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// Decimals so that at least `digits` digits are significant.
int Decimals(double value, int digits) {
  const double magnitude = std::abs(value);
  if (magnitude < 1e-9) return 0;
  const int before_point = static_cast<int>(std::floor(std::log10(magnitude))) + 1;
  return std::clamp(digits - before_point, 0, digits + 3);
}

std::string Significant(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  if (std::abs(value) >= 9e18) return fmt::format("{:.3g}", value);
  return WithCommas(TrimZeros(fmt::format("{:.{}f}", value, Decimals(value, digits))));
}

// Length in bytes of the code point at text[i]; 0 if the byte starts none.
size_t CodePointLength(std::string_view text, size_t i) {
  const auto lead = static_cast<unsigned char>(text[i]);
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xC2 ? 0
                        : lead < 0xE0 ? 2
                        : lead < 0xF0 ? 3
                        : lead < 0xF5 ? 4
                                      : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

size_t StepLength(std::string_view text, size_t i) {
  return std::max<size_t>(1, CodePointLength(text, i));
}

// The first `count` code points.
std::string_view Prefix(std::string_view text, size_t count) {
  size_t i = 0;
  for (; count > 0 && i < text.size(); --count) i += StepLength(text, i);
  return text.substr(0, i);
}

std::string Cut(std::string_view text, size_t columns, size_t width) {
  if (width == 0) return "";
  const size_t tail = (width - 1) / 2;
  const size_t head = width - 1 - tail;
  const std::string_view all_but_tail = Prefix(text, columns - tail);
  return std::string(Prefix(text, head)) + "…" + std::string(text.substr(all_but_tail.size()));
}

}  // namespace

std::string FormatCount(double value) { return Significant(value, 4); }

std::string FormatBandwidth(double bytes_per_s) {
  const double magnitude = std::abs(bytes_per_s);
  if (magnitude < 999.5) return Significant(bytes_per_s, 3) + " B/s";
  if (magnitude < 999.95e3) return Significant(bytes_per_s / 1e3, 4) + " kB/s";
  if (magnitude < 9999.5e6) return Significant(bytes_per_s / 1e6, 4) + " MB/s";
  return Significant(bytes_per_s / 1e9, 4) + " GB/s";
}

std::string FormatMillis(Duration d) {
  return Significant(static_cast<double>(d.count()) / 1e6, 3);
}

std::string FormatLatency(Duration d) {
  const auto ns = static_cast<double>(d.count());
  if (ns < 999.5) return Significant(ns, 3) + " ns";
  if (ns < 999.5e3) return Significant(ns / 1e3, 3) + " us";
  if (ns < 9999.5e6) return Significant(ns / 1e6, 3) + " ms";
  return Significant(ns / 1e9, 3) + " s";
}

std::string FormatUse(double rate, double capacity) {
  const double times = rate / capacity;
  const std::string of = FormatCount(capacity);
  return times < 10 ? fmt::format("{:.1f} % of {}", 100 * times, of)
                    : fmt::format("{} times {}", FormatCount(std::round(times)), of);
}

std::string FormatPercent(double share) {
  if (share <= 0) return "0 %";
  if (share < 0.005) return "<1 %";
  if (share < 1 && share > 0.99) return "99 %";
  return fmt::format("{:.0f} %", share * 100);
}

std::string FormatSeconds(double seconds) { return TrimZeros(fmt::format("{:.3f}", seconds)); }

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); i += StepLength(text, i)) ++width;
  return width;
}

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); i += StepLength(text, i)) {
    const size_t length = CodePointLength(text, i);
    const auto lead = static_cast<unsigned char>(text[i]);
    // C0, DEL, and C1 (U+0080..U+009F, in UTF-8 0xC2 0x80..0x9F).
    const bool control =
        lead < 0x20 || lead == 0x7F ||
        (length == 2 && lead == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0);
    if (length == 0 || control) {
      out += '?';
    } else {
      out += text.substr(i, length);
    }
  }
  return out;
}

std::string FitLeft(std::string_view text, size_t width) {
  const size_t columns = DisplayWidth(text);
  if (columns > width) return Cut(text, columns, width);
  return std::string(text) + std::string(width - columns, ' ');
}

std::string FitRight(std::string_view text, size_t width) {
  const size_t columns = DisplayWidth(text);
  if (columns > width) return Cut(text, columns, width);
  return std::string(width - columns, ' ') + std::string(text);
}

}  // namespace weir::scenario

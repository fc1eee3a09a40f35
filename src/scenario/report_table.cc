// The table of a run for a terminal: who gets what and why, interval by interval, and a summary.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "scenario/report.h"
#include "scenario/report_aggregate.h"
#include "scenario/report_format.h"

namespace weir::scenario {
namespace {

constexpr size_t kMinColumns = 100;
constexpr size_t kMinNameWidth = 12;
constexpr size_t kHeldBackWidth = 25;  // "93 % MAX_BANDWIDTH(write)"

struct Column {
  const char* title;
  const char* unit;
  size_t width;
};
constexpr Column kIntervalColumns[] = {{"norm", "op/s", 8},      {"raw", "op/s", 8},
                                       {"bandwidth", "MB/s", 9}, {"got by %", "res/wt/lo", 9},
                                       {"queue", "now", 5},      {"wait", "p99 ms", 7},
                                       {"latency", "p99 ms", 7}};
constexpr Column kSummaryColumns[] = {{"norm", "op/s", 8},      {"raw", "op/s", 8},
                                      {"bandwidth", "MB/s", 9}, {"got by %", "res/wt/lo", 9},
                                      {"wait", "p99 ms", 7},    {"latency", "p50 ms", 7},
                                      {"latency", "p99 ms", 7}};

const char* Ansi(const TableStyle& style, const char* code) { return style.color ? code : ""; }
constexpr const char* kBold = "\x1b[1m";
constexpr const char* kDim = "\x1b[2m";
constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kRed = "\x1b[1;31m";
constexpr const char* kCyan = "\x1b[36m";
constexpr const char* kReset = "\x1b[0m";

size_t Columns(const TableStyle& style) {
  return std::max(kMinColumns, static_cast<size_t>(std::max(style.columns, 0)));
}

template <size_t kCount>
size_t FixedWidth(const Column (&columns)[kCount]) {
  size_t width = kHeldBackWidth + 1;
  for (const Column& column : columns) width += column.width + 1;
  return width;
}

// As wide as the longest name, within what the terminal leaves.
template <size_t kCount>
size_t NameWidth(const RunResult& result, const Column (&columns)[kCount],
                 const TableStyle& style) {
  size_t longest = kMinNameWidth;
  for (size_t i = 0; i < std::min(result.groups.size(), kMaxTableRows); ++i) {
    const int group = static_cast<int>(i);
    longest = std::max(longest, DisplayWidth(NameOf(result, group)) +
                                    2 * static_cast<size_t>(LevelOf(result, group)));
  }
  const size_t room = Columns(style) - FixedWidth(columns);
  return std::clamp(longest, std::min(kMinNameWidth, room), room);
}

template <size_t kCount>
std::string HeaderLines(const char* first, size_t name_width, const Column (&columns)[kCount],
                        const TableStyle& style) {
  std::string titles = FitLeft(first, name_width);
  std::string units = FitLeft("", name_width);
  for (const Column& column : columns) {
    titles += " " + FitRight(column.title, column.width);
    units += " " + FitRight(column.unit, column.width);
  }
  return fmt::format("{}{} held back by{}\n{}{} % of the time{}\n", Ansi(style, kBold), titles,
                     Ansi(style, kReset), Ansi(style, kDim), units, Ansi(style, kReset));
}

// Fixed decimals by magnitude, so that columns line up: "0.693", "52.06", "491.3", "2,041".
std::string Quantity(double value, size_t width) {
  if (value < 0.0005) return "0";
  if (value < 9.9995) return fmt::format("{:.3f}", value);
  if (value < 99.995) return fmt::format("{:.2f}", value);
  if (value < 999.95) return fmt::format("{:.1f}", value);
  std::string text = FormatCount(std::round(value));
  if (text.size() <= width) return text;
  return value < 999.5e6 ? fmt::format("{:.0f}M", value / 1e6)
                         : fmt::format("{:.0f}G", value / 1e9);
}

std::string Ops(double value, size_t width) {
  return value < 999.95 ? FormatCount(std::round(value * 10) / 10) : Quantity(value, width);
}

std::string Millis(Duration d, uint64_t count, size_t width) {
  return count == 0 ? "-" : Quantity(static_cast<double>(d.count()) / 1e6, width);
}

// Whole percents that add up to 100.
std::string Shares(double reservation, double weight, double leftover) {
  const double sum = reservation + weight + leftover;
  if (sum <= 0) return "-";
  const auto by_reservation = std::lround(100 * reservation / sum);
  const auto by_weight = std::min(std::lround(100 * weight / sum), 100 - by_reservation);
  return fmt::format("{}/{}/{}", by_reservation, by_weight, 100 - by_reservation - by_weight);
}

std::string HeldBack(double share, const std::string& limit) {
  if (limit.empty() || share < 0.005) return "";
  return FormatPercent(share) + " " + Printable(limit);
}

// By the group's own limit, else by that of the nearest group above that is held back.
template <typename SampleOf>
std::string HeldBackWithParents(const RunResult& result, int group, const SampleOf& sample_of) {
  for (int i = group; i >= 0;) {
    const auto& sample = sample_of(i);
    const std::string text = HeldBack(sample.blocked_share, sample.blocked_by);
    if (!text.empty()) {
      if (i == group) return text;
      return fmt::format("{} with {}", FormatPercent(sample.blocked_share),
                         Printable(NameOf(result, i)));
    }
    const int parent = result.groups[static_cast<size_t>(i)].parent;
    i = parent < i ? parent : -1;
  }
  return "";
}

std::string IndentedName(const RunResult& result, int group) {
  return std::string(2 * static_cast<size_t>(LevelOf(result, group)), ' ') +
         Printable(NameOf(result, group));
}

template <size_t kCount>
std::string RowText(const std::string& name, size_t name_width, const Column (&columns)[kCount],
                    const std::vector<std::string>& cells, const std::string& held_back) {
  std::string row = FitLeft(name, name_width);
  for (size_t i = 0; i < kCount; ++i) row += " " + FitRight(cells[i], columns[i].width);
  if (!held_back.empty()) row += " " + FitLeft(held_back, kHeldBackWidth);
  row.erase(row.find_last_not_of(' ') + 1);
  return row + "\n";
}

// The groups worth a row, of the first `count`.
std::vector<int> Rows(const RunResult& result, size_t count) {
  std::vector<int> rows;
  for (size_t i = 0; i < std::min(count, result.groups.size()); ++i) {
    const int group = static_cast<int>(i);
    if (!IsIdleOtherGroups(result, group)) rows.push_back(group);
  }
  return rows;
}

std::span<const int> ShownOf(const std::vector<int>& rows) {
  return std::span(rows).first(std::min(rows.size(), kMaxTableRows));
}

std::string MoreRows(const std::vector<int>& rows) {
  if (rows.size() <= kMaxTableRows) return "";
  return fmt::format("... and {} more groups; --json, --csv and --html have all\n",
                     rows.size() - kMaxTableRows);
}

std::string DeviceLoad(const RunResult& result, double norm_iops) {
  std::string text = "device " + FormatCount(std::round(norm_iops)) + " norm op/s";
  if (result.capacity > 0) {
    text += ", " + FormatUse(norm_iops, result.capacity);
  }
  return text;
}

std::string VerdictLines(const std::vector<Verdict>& verdicts, const TableStyle& style) {
  if (verdicts.empty()) return "";
  const auto held = std::count_if(verdicts.begin(), verdicts.end(),
                                  [](const Verdict& verdict) { return verdict.held; });
  std::string text = fmt::format("\n{}Promises: {} of {} held{}\n", Ansi(style, kBold), held,
                                 verdicts.size(), Ansi(style, kReset));
  for (const Verdict& verdict : verdicts) {
    const std::string promise = Printable(verdict.promise);
    const std::string measured = Printable(verdict.measured);
    const bool one_line = DisplayWidth(promise) + DisplayWidth(measured) + 12 <= Columns(style);
    text += fmt::format("  {}{}{}  {}{}{}\n", Ansi(style, verdict.held ? kGreen : kRed),
                        verdict.held ? "HELD  " : "MISSED", Ansi(style, kReset), promise,
                        one_line ? ": " : ":\n            ", measured);
  }
  return text;
}

}  // namespace

std::string LimitName(Dimension dimension, Scope scope) {
  const char* direction = scope == Scope::kRead ? "read" : scope == Scope::kWrite ? "write" : "";
  if (dimension == Dimension::kBytes) {
    return *direction == '\0' ? "MAX_BANDWIDTH" : fmt::format("MAX_BANDWIDTH({})", direction);
  }
  return fmt::format("MAX_IOPS({}{}{})", dimension == Dimension::kRaw ? "raw" : "norm",
                     *direction == '\0' ? "" : ",", direction);
}

std::string TableHeader(const RunResult& result, const TableStyle& style) {
  std::string text =
      fmt::format("{}{}{}\n", Ansi(style, kBold), Printable(result.title), Ansi(style, kReset));
  text += "on " + Printable(result.where);
  if (result.capacity > 0) {
    text += fmt::format(", {} norm IOPS", FormatCount(result.capacity));
  }
  text += result.isolated ? "\n" : ", WITHOUT isolation\n";
  for (const std::string& warning : result.warnings) {
    text += "warning: " + Printable(warning) + "\n";
  }
  text +=
      "norm: 1 = the device time of one 16 KiB random read. got by: reservation, weight, "
      "leftover.\n";
  return text +
         HeaderLines("group", NameWidth(result, kIntervalColumns, style), kIntervalColumns, style);
}

std::string TableInterval(const RunResult& result, const Interval& interval,
                          const TableStyle& style) {
  const Intervals span(&interval, 1);
  const size_t name_width = NameWidth(result, kIntervalColumns, style);
  std::string title =
      fmt::format("-- {}-{} s -- {}", FormatSeconds(interval.start_s),
                  FormatSeconds(interval.start_s + interval.length_s),
                  DeviceLoad(result, AggregateOf(result, kDeviceGroup, span).norm_iops));
  if (interval.depth > 0) title += fmt::format(", depth {:.1f} op", interval.depth);
  title += " --";
  std::string text = fmt::format("{}{}{}\n", Ansi(style, kDim), title, Ansi(style, kReset));
  for (const std::string& note : interval.notes) {
    text += fmt::format("{}>> {}{}\n", Ansi(style, kCyan), Printable(note), Ansi(style, kReset));
  }
  const std::vector<int> rows = Rows(result, interval.groups.size());
  const auto sample_of = [&](int i) -> const GroupSample& {
    static const GroupSample kNone;
    const auto index = static_cast<size_t>(i);
    return index < interval.groups.size() ? interval.groups[index] : kNone;
  };
  for (int group : ShownOf(rows)) {
    const GroupSample& sample = interval.groups[static_cast<size_t>(group)];
    const FineHistogram latency = LatencyOf(result, group, span);
    text += RowText(
        IndentedName(result, group), name_width, kIntervalColumns,
        {Ops(sample.norm_iops, 8), Ops(sample.raw_iops, 8), Quantity(sample.bytes_per_s / 1e6, 9),
         Shares(sample.by_reservation, sample.by_weight, sample.by_leftover),
         Ops(static_cast<double>(sample.queued), 5),
         Millis(WaitQuantile(sample.wait, latency, 0.99), sample.wait.count(), 7),
         Millis(latency.Quantile(0.99), latency.count(), 7)},
        HeldBackWithParents(result, group, sample_of));
  }
  return text + MoreRows(rows);
}

std::string Summary(const RunResult& result, const std::vector<Verdict>& verdicts,
                    const TableStyle& style) {
  const Intervals all(result.intervals);
  const size_t name_width = NameWidth(result, kSummaryColumns, style);
  const Aggregate device = AggregateOf(result, kDeviceGroup, all);
  std::string text =
      fmt::format("\n{}Mean over {} s: {}{}\n", Ansi(style, kBold), FormatSeconds(device.seconds),
                  DeviceLoad(result, device.norm_iops), Ansi(style, kReset));
  text += HeaderLines("group", name_width, kSummaryColumns, style);
  const std::vector<int> rows = Rows(result, result.groups.size());
  std::vector<Aggregate> means(result.groups.size());
  for (size_t i = 0; i < means.size(); ++i) {
    means[i] = AggregateOf(result, static_cast<int>(i), all);
  }
  const auto mean_of = [&](int i) -> const Aggregate& { return means[static_cast<size_t>(i)]; };
  for (int group : ShownOf(rows)) {
    const Aggregate& mean = mean_of(group);
    const FineHistogram latency = LatencyOf(result, group, all);
    const CoarseHistogram wait = WaitOf(result, group, all);
    text +=
        RowText(IndentedName(result, group), name_width, kSummaryColumns,
                {Ops(mean.norm_iops, 8), Ops(mean.raw_iops, 8), Quantity(mean.bytes_per_s / 1e6, 9),
                 Shares(mean.by_reservation, mean.by_weight, mean.by_leftover),
                 Millis(WaitQuantile(wait, latency, 0.99), wait.count(), 7),
                 Millis(latency.Quantile(0.5), latency.count(), 7),
                 Millis(latency.Quantile(0.99), latency.count(), 7)},
                HeldBackWithParents(result, group, mean_of));
  }
  text += MoreRows(rows);
  if (result.errors > 0) text += fmt::format("failed requests: {}\n", result.errors);
  if (device.timeouts > 0 || result.throttle_timeouts > 0) {
    text += fmt::format(
        "requests given back at their deadline: {}, of these held back by a limit: {}\n",
        std::max(device.timeouts, result.throttle_timeouts), result.throttle_timeouts);
  }
  return text + VerdictLines(verdicts, style);
}

}  // namespace weir::scenario

// The HTML report: one self-contained page for one or more runs.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "scenario/report.h"
#include "scenario/report_aggregate.h"
#include "scenario/report_chart.h"
#include "scenario/report_format.h"
#include "scenario/report_html_style.h"

namespace weir::scenario {
namespace {

constexpr size_t kMaxSlots = 600;         // points of a line; longer runs are averaged
constexpr size_t kMaxReferenceLines = 6;  // leaves; with more, MIN and MAX lines would only confuse
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Some consecutive intervals, drawn as one point.
struct Slot {
  Intervals intervals;
  [[nodiscard]] double start() const { return intervals.front().start_s; }
  [[nodiscard]] double end() const { return intervals.back().start_s + intervals.back().length_s; }
};

struct RunView {
  const RunResult* result = nullptr;
  std::vector<Slot> slots;
  std::vector<int> lines;  // leaves drawn, in tree order
  size_t leaves = 0;
  std::vector<std::pair<double, std::string>> changes;  // time, what
};

RunView ViewOf(const RunResult& result) {
  RunView view;
  view.result = &result;
  const Intervals all(result.intervals);
  const size_t per_slot = (all.size() + kMaxSlots - 1) / kMaxSlots;
  for (size_t i = 0; i < all.size(); i += per_slot) {
    view.slots.push_back({all.subspan(i, std::min(per_slot, all.size() - i))});
  }
  for (const Interval& interval : all) {
    for (const std::string& note : interval.notes)
      view.changes.emplace_back(interval.start_s, note);
  }
  view.lines = LeavesOf(result, kDeviceGroup);
  std::erase_if(view.lines, [&result](int leaf) { return IsIdleOtherGroups(result, leaf); });
  view.leaves = view.lines.size();
  if (view.lines.size() > kMaxChartLines) {
    std::vector<double> norm(result.groups.size());
    for (int leaf : view.lines) {
      norm[static_cast<size_t>(leaf)] = AggregateOf(result, leaf, all).norm_iops;
    }
    std::stable_sort(view.lines.begin(), view.lines.end(), [&norm](int a, int b) {
      return norm[static_cast<size_t>(a)] > norm[static_cast<size_t>(b)];
    });
    view.lines.resize(kMaxChartLines);
    std::sort(view.lines.begin(), view.lines.end());
  }
  return view;
}

// One value for each slot of each line.
template <typename Value>
std::vector<Series> SeriesOf(const RunView& view, Value value) {
  std::vector<Series> all;
  for (size_t i = 0; i < view.lines.size(); ++i) {
    Series series;
    series.name = view.result->groups[static_cast<size_t>(view.lines[i])].path;
    series.style = static_cast<int>(i) % kStyles;
    for (const Slot& slot : view.slots) series.y.push_back(value(view.lines[i], slot.intervals));
    all.push_back(std::move(series));
  }
  return all;
}

Chart EmptyChart(const RunView& view, const char* title, const char* unit) {
  Chart chart;
  chart.title = title;
  chart.unit = unit;
  for (const Slot& slot : view.slots) chart.slot_starts.push_back(slot.start());
  chart.end = view.slots.empty() ? 1 : view.slots.back().end();
  for (size_t i = 0; i < view.changes.size(); ++i) {
    chart.markers.push_back({view.changes[i].first, static_cast<int>(i) + 1});
  }
  return chart;
}

double Highest(const Chart& chart) {
  double high = 0;
  for (const Series& series : chart.series) {
    for (double y : series.y) high = std::isfinite(y) ? std::max(high, y) : high;
  }
  return high;
}

void ScaleBy(double factor, Chart* chart) {
  for (Series& series : chart->series) {
    for (double& y : series.y) y *= factor;
  }
}

// MIN and MAX of the leaves, where they stood still during the run.
std::vector<Reference> References(const RunView& view) {
  std::vector<Reference> references;
  if (!view.changes.empty() || view.lines.size() > kMaxReferenceLines) return references;
  for (size_t i = 0; i < view.lines.size(); ++i) {
    const GroupInfo& info = view.result->groups[static_cast<size_t>(view.lines[i])];
    const int64_t min = info.params.MinOf(Dimension::kNorm);
    const int64_t max = info.params.MaxOf(Dimension::kNorm, Scope::kBoth);
    const int style = static_cast<int>(i) % kStyles;
    if (min > 0) {
      references.push_back({static_cast<double>(min) / kOp, style, "MIN of " + info.path});
    }
    if (max != kUnlimited) {
      references.push_back({static_cast<double>(max) / kOp, style, "MAX of " + info.path});
    }
  }
  return references;
}

Chart LatencyChart(const RunView& view) {
  Chart chart = EmptyChart(view, "Latency, 99th percentile", "ms");
  double low = std::numeric_limits<double>::max();
  chart.series = SeriesOf(view, [&](int leaf, Intervals intervals) {
    const FineHistogram latency = LatencyOf(*view.result, leaf, intervals);
    if (latency.count() == 0) return kNone;
    const double ms = static_cast<double>(latency.Quantile(0.99).count()) / 1e6;
    low = std::min(low, std::max(ms, 1e-6));
    return ms;
  });
  const double high = Highest(chart);
  if (high > 0 && high < 1) {
    chart.unit = "us";
    ScaleBy(1e3, &chart);
    low *= 1e3;
  }
  chart.logarithmic = high > 0 && Highest(chart) > 20 * low;
  chart.y_min = low;
  return chart;
}

// The highest rates of any leaf in any interval: runs of the same groups are drawn to one scale.
struct Peaks {
  double norm_iops = 0;
  double raw_iops = 0;
  double bytes_per_s = 0;
};

bool SameGroups(const RunResult& a, const RunResult& b) {
  return std::equal(a.groups.begin(), a.groups.end(), b.groups.begin(), b.groups.end(),
                    [](const GroupInfo& x, const GroupInfo& y) { return x.path == y.path; });
}

Peaks PeaksOfRunsLike(const RunResult& result, const std::vector<RunResult>& results) {
  Peaks peaks;
  for (const RunResult& other : results) {
    if (!SameGroups(result, other)) continue;
    for (const Interval& interval : other.intervals) {
      for (size_t i = 0; i < std::min(interval.groups.size(), other.groups.size()); ++i) {
        if (!other.groups[i].leaf) continue;
        peaks.norm_iops = std::max(peaks.norm_iops, interval.groups[i].norm_iops);
        peaks.raw_iops = std::max(peaks.raw_iops, interval.groups[i].raw_iops);
        peaks.bytes_per_s = std::max(peaks.bytes_per_s, interval.groups[i].bytes_per_s);
      }
    }
  }
  return peaks;
}

std::string Charts(const RunView& view, const Peaks& peaks) {
  const RunResult& result = *view.result;
  Chart norm = EmptyChart(view, "Normalised IOPS", "norm op/s");
  norm.series = SeriesOf(view, [&](int leaf, Intervals intervals) {
    return AggregateOf(result, leaf, intervals).norm_iops;
  });
  norm.references = References(view);
  norm.y_max = peaks.norm_iops;
  Chart raw = EmptyChart(view, "Raw IOPS", "op/s");
  raw.series = SeriesOf(view, [&](int leaf, Intervals intervals) {
    return AggregateOf(result, leaf, intervals).raw_iops;
  });
  raw.y_max = peaks.raw_iops;
  Chart bandwidth = EmptyChart(view, "Bandwidth", "MB/s");
  bandwidth.y_max = peaks.bytes_per_s / 1e6;
  bandwidth.series = SeriesOf(view, [&](int leaf, Intervals intervals) {
    return AggregateOf(result, leaf, intervals).bytes_per_s / 1e6;
  });
  if (peaks.bytes_per_s > 0 && peaks.bytes_per_s < 1e6) {
    bandwidth.unit = "kB/s";
    bandwidth.y_max *= 1e3;
    ScaleBy(1e3, &bandwidth);
  }
  return "<div class=\"charts\">" + DrawChart(norm) + DrawChart(raw) + DrawChart(bandwidth) +
         DrawChart(LatencyChart(view)) + "</div>\n";
}

std::string Legend(const RunView& view) {
  std::string html = "<ul class=\"legend\">";
  for (size_t i = 0; i < view.lines.size(); ++i) {
    html += fmt::format(
        "<li><svg viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path class=\"line s{}\" d=\"M0 "
        "5L26 5\"/></svg>{}</li>",
        i % kStyles, EscapeHtml(view.result->groups[static_cast<size_t>(view.lines[i])].path));
  }
  html += "</ul>\n";
  if (view.leaves > view.lines.size()) {
    html += fmt::format(
        "<p class=\"soft\">The {} busiest of {} leaf groups are drawn; the CSV and "
        "JSON reports have all.</p>\n",
        view.lines.size(), view.leaves);
  }
  if (!References(view).empty()) {
    html +=
        "<p class=\"soft\">Dotted lines in the first chart: MIN and MAX of the group of that "
        "colour.</p>\n";
  }
  return html;
}

std::string Changes(const RunView& view) {
  if (view.changes.empty()) return "";
  std::string html = "<h3>Changes while it ran</h3><ol class=\"changes\">";
  for (const auto& [time, what] : view.changes) {
    html += fmt::format("<li>{} s: {}</li>", FormatSeconds(time), EscapeHtml(what));
  }
  return html + "</ol>\n";
}

std::string OpsRate(int64_t rate) {
  if (rate == kUnlimited) return "";
  return FormatCount(static_cast<double>(rate) / static_cast<double>(kOp));
}

// "20,000 norm op/s, 50 MB/s write": every reservation or limit that is set.
std::string MinText(const ResourceParams& params) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (params.MinOf(Dimension::kNorm) > 0) add(OpsRate(params.MinOf(Dimension::kNorm)) + " norm");
  if (params.MinOf(Dimension::kRaw) > 0) add(OpsRate(params.MinOf(Dimension::kRaw)) + " raw");
  if (params.MinOf(Dimension::kBytes) > 0) {
    add(FormatBandwidth(static_cast<double>(params.MinOf(Dimension::kBytes))));
  }
  return text.empty() ? "-" : text;
}

std::string MaxText(const ResourceParams& params) {
  constexpr const char* kScopeNames[] = {" read", " write", ""};
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (int s = 0; s < kScopes; ++s) {
    const auto scope = static_cast<Scope>(s);
    const int64_t norm = params.MaxOf(Dimension::kNorm, scope);
    const int64_t raw = params.MaxOf(Dimension::kRaw, scope);
    const int64_t bytes = params.MaxOf(Dimension::kBytes, scope);
    if (norm != kUnlimited) add(OpsRate(norm) + " norm" + kScopeNames[s]);
    if (raw != kUnlimited) add(OpsRate(raw) + " raw" + kScopeNames[s]);
    if (bytes != kUnlimited) {
      add(FormatBandwidth(static_cast<double>(bytes)) + kScopeNames[s]);
    }
  }
  return text.empty() ? "-" : text;
}

std::string SharesBar(const Aggregate& mean) {
  if (mean.norm_iops <= 0) return "-";
  const std::string words =
      fmt::format("reservation {}, weight {}, leftover {}", FormatPercent(mean.by_reservation),
                  FormatPercent(mean.by_weight), FormatPercent(mean.by_leftover));
  return fmt::format(
      "<span class=\"bar\" role=\"img\" title=\"{0}\" aria-label=\"{0}\"><i class=\"r\" "
      "style=\"width:{1:.1f}%\"></i><i class=\"w\" style=\"width:{2:.1f}%\"></i><i class=\"l\" "
      "style=\"width:{3:.1f}%\"></i></span>",
      words, 100 * mean.by_reservation, 100 * mean.by_weight, 100 * mean.by_leftover);
}

std::string GroupRow(const RunResult& result, int group) {
  const GroupInfo& info = result.groups[static_cast<size_t>(group)];
  const Intervals all(result.intervals);
  const Aggregate mean = AggregateOf(result, group, all);
  const FineHistogram latency = LatencyOf(result, group, all);
  const CoarseHistogram wait = WaitOf(result, group, all);
  const auto quantile = [](const auto& histogram, double q) {
    return histogram.count() == 0 ? std::string("-") : FormatMillis(histogram.Quantile(q));
  };
  std::string held = "-";
  if (!mean.blocked_by.empty() && mean.blocked_share >= 0.005) {
    held = FormatPercent(mean.blocked_share) + " by " + EscapeHtml(mean.blocked_by);
  }
  return fmt::format(
      "<tr><td style=\"padding-left:{}px\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
      "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
      "<td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
      "</tr>\n",
      10 + 18 * LevelOf(result, group), EscapeHtml(NameOf(result, group)), MinText(info.params),
      MaxText(info.params), info.params.weight, FormatCount(std::round(mean.norm_iops * 10) / 10),
      FormatCount(std::round(mean.raw_iops * 10) / 10), FormatBandwidth(mean.bytes_per_s),
      SharesBar(mean), held,
      wait.count() == 0 ? "-" : FormatMillis(WaitQuantile(wait, latency, 0.99)),
      quantile(latency, 0.5), quantile(latency, 0.99));
}

std::string GroupTable(const RunResult& result) {
  std::string html =
      "<h3>Groups, means of the whole run</h3><div class=\"scroll\"><table><tr><th>group</th>"
      "<th class=\"n\">MIN</th><th class=\"n\">MAX</th><th class=\"n\">weight</th><th "
      "class=\"n\">norm op/s</th><th class=\"n\">raw op/s</th><th class=\"n\">bandwidth</th>"
      "<th>got by</th><th>held back by</th><th class=\"n\">wait p99, ms</th><th "
      "class=\"n\">latency p50, ms</th><th class=\"n\">latency p99, ms</th></tr>\n";
  for (size_t i = 0; i < result.groups.size(); ++i) {
    const int group = static_cast<int>(i);
    if (!IsIdleOtherGroups(result, group)) html += GroupRow(result, group);
  }
  return html +
         "</table></div><p class=\"soft key\">Got by<i class=\"r\"></i>reservation<i "
         "class=\"w\"></i>weight<i class=\"l\"></i>leftover</p>\n";
}

std::string VerdictTable(const std::vector<Verdict>& verdicts) {
  if (verdicts.empty()) return "";
  std::string html =
      "<div class=\"scroll\"><table><tr><th></th><th>promised</th><th>measured</th></tr>\n";
  for (const Verdict& verdict : verdicts) {
    html += fmt::format(
        "<tr><td class=\"verdict\"><span class=\"badge "
        "{}\">{}</span></td><td>{}</td><td>{}</td></tr>\n",
        verdict.held ? "held" : "missed", verdict.held ? "HELD" : "MISSED",
        EscapeHtml(verdict.promise), EscapeHtml(verdict.measured));
  }
  return html + "</table></div>\n";
}

std::string RunSection(const RunResult& result, const std::vector<RunResult>& results,
                       const std::vector<Verdict>& verdicts, bool with_title) {
  const RunView view = ViewOf(result);
  const Aggregate device = AggregateOf(result, kDeviceGroup, Intervals(result.intervals));
  std::string html = "<section class=\"run\">";
  if (with_title) html += "<h2>" + EscapeHtml(result.title) + "</h2>";
  html += "<p class=\"where\">" + EscapeHtml(result.where);
  if (result.capacity > 0) {
    html += fmt::format(" &middot; used on average {} norm op/s (its capacity)",
                        FormatUse(device.norm_iops, result.capacity));
  }
  html += result.isolated ? "</p>\n" : " &middot; <b>without isolation</b></p>\n";
  for (const std::string& warning : result.warnings) {
    html += "<p><span class=\"badge missed\">warning</span> " + EscapeHtml(warning) + "</p>\n";
  }
  if (result.errors > 0) {
    html += fmt::format("<p><span class=\"badge missed\">{} failed requests</span></p>\n",
                        result.errors);
  }
  if (result.throttle_timeouts > 0) {
    html += fmt::format("<p>{} requests reached their deadline while a limit held them back.</p>\n",
                        result.throttle_timeouts);
  }
  return html + VerdictTable(verdicts) + Legend(view) +
         Charts(view, PeaksOfRunsLike(result, results)) + Changes(view) + GroupTable(result) +
         "</section>\n";
}

std::string Totals(const std::vector<std::vector<Verdict>>& verdicts) {
  size_t all = 0;
  size_t held = 0;
  for (const std::vector<Verdict>& run : verdicts) {
    all += run.size();
    held += static_cast<size_t>(
        std::count_if(run.begin(), run.end(), [](const Verdict& v) { return v.held; }));
  }
  if (all == 0) return "";
  return fmt::format("<p><span class=\"badge {}\">{} of {} promises held</span></p>\n",
                     held == all ? "held" : "missed", held, all);
}

constexpr const char* kExplanation = R"html(
<details open><summary>What is a normalised IOPS?</summary>
<p>Requests differ: reading 64 KiB keeps a disk busy for longer than reading 4 KiB, and a write may cost
more than a read. So every request is charged by the <b>device time</b> it takes. <b>1 normalised
operation is the device time of one random read of 16 KiB</b> on this device, as calibrated. A
request that takes four times as long counts as 4. MIN_IOPS, MAX_IOPS and the capacity of the disk are in normalised operations
a second (norm op/s), so they mean the same for every mix of sizes. What an operating system
shows are raw operations: with requests larger than 16 KiB there are fewer of them than normalised
ones, with smaller requests more.</p>
<p><b>Reservation</b> (MIN): at least this much whenever there is work. <b>Limit</b> (MAX): never more.
<b>Weight</b>: the share of what the reservations leave. <b>Leftover</b>: what nobody with a weight
wanted. Latency is from submission to completion; wait is the part spent in the scheduler.</p></details>
)html";

}  // namespace

std::string ToHtml(const std::string& title, const std::vector<RunResult>& results,
                   const std::vector<std::vector<Verdict>>& verdicts) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>{0}</title><style>{1}</style></head>\n"
      "<body><main><h1>{0}</h1>\n{2}",
      EscapeHtml(title), kStyleSheet, Totals(verdicts));
  const bool titles = results.size() > 1 || (results.size() == 1 && results[0].title != title);
  for (size_t i = 0; i < results.size(); ++i) {
    html += RunSection(results[i], results,
                       i < verdicts.size() ? verdicts[i] : std::vector<Verdict>{}, titles);
  }
  return html + kExplanation + "</main></body></html>\n";
}

}  // namespace weir::scenario

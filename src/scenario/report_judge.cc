// Verdicts: what was promised against what was measured.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/units.h"
#include "scenario/report.h"
#include "scenario/report_aggregate.h"
#include "scenario/report_format.h"

namespace weir::scenario {
namespace {

using Metric = Expect::Metric;

struct Window {
  double from_s = 0;
  double to_s = 0;
};

std::string GroupName(const std::string& path) { return path.empty() ? "the device" : path; }

std::string FormatValue(Metric metric, double value) {
  switch (metric) {
    case Metric::kNormIops:
    case Metric::kRawIops:
      return FormatCount(value);
    case Metric::kBandwidth:
      return FormatBandwidth(value);
    case Metric::kRatio:
      return fmt::format("{:.3f}", value);
    case Metric::kWaitP99:
    case Metric::kLatencyP99:
      return FormatLatency(Duration(std::llround(value)));
    case Metric::kUtilisation:
      return fmt::format("{:.1f} %", value * 100);
  }
  return "";
}

std::string Subject(const Expect& expect) {
  const std::string group = GroupName(expect.group);
  switch (expect.metric) {
    case Metric::kNormIops:
      return group + " norm IOPS";
    case Metric::kRawIops:
      return group + " raw IOPS";
    case Metric::kBandwidth:
      return group + " bandwidth";
    case Metric::kRatio:
      return group + " : " + GroupName(expect.other);
    case Metric::kWaitP99:
      return group + " wait p99";
    case Metric::kLatencyP99:
      return group + " latency p99";
    case Metric::kUtilisation:
      return group + " utilisation";
  }
  return group;
}

std::string Promise(const Expect& expect, const Window& window) {
  if (!expect.text.empty()) return expect.text;
  std::string bounds;
  if (expect.has_min && expect.has_max) {
    bounds = fmt::format("between {} and {}", FormatValue(expect.metric, expect.min),
                         FormatValue(expect.metric, expect.max));
  } else if (expect.has_min) {
    bounds = "at least " + FormatValue(expect.metric, expect.min);
  } else if (expect.has_max) {
    bounds = "at most " + FormatValue(expect.metric, expect.max);
  } else {
    bounds = "measured";
  }
  return fmt::format("{} {} {} {}-{} s", Subject(expect), bounds,
                     expect.every_second ? "in every second of" : "over",
                     FormatSeconds(window.from_s), FormatSeconds(window.to_s));
}

// The metric over the intervals; nothing if it has no value there (no interval, no request, a
// ratio to nothing).
std::optional<double> Measure(const Expect& expect, const RunResult& result, Intervals intervals) {
  const int group = FindGroup(result, expect.group);
  if (group < kDeviceGroup) return std::nullopt;
  if (expect.metric == Metric::kWaitP99) {
    const CoarseHistogram wait = WaitOf(result, group, intervals);
    if (wait.count() == 0) return std::nullopt;
    return static_cast<double>(wait.Quantile(0.99).count());
  }
  if (expect.metric == Metric::kLatencyP99) {
    const FineHistogram latency = LatencyOf(result, group, intervals);
    if (latency.count() == 0) return std::nullopt;
    return static_cast<double>(latency.Quantile(0.99).count());
  }
  const Aggregate mean = AggregateOf(result, group, intervals);
  if (mean.seconds <= 0) return std::nullopt;
  switch (expect.metric) {
    case Metric::kRawIops:
      return mean.raw_iops;
    case Metric::kBandwidth:
      return mean.bytes_per_s;
    case Metric::kUtilisation:
      if (result.capacity <= 0) return std::nullopt;
      return mean.norm_iops / result.capacity;
    case Metric::kRatio: {
      const int other = FindGroup(result, expect.other);
      if (other < kDeviceGroup) return std::nullopt;
      const double base = AggregateOf(result, other, intervals).norm_iops;
      if (base <= 0) return std::nullopt;
      return mean.norm_iops / base;
    }
    default:
      return mean.norm_iops;
  }
}

bool Within(const Expect& expect, double value) {
  return (!expect.has_min || value >= expect.min) && (!expect.has_max || value <= expect.max);
}

// What says most about the extremes: the lowest for a lower bound, the highest for an upper one.
std::string Extremes(const Expect& expect, double low, double high) {
  if (expect.has_min && !expect.has_max) return "lowest " + FormatValue(expect.metric, low);
  if (expect.has_max && !expect.has_min) return "highest " + FormatValue(expect.metric, high);
  return fmt::format("{} to {}", FormatValue(expect.metric, low), FormatValue(expect.metric, high));
}

Verdict JudgeMean(const Expect& expect, const RunResult& result, const Window& window) {
  Verdict verdict{false, Promise(expect, window), "nothing was measured in that time"};
  const Intervals intervals = IntervalsIn(result, window.from_s, window.to_s);
  const std::optional<double> value = Measure(expect, result, intervals);
  if (!value) return verdict;
  verdict.held = Within(expect, *value);
  verdict.measured = FormatValue(expect.metric, *value);
  return verdict;
}

Verdict JudgeEverySecond(const Expect& expect, const RunResult& result, const Window& window) {
  Verdict verdict{false, Promise(expect, window), "nothing was measured in that time"};
  double low = 0;
  double high = 0;
  int seconds = 0;
  int missed = 0;
  int silent = 0;
  for (const Interval& interval : IntervalsIn(result, window.from_s, window.to_s)) {
    const std::optional<double> value = Measure(expect, result, Intervals(&interval, 1));
    if (!value) {
      ++silent;
      continue;
    }
    low = seconds == 0 ? *value : std::min(low, *value);
    high = seconds == 0 ? *value : std::max(high, *value);
    ++seconds;
    if (!Within(expect, *value)) ++missed;
  }
  if (seconds == 0) return verdict;
  verdict.held = missed == 0 && silent == 0;
  verdict.measured = Extremes(expect, low, high);
  if (missed > 0) verdict.measured += fmt::format(", missed in {} of {}", missed, seconds + silent);
  if (silent > 0)
    verdict.measured += fmt::format(", no value in {} of {}", silent, seconds + silent);
  return verdict;
}

}  // namespace

std::string LongIntervalWarning(Duration length) {
  return fmt::format(
      "the run is long for its number of groups: it is measured in intervals of {}, over which "
      "promises for every second are judged; shorter windows hold nothing",
      FormatDuration(length));
}

std::vector<Verdict> Judge(const Scenario& scenario, const RunResult& result) {
  std::vector<Verdict> verdicts;
  verdicts.reserve(scenario.expects.size());
  const double end_s = ToSeconds(scenario.duration);
  for (const Expect& expect : scenario.expects) {
    const Window window{ToSeconds(expect.from),
                        expect.to.count() > 0 ? ToSeconds(expect.to) : end_s};
    std::string missing;
    for (const std::string* path : {&expect.group, &expect.other}) {
      if (FindGroup(result, *path) < kDeviceGroup) missing = *path;
    }
    if (!missing.empty()) {
      verdicts.push_back({false, Promise(expect, window), "no group " + missing + " in this run"});
    } else if (expect.every_second) {
      verdicts.push_back(JudgeEverySecond(expect, result, window));
    } else {
      verdicts.push_back(JudgeMean(expect, result, window));
    }
  }
  return verdicts;
}

}  // namespace weir::scenario

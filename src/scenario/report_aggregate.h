// Sums over a window of a run, as verdicts, summaries and pages need them. Internal to the reports.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "scenario/report.h"

namespace weir::scenario {

// Stands for the device: the sum of the groups without a parent.
inline constexpr int kDeviceGroup = -1;

// Means over intervals, weighted by the length of the intervals.
struct Aggregate {
  double seconds = 0;  // of all intervals together
  double norm_iops = 0;
  double raw_iops = 0;
  double bytes_per_s = 0;
  double by_reservation = 0;
  double by_weight = 0;
  double by_leftover = 0;
  double blocked_share = 0;  // by `blocked_by`
  std::string blocked_by;    // the limit that held the group back for longest; empty: none did
  uint64_t timeouts = 0;
};

// Consecutive intervals of a run.
using Intervals = std::span<const Interval>;
// Those whose middle is in [from_s, to_s).
[[nodiscard]] Intervals IntervalsIn(const RunResult& result, double from_s, double to_s);

[[nodiscard]] Aggregate AggregateOf(const RunResult& result, int group, Intervals intervals);

// Of the group's leaves together.
[[nodiscard]] FineHistogram LatencyOf(const RunResult& result, int group, Intervals intervals);
[[nodiscard]] CoarseHistogram WaitOf(const RunResult& result, int group, Intervals intervals);

// As the histogram says, but never more than the latency's: the wait is a part of it, and its
// histogram is the coarser one.
[[nodiscard]] Duration WaitQuantile(const CoarseHistogram& wait, const FineHistogram& latency,
                                    double q);

// The leaves at or below `group`, as indices.
[[nodiscard]] std::vector<int> LeavesOf(const RunResult& result, int group);
// The group that every unit with a plan has for what no directive names, and nobody used it: not
// worth a line.
[[nodiscard]] bool IsIdleOtherGroups(const RunResult& result, int group);
// Levels above `group`; 0 for a group without a parent.
[[nodiscard]] int LevelOf(const RunResult& result, int group);
// The last part of the path: "B" of "tenant2/B", the whole path at level 0.
[[nodiscard]] std::string NameOf(const RunResult& result, int group);
// Index by path; kDeviceGroup for the empty path; -2 if there is none.
[[nodiscard]] int FindGroup(const RunResult& result, const std::string& path);

}  // namespace weir::scenario

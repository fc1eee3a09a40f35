// What a run gave, second by second and in all, and the verdicts on what was expected. Filled by
// the simulator and by the real runner alike. PURE.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/resource_params.h"
#include "scenario/scenario.h"

namespace weir::scenario {

// One group (leaf or inner) in one interval (normally a second). Rates are per second.
struct GroupSample {
  double norm_iops = 0;
  double raw_iops = 0;
  double bytes_per_s = 0;
  double read_share = 0;      // of the raw operations
  double by_reservation = 0;  // shares of the service, sum 1 (0 when idle)
  double by_weight = 0;
  double by_leftover = 0;
  double blocked_share = 0;  // of the interval: held back by its own limit
  std::string blocked_by;    // "MAX_IOPS(norm)", "MAX_BANDWIDTH(write)", ... the most; empty: none
  uint64_t queued = 0;       // at the end of the interval
  uint64_t timeouts = 0;     // requests given back because their deadline passed
  FineHistogram latency;     // submit -> completion; leaves only
  CoarseHistogram wait;      // enqueue -> dispatch
};

struct Interval {
  double start_s = 0;
  double length_s = 1;
  std::vector<GroupSample> groups;  // as RunResult::groups
  double depth = 0;                 // D, normalised ops
  std::vector<std::string> notes;   // changes applied in it
};

struct GroupInfo {
  std::string path;
  int parent = -1;
  bool leaf = true;
  ResourceParams params;  // at the end of the run
};

struct RunResult {
  std::string title;
  std::string where;              // "simulated device", or the file and its device
  bool isolated = true;           // false: --without-isolation
  double capacity = 0;            // normalised IOPS as calibrated or configured
  std::vector<GroupInfo> groups;  // parents before children
  std::vector<Interval> intervals;
  std::vector<std::string> warnings;
  uint64_t errors = 0;  // failed requests
  uint64_t throttle_timeouts = 0;
};

struct Verdict {
  bool held = false;
  std::string promise;   // "tenant3 >= 10,000 norm IOPS in every second of 11-20 s"
  std::string measured;  // "lowest 10,012"
};

// One verdict for each expectation, in order. An interval belongs to a window if its middle does;
// a window without one, and a group that is not in the run, count as not held.
[[nodiscard]] std::vector<Verdict> Judge(const Scenario& scenario, const RunResult& result);

// For RunResult::warnings: long runs of many groups have intervals longer than a second.
[[nodiscard]] std::string LongIntervalWarning(Duration length);

// How a limit is called in tables: "MAX_IOPS(norm)", "MAX_IOPS(raw,read)", "MAX_BANDWIDTH",
// "MAX_BANDWIDTH(write)".
[[nodiscard]] std::string LimitName(Dimension dimension, Scope scope);

// Text for a terminal. The header is printed once, a block for each interval, then the summary.
struct TableStyle {
  int columns = 100;   // of the terminal; fewer than 100 count as 100
  bool color = false;  // ANSI colours
};
// Rows of one interval; further groups are counted in a last line.
inline constexpr size_t kMaxTableRows = 60;
[[nodiscard]] std::string TableHeader(const RunResult& result, const TableStyle& style = {});
[[nodiscard]] std::string TableInterval(const RunResult& result, const Interval& interval,
                                        const TableStyle& style = {});
[[nodiscard]] std::string Summary(const RunResult& result, const std::vector<Verdict>& verdicts,
                                  const TableStyle& style = {});

// Durations are in nanoseconds, rates per second, shares 0..1; docs/scenarios.md has the fields.
[[nodiscard]] std::string ToJson(const RunResult& result, const std::vector<Verdict>& verdicts);
// One line for each group and interval, quoted as RFC 4180 says; the header names the units.
[[nodiscard]] std::string ToCsv(const RunResult& result);
// A self-contained page (no outside references, no script): charts of IOPS, bandwidth and latency
// over time for one or more runs, tables of verdicts. Names are escaped. `verdicts[i]` belongs to
// `results[i]`; it may be shorter.
inline constexpr size_t kMaxChartLines = 24;  // the busiest leaves; the page says how many are left
[[nodiscard]] std::string ToHtml(const std::string& title, const std::vector<RunResult>& results,
                                 const std::vector<std::vector<Verdict>>& verdicts);

}  // namespace weir::scenario

#include "app/demo/verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "app/demo/grid.h"
#include "base/units.h"
#include "core/cost_model.h"

namespace weir::app::demo {

namespace {

using scenario::Interval;
using scenario::RunResult;
using scenario::Verdict;

constexpr double kKept = 0.99;     // of a reservation
constexpr double kReached = 0.98;  // of a limit, by a load that wants more
constexpr double kRatioWithin = 0.02;
constexpr double kThroughputKept = 0.97;
constexpr double kWindowSeconds = 5;
constexpr Duration kEffectWithin = std::chrono::milliseconds(10);
constexpr Duration kSettled = std::chrono::milliseconds(100);  // after a change

std::string Count(double value) { return FormatOpsRate(std::llround(value) * kOp); }

struct Spread {
  double low = 0;
  double high = 0;
  int count = 0;
  const Interval* lowest = nullptr;  // where `low` was; may be null
  void Add(double value, const Interval* interval = nullptr) {
    if (count == 0 || value < low) lowest = interval;
    low = count == 0 ? value : std::min(low, value);
    high = count == 0 ? value : std::max(high, value);
    ++count;
  }
};

int GroupOf(const RunResult& result, const std::string& path) {
  for (size_t i = 0; i < result.groups.size(); ++i) {
    if (result.groups[i].path == path) return static_cast<int>(i);
  }
  return -1;
}

// Intervals that begin in [from, to), but for what their clocks are off.
std::vector<const Interval*> Between(const RunResult& result, Duration from, Duration to) {
  std::vector<const Interval*> chosen;
  for (const Interval& interval : result.intervals) {
    const double middle = interval.start_s + interval.length_s / 2;
    if (middle >= ToSeconds(from) && middle < ToSeconds(to)) chosen.push_back(&interval);
  }
  return chosen;
}

double MeanIops(const RunResult& result, const std::string& path, Duration from, Duration to) {
  const int group = GroupOf(result, path);
  double served = 0;
  double seconds = 0;
  for (const Interval* interval : Between(result, from, to)) {
    if (group < 0) return 0;
    served += interval->groups[static_cast<size_t>(group)].norm_iops * interval->length_s;
    seconds += interval->length_s;
  }
  return seconds > 0 ? served / seconds : 0;
}

Spread EverySecond(const RunResult& result, const std::string& path, Duration from, Duration to) {
  const int group = GroupOf(result, path);
  Spread spread;
  for (const Interval* interval : Between(result, from, to)) {
    if (group >= 0) spread.Add(interval->groups[static_cast<size_t>(group)].norm_iops, interval);
  }
  return spread;
}

// What the burst of a limit is when nobody sets it: 10 ms, at least one request; and that one
// request more.
int64_t AllowanceOf(int64_t rate_per_s, int64_t request_cost) {
  return std::max(request_cost, rate_per_s / 100) + request_cost;
}

// The longest time within the interval in which nothing at all was sent to the disk: it was full
// and gave no answer, or this process had no CPU.
Duration LongestPause(const RunOutcome& run, const Interval& interval) {
  const auto step_at = [](double seconds) {
    return static_cast<size_t>(std::max(0.0, seconds) / ToSeconds(kGridStep));
  };
  size_t longest = 0;
  size_t here = 0;
  for (size_t i = step_at(interval.start_s); i < step_at(interval.start_s + interval.length_s);
       ++i) {
    const bool silent =
        std::all_of(run.grids.begin(), run.grids.end(),
                    [i](const DispatchGrid& grid) { return i >= grid.size() || grid[i] == 0; });
    here = silent ? here + 1 : 0;
    longest = std::max(longest, here);
  }
  return kGridStep * static_cast<int64_t>(longest);
}

Verdict ReservationKept(const RunOutcome& run, const std::string& path, double promised,
                        Duration from, Duration to) {
  const Spread spread = EverySecond(run.result, path, from, to);
  std::string measured =
      fmt::format("lowest {}, {:.1f} %", Count(spread.low), 100 * spread.low / promised);
  const bool held = spread.count > 0 && spread.low >= kKept * promised;
  if (!held && spread.lowest != nullptr) {
    measured += fmt::format("; in that second the disk stood still for {}",
                            FormatDuration(LongestPause(run, *spread.lowest)));
  }
  return {held,
          fmt::format("{} gets >= 99 % of its MIN of {} in every second from {:.3g} s on", path,
                      Count(promised), ToSeconds(from)),
          std::move(measured)};
}

Verdict LimitNeverPassed(const RunOutcome& run, const std::string& path, double limit) {
  const int group = GroupOf(run.result, path);
  const std::string promise = fmt::format(
      "{} never passes its MAX of {} (+ burst) in any window of 1 ms or more", path, Count(limit));
  if (group < 0) return {false, promise, "it did not run"};
  const GridView grid{&run.grids[static_cast<size_t>(group)], kGridStep};
  const int64_t rate = std::llround(limit * kOp);
  const int64_t allowance = AllowanceOf(rate, kOp);
  const int64_t excess = LargestExcess(grid, rate, Duration(0), run.ran);
  return {excess <= allowance, promise,
          fmt::format("at most {:.1f} requests beyond MAX * time; burst + 1 is {:.1f}",
                      static_cast<double>(excess) / kOp, static_cast<double>(allowance) / kOp)};
}

Verdict LimitReached(const RunResult& result, const std::string& path, double limit, Duration from,
                     Duration to) {
  const double mean = MeanIops(result, path, from, to);
  return {mean >= kReached * limit,
          fmt::format("{} reaches >= 98 % of its MAX of {}", path, Count(limit)),
          fmt::format("mean {}, {:.1f} %", Count(mean), 100 * mean / limit)};
}

// In every five seconds, counted from the start.
Verdict RatioKept(const RunResult& result, const std::string& a, const std::string& b,
                  double wanted, const Scale& scale, double seconds) {
  Spread spread;
  for (double at = 0; at + kWindowSeconds <= seconds + 0.001; at += kWindowSeconds) {
    const Duration from = scale.Time(at);
    const Duration to = scale.Time(at + kWindowSeconds);
    const double base = MeanIops(result, b, from, to);
    spread.Add(base > 0 ? MeanIops(result, a, from, to) / base : 0);
  }
  const bool held = spread.count > 0 && spread.low >= wanted * (1 - kRatioWithin) &&
                    spread.high <= wanted * (1 + kRatioWithin);
  return {held,
          fmt::format("{} : {} = {:.3g} : 1 within 2 % in every {:.3g} s", a, b, wanted,
                      ToSeconds(scale.Time(kWindowSeconds))),
          fmt::format("{:.3f} to {:.3f}", spread.low, spread.high)};
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

Verdicts JudgeTenants(const RunOutcome& run, const Scale& scale) {
  const RunResult& result = run.result;
  const Duration end = scale.Time(kTenantsSeconds);
  const auto min3 = static_cast<double>(scale.Rate(kTenant3Min));
  const auto max4 = static_cast<double>(scale.Rate(kTenant4Max));
  return {
      ReservationKept(run, "tenant3", min3, scale.Time(kTenant3From + 1), end),
      LimitNeverPassed(run, "tenant4", max4),
      LimitReached(result, "tenant4", max4, Duration(0), end),
      RatioKept(result, "tenant1", "tenant2", 2, scale, kTenantsSeconds),
  };
}

Verdicts JudgeLoads(const RunOutcome& run, const Scale& scale) {
  const RunResult& result = run.result;
  const Duration end = scale.Time(kGroupsSeconds);
  const double max_a = static_cast<double>(scale.Rate(kTenant2Max)) * 0.01;
  const double min_b = static_cast<double>(scale.Rate(kTenant2Min)) * 0.97;
  const double mean_b = MeanIops(result, "tenant2/B", Duration(0), end);
  const Spread seconds_b = EverySecond(result, "tenant2/B", Duration(0), end);
  return {
      LimitNeverPassed(run, "tenant2/A", max_a),
      {mean_b >= kKept * min_b,
       fmt::format("tenant2/B, weight 0, gets >= 99 % of its 97 % of the tenant's MIN, {}",
                   Count(min_b)),
       fmt::format("mean {}, {:.1f} %; lowest second {}", Count(mean_b), 100 * mean_b / min_b,
                   Count(seconds_b.low))},
      RatioKept(result, "tenant2/C", "tenant2/D", 2, scale, kGroupsSeconds),
      RatioKept(result, "tenant1", "tenant2", 2, scale, kGroupsSeconds),
  };
}

std::vector<ChangeEffect> EffectsOf(const RunOutcome& run, const scenario::Scenario& scenario) {
  std::vector<ChangeEffect> effects;
  const int group = GroupOf(run.result, "scan");
  if (group < 0 || scenario.config.units.empty()) return effects;
  const GridView grid{&run.grids[static_cast<size_t>(group)], kGridStep};
  const auto cost = static_cast<int64_t>(std::ceil(CostOfScanRead(run) * kOp));
  int64_t limit = scenario.config.units.front().params.MaxOf(Dimension::kNorm, Scope::kBoth);
  for (size_t i = 0; i < run.changes.size(); ++i) {
    const AppliedChange& change = run.changes[i];
    const auto parsed = ParseOpsRate(scenario.changes[change.index].set.front().second);
    if (!parsed) continue;
    const Duration until = i + 1 < run.changes.size() ? run.changes[i + 1].asked : run.ran;
    ChangeEffect effect;
    effect.from = limit / kOp;
    effect.to = *parsed / kOp;
    effect.in_force =
        *parsed < limit
            ? LoweredAfter(grid, *parsed, AllowanceOf(*parsed, cost), change.asked, until)
            // The bucket may be below its burst by a request or two when the change comes.
            : RaisedAfter(grid, limit, 2 * cost, change.asked, until);
    const Duration settled = change.asked + kSettled;
    if (until > settled) {
      effect.norm_iops =
          static_cast<double>(ServedIn(grid, settled, until)) / kOp / ToSeconds(until - settled);
    }
    effects.push_back(effect);
    limit = *parsed;
  }
  return effects;
}

Verdicts JudgeChanges(const RunOutcome& run, const scenario::Scenario& scenario) {
  const std::vector<ChangeEffect> effects = EffectsOf(run, scenario);
  Duration slowest{0};
  Spread reached;
  for (const ChangeEffect& effect : effects) {
    slowest = std::max(slowest, effect.in_force);
    if (effect.to > 0) reached.Add(effect.norm_iops / static_cast<double>(effect.to));
  }
  const double cost = CostOfScanRead(run);
  const bool all = effects.size() == scenario.changes.size() && !effects.empty();
  return {
      {all && slowest <= kEffectWithin,
       fmt::format("each of {} changes of MAX is in force within 10 ms", scenario.changes.size()),
       fmt::format("slowest {:.0f} ms, in steps of 1 ms", ToSeconds(slowest) * 1e3)},
      {all && reached.low >= kReached && reached.high <= 1 + kRatioWithin,
       "after each, normalised IOPS are 98 to 102 % of the new MAX",
       fmt::format("{:.1f} to {:.1f} %", 100 * reached.low, 100 * reached.high)},
      {cost > 1, "a 20 KiB read counts for more than one: raw IOPS stay below the MAX that was set",
       fmt::format("{:.2f} normalised for 1 raw", cost)},
  };
}

double CostOfScanRead(const RunOutcome& run) {
  double raw = 0;
  double norm = 0;
  for (const Interval& interval : run.result.intervals) {
    for (const scenario::GroupSample& sample : interval.groups) {
      raw += sample.raw_iops * interval.length_s;
      norm += sample.norm_iops * interval.length_s;
    }
  }
  return raw > 0 ? norm / raw : 0;
}

Verdicts JudgeThroughput(const std::vector<SlicePair>& pairs) {
  std::vector<double> scheduled;
  std::vector<double> unscheduled;
  for (const SlicePair& pair : pairs) {
    scheduled.push_back(pair.scheduled);
    unscheduled.push_back(pair.unscheduled);
  }
  const double ratio = RatioQuantile(pairs, 0.5);
  return {
      {ratio >= kThroughputKept,
       "the disk gives >= 97 % of what it gives unscheduled, in slices that take turns",
       fmt::format("{:.1f} %, median of {} pairs; medians {} and {}", 100 * ratio, pairs.size(),
                   Count(Median(std::move(scheduled))), Count(Median(std::move(unscheduled))))}};
}

}  // namespace weir::app::demo

#include "scenario/report_aggregate.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "catalog/config.h"

namespace weir::scenario {
namespace {

std::vector<int> PartsOf(const RunResult& result, int group) {
  if (group != kDeviceGroup) return {group};
  std::vector<int> parts;
  for (size_t i = 0; i < result.groups.size(); ++i) {
    if (result.groups[i].parent < 0) parts.push_back(static_cast<int>(i));
  }
  return parts;
}

// A rate that could not be computed counts as none.
double Finite(double rate) { return std::isfinite(rate) ? rate : 0; }

const GroupSample* SampleAt(const Interval& interval, int group) {
  const auto index = static_cast<size_t>(group);
  return index < interval.groups.size() ? &interval.groups[index] : nullptr;
}

template <typename Histogram, typename Member>
Histogram MergeLeaves(const RunResult& result, int group, Intervals intervals, Member member) {
  Histogram merged;
  const std::vector<int> leaves = LeavesOf(result, group);
  for (const Interval& interval : intervals) {
    for (int leaf : leaves) {
      const GroupSample* sample = SampleAt(interval, leaf);
      if (sample != nullptr && (sample->*member).count() > 0) merged.Merge(sample->*member);
    }
  }
  return merged;
}

}  // namespace

Intervals IntervalsIn(const RunResult& result, double from_s, double to_s) {
  const auto middle_before = [](const Interval& interval, double time_s) {
    return interval.start_s + interval.length_s / 2 < time_s;
  };
  const auto& all = result.intervals;
  const auto first = std::lower_bound(all.begin(), all.end(), from_s, middle_before);
  const auto last = std::lower_bound(first, all.end(), to_s, middle_before);
  return {first, last};
}

Aggregate AggregateOf(const RunResult& result, int group, Intervals intervals) {
  Aggregate sum;
  std::map<std::string, double> blocked;
  const std::vector<int> parts = PartsOf(result, group);
  for (const Interval& interval : intervals) {
    const double length = interval.length_s;
    sum.seconds += length;
    for (int part : parts) {
      const GroupSample* sample = SampleAt(interval, part);
      if (sample == nullptr) continue;
      const double norm = Finite(sample->norm_iops) * length;
      sum.norm_iops += norm;
      sum.raw_iops += Finite(sample->raw_iops) * length;
      sum.bytes_per_s += Finite(sample->bytes_per_s) * length;
      sum.by_reservation += sample->by_reservation * norm;
      sum.by_weight += sample->by_weight * norm;
      sum.by_leftover += sample->by_leftover * norm;
      sum.timeouts += sample->timeouts;
      if (!sample->blocked_by.empty())
        blocked[sample->blocked_by] += sample->blocked_share * length;
    }
  }
  if (sum.norm_iops > 0) {
    for (double* share : {&sum.by_reservation, &sum.by_weight, &sum.by_leftover}) {
      *share /= sum.norm_iops;
    }
  }
  if (sum.seconds > 0) {
    for (double* rate : {&sum.norm_iops, &sum.raw_iops, &sum.bytes_per_s}) *rate /= sum.seconds;
    for (const auto& [limit, seconds] : blocked) {
      if (seconds / sum.seconds <= sum.blocked_share) continue;
      sum.blocked_share = seconds / sum.seconds;
      sum.blocked_by = limit;
    }
  }
  return sum;
}

FineHistogram LatencyOf(const RunResult& result, int group, Intervals intervals) {
  return MergeLeaves<FineHistogram>(result, group, intervals, &GroupSample::latency);
}

CoarseHistogram WaitOf(const RunResult& result, int group, Intervals intervals) {
  return MergeLeaves<CoarseHistogram>(result, group, intervals, &GroupSample::wait);
}

Duration WaitQuantile(const CoarseHistogram& wait, const FineHistogram& latency, double q) {
  const Duration of_wait = wait.Quantile(q);
  return latency.count() == 0 ? of_wait : std::min(of_wait, latency.Quantile(q));
}

std::vector<int> LeavesOf(const RunResult& result, int group) {
  std::vector<bool> below(result.groups.size(), group == kDeviceGroup);
  std::vector<int> leaves;
  for (size_t i = 0; i < result.groups.size(); ++i) {
    const GroupInfo& info = result.groups[i];
    if (static_cast<int>(i) == group) below[i] = true;
    // Parents come before their children.
    if (info.parent >= 0 && info.parent < static_cast<int>(i)) {
      below[i] = below[i] || below[static_cast<size_t>(info.parent)];
    }
    if (below[i] && info.leaf) leaves.push_back(static_cast<int>(i));
  }
  return leaves;
}

bool IsIdleOtherGroups(const RunResult& result, int group) {
  const GroupInfo& info = result.groups[static_cast<size_t>(group)];
  if (!info.leaf || info.parent < 0 || NameOf(result, group) != catalog::kOtherGroups) return false;
  return std::all_of(result.intervals.begin(), result.intervals.end(), [group](const Interval& i) {
    const GroupSample* sample = SampleAt(i, group);
    return sample == nullptr || (sample->raw_iops <= 0 && sample->queued == 0);
  });
}

int LevelOf(const RunResult& result, int group) {
  int level = 0;
  for (int i = group; i >= 0; ++level) {
    const int parent = result.groups[static_cast<size_t>(i)].parent;
    if (parent < 0 || parent >= i) break;
    i = parent;
  }
  return level;
}

std::string NameOf(const RunResult& result, int group) {
  const GroupInfo& info = result.groups[static_cast<size_t>(group)];
  if (info.parent < 0) return info.path;
  const size_t slash = info.path.rfind('/');
  return slash == std::string::npos ? info.path : info.path.substr(slash + 1);
}

int FindGroup(const RunResult& result, const std::string& path) {
  if (path.empty()) return kDeviceGroup;
  for (size_t i = 0; i < result.groups.size(); ++i) {
    if (result.groups[i].path == path) return static_cast<int>(i);
  }
  return -2;
}

}  // namespace weir::scenario

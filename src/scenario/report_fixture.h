// A made-up run for the tests of the reports: four tenants on one disk, the third from second 10,
// one of them with groups inside. Tests only.
#pragma once

#include <string>

#include "scenario/report.h"

namespace weir::scenario {

inline GroupInfo MakeGroup(std::string path, int parent, bool leaf) {
  GroupInfo info;
  info.path = std::move(path);
  info.parent = parent;
  info.leaf = leaf;
  return info;
}

inline GroupSample MakeSample(double norm_iops, Duration latency, uint64_t requests = 100) {
  GroupSample sample;
  sample.norm_iops = norm_iops;
  sample.raw_iops = norm_iops * 0.8;
  sample.bytes_per_s = norm_iops * 16384;
  sample.read_share = 1;
  sample.by_weight = 1;
  for (uint64_t i = 0; norm_iops > 0 && i < requests; ++i) {
    sample.latency.Record(latency);
    sample.wait.Record(latency / 2);
  }
  return sample;
}

// tenant1 (2/3 of what is left), tenant2 with A and B, tenant3 (from second 10, reserved), tenant4
// (held back by its MAX of 5,000).
inline RunResult MakeRun() {
  RunResult run;
  run.title = "Four tenants of one disk";
  run.where = "simulated device";
  run.capacity = 60'000;
  run.groups = {MakeGroup("tenant1", -1, true),  MakeGroup("tenant2", -1, false),
                MakeGroup("tenant2/A", 1, true), MakeGroup("tenant2/B", 1, true),
                MakeGroup("tenant3", -1, true),  MakeGroup("tenant4", -1, true)};
  run.groups[4].params.min[0] = 10'000 * kOp;
  run.groups[5].params.MaxOf(Dimension::kNorm, Scope::kBoth) = 5'000 * kOp;
  for (int second = 0; second < 20; ++second) {
    const bool joined = second >= 10;
    const double rest = joined ? 45'000 : 55'000;
    const double wobble = (second * 7 % 5 - 2) * 40;
    Interval interval;
    interval.start_s = second;
    interval.depth = 16;
    interval.groups = {
        MakeSample(rest * 2 / 3 + wobble, std::chrono::microseconds(joined ? 2100 : 1700)),
        MakeSample(rest / 3 - wobble, std::chrono::microseconds(3900)),
        MakeSample(2'000, std::chrono::microseconds(31'000 + 300 * second)),
        MakeSample(rest / 3 - wobble - 2'000, std::chrono::microseconds(3'900)),
        MakeSample(joined ? 10'000 : 0, std::chrono::microseconds(6'400)),
        MakeSample(5'000, std::chrono::microseconds(12'800))};
    interval.groups[4].by_weight = 0;
    interval.groups[4].by_reservation = joined ? 1 : 0;
    interval.groups[5].blocked_share = 0.93;
    interval.groups[5].blocked_by = LimitName(Dimension::kNorm, Scope::kBoth);
    interval.groups[5].queued = 64;
    if (second == 10) interval.notes = {"tenant3 starts"};
    run.intervals.push_back(interval);
  }
  return run;
}

}  // namespace weir::scenario

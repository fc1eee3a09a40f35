#include "app/bench_turns.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/monotonic_clock.h"
#include "scenario/sample.h"

namespace weir::app {

namespace {

constexpr Duration kLeadIn = std::chrono::milliseconds(1);
constexpr Duration kDrainLimit = std::chrono::seconds(10);

scenario::Interval IntervalOf(const Session& session, const Snapshot& before,
                              const Snapshot& after) {
  scenario::Interval interval;
  interval.length_s = ToSeconds(after.at - before.at);
  interval.depth = static_cast<double>(after.depth) / static_cast<double>(kOp);
  for (size_t i = 0; i < after.groups.size(); ++i) {
    interval.groups.push_back(
        scenario::SampleOf(before.groups[i], after.groups[i], interval.length_s));
    const int meter = session.meter_of(i);
    if (meter >= 0) {
      interval.groups.back().latency = after.meters[static_cast<size_t>(meter)].latency;
    }
  }
  return interval;
}

}  // namespace

double DeviceIops(const Session& session, const scenario::Interval& interval) {
  double sum = 0;
  for (size_t i = 0; i < session.nodes().size(); ++i) {
    if (session.nodes()[i].parent < 0) sum += interval.groups[i].norm_iops;
  }
  return sum;
}

Result<scenario::Interval> RunSlice(Session* session, const SliceOptions& options,
                                    StopSignal* stop) {
  const TimePoint start = MonotonicNow() + kLeadIn;
  session->Start(start, kNever);
  stop->WaitUntil(start + options.warm_up);
  auto before = session->Take();
  if (!before) return tl::unexpected(std::move(before.error()));
  stop->WaitUntil(start + options.slice);
  auto after = session->Take();
  if (!after) return tl::unexpected(std::move(after.error()));
  if (!session->Pause(kDrainLimit)) {
    return Fail(ErrorCode::kUnavailable,
                "the disk has not answered for 10 s; see the kernel's log for its errors");
  }
  return IntervalOf(*session, *before, *after);
}

Result<std::vector<SlicePair>> TakeTurns(
    Session* scheduled, Session* unscheduled, int pairs, const SliceOptions& options,
    StopSignal* stop, std::vector<scenario::Interval>* unscheduled_intervals,
    const std::function<void(int, const SlicePair&)>& on_pair) {
  std::vector<SlicePair> result;
  for (int i = 0; i < pairs; ++i) {
    SlicePair pair;
    for (const bool first : {true, false}) {
      const bool with = first == (i % 2 == 0);
      Session* session = with ? scheduled : unscheduled;
      auto slice = RunSlice(session, options, stop);
      if (!slice) return tl::unexpected(std::move(slice.error()));
      if (stop->number() != 0) return result;
      (with ? pair.scheduled : pair.unscheduled) = DeviceIops(*session, *slice);
      if (with) {
        pair.depth = slice->depth;
      } else if (unscheduled_intervals != nullptr) {
        slice->start_s =
            unscheduled_intervals->empty()
                ? 0
                : unscheduled_intervals->back().start_s + unscheduled_intervals->back().length_s;
        unscheduled_intervals->push_back(std::move(*slice));
      }
    }
    result.push_back(pair);
    if (on_pair) on_pair(i, pair);
  }
  return result;
}

void MakeComparable(Session* a, Session* b) {
  b->Pin(a->Pin());
  b->ShareBuffersOf(a);
}

double RatioQuantile(const std::vector<SlicePair>& pairs, double q) {
  std::vector<double> ratios;
  for (const SlicePair& pair : pairs) {
    if (pair.unscheduled > 0) ratios.push_back(pair.scheduled / pair.unscheduled);
  }
  if (ratios.empty()) return 0;
  std::sort(ratios.begin(), ratios.end());
  const double place = q * static_cast<double>(ratios.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, ratios.size() - 1);
  return ratios[below] + (ratios[above] - ratios[below]) * (place - std::floor(place));
}

}  // namespace weir::app

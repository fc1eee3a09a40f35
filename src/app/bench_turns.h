// The same load scheduled and unscheduled, in short slices that take turns, so that a disk whose
// speed wanders treats both alike. Threads: one caller.
#pragma once

#include <functional>
#include <vector>

#include "app/bench_session.h"
#include "app/bench_signal.h"
#include "base/result.h"
#include "base/time.h"
#include "scenario/report.h"

namespace weir::app {

// Two slices that ran one after the other.
struct SlicePair {
  double scheduled = 0;  // normalised op/s of the whole device
  double unscheduled = 0;
  double depth = 0;  // the scheduler's bound at the end of its slice, normalised op
};

struct SliceOptions {
  Duration slice = std::chrono::milliseconds(250);
  Duration warm_up = std::chrono::milliseconds(50);  // at the start of each, not counted
};

// What each group got in one slice. The session is paused before and after. Errors: as
// Session::Take; kUnavailable: requests do not come back.
[[nodiscard]] Result<scenario::Interval> RunSlice(Session* session, const SliceOptions& options,
                                                  StopSignal* stop);
// Normalised op/s of the whole device.
[[nodiscard]] double DeviceIops(const Session& session, const scenario::Interval& interval);

// `pairs` pairs, the order turned round in every other one. Ends early after a signal.
[[nodiscard]] Result<std::vector<SlicePair>> TakeTurns(
    Session* scheduled, Session* unscheduled, int pairs, const SliceOptions& options,
    StopSignal* stop, std::vector<scenario::Interval>* unscheduled_intervals,
    const std::function<void(int, const SlicePair&)>& on_pair);

// Before sessions of one scenario are compared: one CPU and the same buffers for both. The CPU that
// takes the disk's interrupts may be faster or slower than the others, and on a virtual machine the
// place of the buffers alone made identical engines differ by 15 %. Requires: both paused; `a`
// outlives `b`.
void MakeComparable(Session* a, Session* b);

// Slices in which the scheduler's bound on the depth settles; not to be counted.
inline constexpr int kSettlingPairs = 4;

// Of scheduled over unscheduled, pair by pair: what the disk does from pair to pair cancels out.
// Requires: 0 <= q <= 1. 0 if there is no pair.
[[nodiscard]] double RatioQuantile(const std::vector<SlicePair>& pairs, double q);

}  // namespace weir::app

// Questions to a DispatchGrid: did a limit hold in every window, and when did a new one take
// effect. PURE.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"

namespace weir::app::demo {

// Cost dispatched (1/65536 op) in steps of time from the start of a run.
struct GridView {
  const std::vector<int64_t>* cost = nullptr;
  Duration step{0};
};

// The sum over [from, to), rounded down to steps.
[[nodiscard]] int64_t ServedIn(const GridView& grid, Duration from, Duration to);

// The most by which any window of whole steps within [from, to) exceeds rate * length; >= 0. A
// limit of that rate holds if this is at most its burst and one request. Units: cost, cost per s.
// Cost: O(steps).
[[nodiscard]] int64_t LargestExcess(const GridView& grid, int64_t rate_per_s, Duration from,
                                    Duration to);

// How long after `at` a lowered limit was in force: the shortest time after which no window within
// what is left of [at, until) exceeds rate * length + allowance. `until - at` if never.
[[nodiscard]] Duration LoweredAfter(const GridView& grid, int64_t rate_per_s, int64_t allowance,
                                    Duration at, Duration until);

// How long after `at` more was served than the old rate (and `allowance`) would have let pass: a
// raised limit was in force by then. `until - at` if never.
[[nodiscard]] Duration RaisedAfter(const GridView& grid, int64_t old_rate_per_s, int64_t allowance,
                                   Duration at, Duration until);

}  // namespace weir::app::demo

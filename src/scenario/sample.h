// One interval of a group, from the scheduler's counters before and after it: the same arithmetic
// for the simulator and the real runner. PURE.
#pragma once

#include "core/scheduler.h"
#include "scenario/report.h"

namespace weir::scenario {

// Everything but `latency`, which whoever submits the requests measures.
// Requires: seconds > 0, `before` an earlier copy of the same group's counters.
[[nodiscard]] GroupSample SampleOf(const core::GroupStats& before, const core::GroupStats& after,
                                   double seconds);

}  // namespace weir::scenario

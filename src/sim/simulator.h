// Runs a scenario in virtual time on the production scheduler. PURE; a seed replays any run.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "scenario/report.h"
#include "scenario/scenario.h"

namespace weir::sim {

// Samples (groups x intervals, 10 kB each) of one run; a longer one gets longer intervals than a
// second.
inline constexpr int64_t kMaxSamples = 20'000;

using IntervalCallback = std::function<void(const scenario::RunResult&, const scenario::Interval&)>;

// The device is scenario.sim; what the scheduler is told of its capacity is the `capacity_iops` of
// the scenario's [[device]], if written. Requests cost bytes / 16 KiB, at least half an op. A
// request with a deadline is refused when its predicted wait is longer, as the engine does.
// `on_interval` (may be empty) is called after each interval of virtual time.
// Errors: as catalog::Resolve and catalog::ApplyChanges.
[[nodiscard]] Result<scenario::RunResult> Run(const scenario::Scenario& scenario, uint64_t seed,
                                              const IntervalCallback& on_interval);

}  // namespace weir::sim

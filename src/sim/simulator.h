// Runs a scenario in virtual time on the production scheduler. PURE; a seed replays any run.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "scenario/report.h"
#include "scenario/scenario.h"

namespace weir::sim {

// `on_interval` (may be empty) is called after each interval of virtual time.
[[nodiscard]] Result<scenario::RunResult> Run(
    const scenario::Scenario& scenario, uint64_t seed,
    const std::function<void(const scenario::RunResult&, const scenario::Interval&)>& on_interval);

}  // namespace weir::sim

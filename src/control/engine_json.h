// Plans and counters as JSON text: the results of the control socket. Internal to the folder.
//
// PURE.
#pragma once

#include <string>
#include <vector>

#include "control/plan_holder.h"
#include "control/sampler.h"

namespace weir::control {

[[nodiscard]] std::string ChangeJson(const PlanChange& change);

[[nodiscard]] std::string PlanJson(const Plan& plan);
[[nodiscard]] std::string UnitsJson(const Plan& plan);
[[nodiscard]] std::string GroupsJson(const Plan& plan);
[[nodiscard]] std::string MatchesJson(const Plan& plan);

// Rates from `before` to `now`; `more` as EngineHandlerOptions::more_stats gives it.
[[nodiscard]] std::string StatsJson(const Snapshot& before, const Snapshot& now,
                                    const std::string& more);

// What holds back the requests that wait, by leaf. `before` was taken a moment ago. `group` empty:
// all leaves with queued requests; else that node and all below, also when nothing waits.
[[nodiscard]] std::string ExplainJson(const Snapshot& before, const Snapshot& now,
                                      const std::string& group);

}  // namespace weir::control

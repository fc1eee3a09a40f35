// The demonstration's promises against what was measured. PURE.
#pragma once

#include <string>
#include <vector>

#include "app/bench_runner.h"
#include "app/bench_turns.h"
#include "app/demo/scenarios.h"
#include "base/time.h"
#include "scenario/report.h"

namespace weir::app::demo {

inline constexpr Duration kGridStep = std::chrono::milliseconds(1);

using Verdicts = std::vector<scenario::Verdict>;

// Of a run of FourTenants.
[[nodiscard]] Verdicts JudgeTenants(const RunOutcome& run, const Scale& scale);
// Of a run of LoadsInTenant2.
[[nodiscard]] Verdicts JudgeLoads(const RunOutcome& run, const Scale& scale);

// One live change, as measured.
struct ChangeEffect {
  int64_t from = 0;  // MAX, op/s
  int64_t to = 0;
  Duration in_force{0};  // from the command to the effect on what is dispatched
  double norm_iops = 0;  // from 100 ms after the change to the next one
};
// Of a run of LiveChange, in order.
[[nodiscard]] std::vector<ChangeEffect> EffectsOf(const RunOutcome& run,
                                                  const scenario::Scenario& scenario);
[[nodiscard]] Verdicts JudgeChanges(const RunOutcome& run, const scenario::Scenario& scenario);
// Normalised against raw IOPS of the whole scan; 0 if nothing ran.
[[nodiscard]] double CostOfScanRead(const RunOutcome& run);

// Of slices scheduled and unscheduled in turns.
[[nodiscard]] Verdicts JudgeThroughput(const std::vector<SlicePair>& pairs);

}  // namespace weir::app::demo

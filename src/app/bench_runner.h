// Runs a scenario on a real file in real time: loads, changes at their times, a sample a second.
// Threads: one caller, which it keeps busy until the run is over or a signal came.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/bench_capacity.h"
#include "app/bench_file.h"
#include "app/bench_session.h"
#include "app/bench_signal.h"
#include "base/result.h"
#include "base/time.h"
#include "datapath/uring/engine.h"
#include "scenario/report.h"
#include "scenario/scenario.h"

namespace weir::app {

// Samples (groups x intervals) that are kept of one run; longer runs get longer intervals.
inline constexpr int64_t kMaxBenchSamples = 50'000;

struct RunOptions {
  SessionOptions session;
  Duration interval = std::chrono::seconds(1);
  // Called once before the first request, with groups, title, capacity and warnings known.
  std::function<void(const scenario::RunResult&, Priority)> on_start;
  std::function<void(const scenario::RunResult&, const scenario::Interval&)> on_interval;
};

struct AppliedChange {
  size_t index = 0;     // into Scenario::changes
  Duration asked{0};    // from the start of the run: before the engine was told,
  Duration applied{0};  // and once it is in force
};

struct RunOutcome {
  scenario::RunResult result;
  bool stopped = false;  // by a signal; the result is of what ran
  Duration ran{0};
  std::vector<AppliedChange> changes;
  std::vector<DispatchGrid> grids;  // by group; empty without a load or without grid_step
  int64_t final_depth = 0;          // D, 1/65536 op
};

// Makes every change on paper first: a change that cannot be made is an error before anything
// runs. Errors: those of Session::Create and catalog::ApplyChanges; kInternal.
[[nodiscard]] Result<RunOutcome> RunScenario(const scenario::Scenario& scenario,
                                             const BenchFile& file, const Capacity& capacity,
                                             const RunOptions& options, StopSignal* stop);

// Cuts or stretches a scenario: loads and changes that would begin later are dropped, expectations
// that reach beyond the end too; `warnings` says which.
void SetDuration(scenario::Scenario* scenario, Duration duration,
                 std::vector<std::string>* warnings);

// The expectations whose window lies within the first `ran` of the run.
[[nodiscard]] scenario::Scenario OnlyJudgeable(const scenario::Scenario& scenario, Duration ran);

}  // namespace weir::app

#include "app/bench_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"
#include "scenario/sample.h"

namespace weir::app {

namespace {

using scenario::Interval;
using scenario::RunResult;
using scenario::Scenario;

// Time for the engine to be told of all loads before they start.
constexpr Duration kLeadIn = std::chrono::milliseconds(20);
// Requests still in the device at the end come back within this, or the result says so.
constexpr Duration kDrainLimit = std::chrono::seconds(10);

Duration IntervalLength(Duration wanted, Duration run, size_t groups) {
  const double samples = std::ceil(ToSeconds(run) / ToSeconds(wanted)) *
                         static_cast<double>(std::max<size_t>(1, groups));
  return wanted * static_cast<int64_t>(
                      std::max(1.0, std::ceil(samples / static_cast<double>(kMaxBenchSamples))));
}

std::string DescribeChange(const scenario::Change& change) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : change.set) parts.push_back(key + " = " + value);
  return change.target + ": " + JoinNames(parts);
}

// A change worked out beforehand, so that making it is one message to the engine.
struct PlannedChange {
  std::vector<size_t> nodes;
  std::vector<ResourceParams> params;
};

Result<std::vector<PlannedChange>> PlanChanges(const Scenario& scenario, const Session& session,
                                               const Capacity& capacity) {
  std::vector<PlannedChange> plan;
  catalog::Config config = scenario.config;
  std::vector<catalog::TreeNode> before = session.nodes();
  for (const scenario::Change& change : scenario.changes) {
    const auto with_place = [&](const Error& error) {
      return Fail(error.code, fmt::format("{}:{}: {}", config.file, change.line, error.message),
                  error.sys_errno);
    };
    if (auto applied = catalog::ApplyChanges(&config, change.target, change.set); !applied) {
      return with_place(applied.error());
    }
    auto nodes = catalog::Resolve(config, "",
                                  std::llround(capacity.iops * static_cast<double>(kOp)), nullptr);
    if (!nodes) return with_place(nodes.error());
    if (nodes->size() != before.size()) {
      return with_place({ErrorCode::kInternal, "the change alters the tree itself"});
    }
    PlannedChange& planned = plan.emplace_back();
    for (size_t i = 0; i < before.size(); ++i) {
      if ((*nodes)[i].params == before[i].params) continue;
      planned.nodes.push_back(i);
      planned.params.push_back((*nodes)[i].params);
    }
    before = std::move(*nodes);
  }
  return plan;
}

class Runner {
 public:
  Runner(const Scenario& scenario, const RunOptions& options, Session* session,
         std::vector<PlannedChange> plan, RunResult result, StopSignal* stop)
      : scenario_(scenario),
        options_(options),
        session_(*session),
        plan_(std::move(plan)),
        stop_(*stop) {
    outcome_.result = std::move(result);
  }

  Result<RunOutcome> Run();

 private:
  // `until`: the interval's end as planned; what was to begin then belongs to the next one.
  Result<void> Sample(Duration until);
  Result<void> MakeChange();
  void NoteLoads();
  [[nodiscard]] bool StopWaitingAt(Duration at);  // true: a signal came first
  [[nodiscard]] Duration Elapsed() const { return MonotonicNow() - start_; }

  const Scenario& scenario_;
  const RunOptions& options_;
  Session& session_;
  const std::vector<PlannedChange> plan_;
  StopSignal& stop_;
  RunOutcome outcome_;
  TimePoint start_{};
  Snapshot before_;
  std::vector<std::string> notes_;
  std::vector<std::pair<Duration, std::string>> load_notes_;  // earliest last
  size_t next_change_ = 0;
};

void Runner::NoteLoads() {
  for (const scenario::Load& load : scenario_.loads) {
    if (load.start.count() > 0)
      load_notes_.emplace_back(load.start, "load " + load.name + " starts");
    if (load.stop.count() > 0 && load.stop < scenario_.duration) {
      load_notes_.emplace_back(load.stop, "load " + load.name + " stops");
    }
  }
  std::stable_sort(load_notes_.begin(), load_notes_.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
}

bool Runner::StopWaitingAt(Duration at) { return stop_.WaitUntil(start_ + at); }

Result<RunOutcome> Runner::Run() {
  NoteLoads();
  if (options_.on_start) options_.on_start(outcome_.result, session_.priority());
  const Duration interval =
      IntervalLength(options_.interval, scenario_.duration, session_.nodes().size());
  if (interval > options_.interval && !scenario_.expects.empty()) {
    outcome_.result.warnings.push_back(scenario::LongIntervalWarning(interval));
  }
  start_ = MonotonicNow() + kLeadIn;
  session_.Start(start_, start_ + scenario_.duration);
  if (!StopWaitingAt(Duration(0))) {
    auto first = session_.Take();
    if (!first) return tl::unexpected(std::move(first.error()));
    before_ = std::move(*first);
    before_.at = start_;
  }
  Duration next_sample = std::min(interval, scenario_.duration);
  while (stop_.number() == 0 && Elapsed() < scenario_.duration) {
    const bool change_first =
        next_change_ < plan_.size() && scenario_.changes[next_change_].at < next_sample;
    if (StopWaitingAt(change_first ? scenario_.changes[next_change_].at : next_sample)) break;
    if (change_first) {
      if (auto made = MakeChange(); !made) return tl::unexpected(std::move(made.error()));
      continue;
    }
    if (auto sampled = Sample(next_sample); !sampled) {
      return tl::unexpected(std::move(sampled.error()));
    }
    next_sample = std::min(next_sample + interval, scenario_.duration);
  }
  outcome_.stopped = stop_.number() != 0;
  if (outcome_.stopped && before_.at != TimePoint{}) {
    if (auto sampled = Sample(Elapsed()); !sampled)
      return tl::unexpected(std::move(sampled.error()));
  }
  outcome_.ran = std::min(Elapsed(), scenario_.duration);
  if (!session_.Pause(kDrainLimit)) {
    outcome_.result.warnings.push_back("requests were still in the device " +
                                       FormatDuration(kDrainLimit) + " after the end");
  }
  const LoadDriver& driver = session_.driver();
  if (!driver.first_error().empty()) {
    outcome_.result.warnings.push_back("requests failed; the first: " + driver.first_error());
  }
  if (driver.missed_arrivals() > 0) {
    outcome_.result.warnings.push_back(
        fmt::format("{} arrivals of loads with a rate were left out: too many requests were "
                    "outstanding (threads * depth, at least {})",
                    driver.missed_arrivals(), kOpenLoopSlots));
  }
  for (size_t i = 0; i < session_.nodes().size(); ++i) {
    const int meter = session_.meter_of(i);
    outcome_.grids.push_back(meter < 0 ? DispatchGrid{}
                                       : driver.grids()[static_cast<size_t>(meter)]);
  }
  return std::move(outcome_);
}

Result<void> Runner::MakeChange() {
  const PlannedChange& planned = plan_[next_change_];
  std::vector<GroupChange> changes;
  for (size_t i = 0; i < planned.nodes.size(); ++i) {
    GroupChange& change = changes.emplace_back();
    change.kind = GroupChange::Kind::kSetParams;
    change.group = session_.groups()[planned.nodes[i]];
    change.params = planned.params[i];
  }
  AppliedChange applied;
  applied.index = next_change_;
  applied.asked = Elapsed();
  if (auto done = session_.engine()->Apply(changes); !done) {
    return tl::unexpected(std::move(done.error()));
  }
  applied.applied = Elapsed();
  outcome_.changes.push_back(applied);
  for (size_t i = 0; i < planned.nodes.size(); ++i) {
    outcome_.result.groups[planned.nodes[i]].params = planned.params[i];
  }
  notes_.push_back(DescribeChange(scenario_.changes[next_change_]));
  ++next_change_;
  return {};
}

Result<void> Runner::Sample(Duration until) {
  auto taken = session_.Take();
  if (!taken) return tl::unexpected(std::move(taken.error()));
  Snapshot& now = *taken;
  const double seconds = ToSeconds(now.at - before_.at);
  if (seconds <= 0) return {};
  Interval interval;
  interval.start_s = ToSeconds(before_.at - start_);
  interval.length_s = seconds;
  interval.depth = static_cast<double>(now.depth) / static_cast<double>(kOp);
  while (!load_notes_.empty() && load_notes_.back().first < until) {
    notes_.push_back(std::move(load_notes_.back().second));
    load_notes_.pop_back();
  }
  interval.notes = std::exchange(notes_, {});
  for (size_t i = 0; i < now.groups.size(); ++i) {
    scenario::GroupSample& sample =
        interval.groups.emplace_back(scenario::SampleOf(before_.groups[i], now.groups[i], seconds));
    const int meter = session_.meter_of(i);
    if (meter < 0) continue;
    LoadMeter& met = now.meters[static_cast<size_t>(meter)];
    sample.latency = met.latency;
    // What was refused at once is not in the scheduler's counters.
    sample.timeouts = std::max(sample.timeouts, met.timeouts);
    outcome_.result.errors += met.failed;
    outcome_.result.throttle_timeouts += met.timeouts;
  }
  outcome_.final_depth = now.depth;
  before_ = std::move(now);
  outcome_.result.intervals.push_back(std::move(interval));
  if (options_.on_interval) options_.on_interval(outcome_.result, outcome_.result.intervals.back());
  return {};
}

}  // namespace

Result<RunOutcome> RunScenario(const Scenario& scenario, const BenchFile& file,
                               const Capacity& capacity, const RunOptions& options,
                               StopSignal* stop) {
  RunResult result;
  result.title = scenario.title;
  result.where = file.what();
  result.isolated = options.session.isolated;
  result.capacity = capacity.iops;
  result.warnings = file.warnings();
  auto session = Session::Create(scenario, file, capacity, options.session, &result.warnings);
  if (!session) return tl::unexpected(std::move(session.error()));
  auto plan = PlanChanges(scenario, **session, capacity);
  if (!plan) return tl::unexpected(std::move(plan.error()));
  for (const catalog::TreeNode& node : (*session)->nodes()) {
    result.groups.push_back({node.path, node.parent, node.leaf, node.params});
  }
  return Runner(scenario, options, session->get(), std::move(*plan), std::move(result), stop).Run();
}

void SetDuration(Scenario* scenario, Duration duration, std::vector<std::string>* warnings) {
  scenario->duration = duration;
  std::erase_if(scenario->loads, [&](const scenario::Load& load) {
    if (load.start < duration) return false;
    warnings->push_back(fmt::format("load {} is left out: it starts at {}, the run ends at {}",
                                    load.name, FormatDuration(load.start),
                                    FormatDuration(duration)));
    return true;
  });
  std::erase_if(scenario->changes, [&](const scenario::Change& change) {
    if (change.at < duration) return false;
    warnings->push_back(fmt::format("the change of {} at {} is left out: the run ends at {}",
                                    change.target, FormatDuration(change.at),
                                    FormatDuration(duration)));
    return true;
  });
  const size_t all = scenario->expects.size();
  *scenario = OnlyJudgeable(*scenario, duration);
  if (const size_t left_out = all - scenario->expects.size(); left_out > 0) {
    warnings->push_back(
        fmt::format("{} expectations reach beyond the end of the run and are not "
                    "judged",
                    left_out));
  }
}

Scenario OnlyJudgeable(const Scenario& scenario, Duration ran) {
  Scenario judged = scenario;
  std::erase_if(judged.expects, [&](const scenario::Expect& expect) {
    return std::max(expect.to.count() > 0 ? expect.to : scenario.duration, expect.from) > ran;
  });
  return judged;
}

}  // namespace weir::app

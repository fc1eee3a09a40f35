#include "app/demo/demo.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "app/bench_capacity.h"
#include "app/bench_file.h"
#include "app/bench_output.h"
#include "app/bench_runner.h"
#include "app/bench_session.h"
#include "app/bench_signal.h"
#include "app/bench_turns.h"
#include "app/demo/scenarios.h"
#include "app/demo/verdicts.h"
#include "app/files.h"
#include "base/text.h"
#include "base/units.h"
#include "scenario/report.h"

namespace weir::app::demo {

namespace {

using scenario::RunResult;
using scenario::Scenario;

// A load whose requests are all in the disk at once has none queued: nothing to schedule. The
// largest share here is some 60 % of the disk, of a load with kThreads outstanding requests.
constexpr int64_t kMaxDepth = kThreads * kOp;
constexpr int kCapacitySlices = 12;
constexpr int kPairs = 40;

void Print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::string Count(double value) { return FormatOpsRate(std::llround(value) * kOp); }

class Demo {
 public:
  explicit Demo(const DemoOptions& options) : options_(options), style_(TerminalStyle()) {
    scale_.seconds = options.seconds_scale;
  }

  Result<int> Run();

 private:
  Result<void> Prepare();
  Result<void> MeasureCapacity();
  Result<void> Tenants();
  Result<void> Loads();
  Result<void> Compare();
  Result<void> Changes();
  Result<void> WritePage();
  [[nodiscard]] bool Stopped() const { return stop_.number() != 0; }
  [[nodiscard]] SessionOptions Scheduled() const;
  [[nodiscard]] SliceOptions Slices() const;
  Result<std::optional<RunOutcome>> RunPart(const Scenario& scenario, bool table);
  void Finish(RunResult result, Verdicts verdicts);

  const DemoOptions options_;
  const scenario::TableStyle style_;
  StopSignal stop_;
  Scale scale_;
  std::optional<BenchFile> file_;
  Capacity capacity_;
  std::vector<RunResult> results_;
  std::vector<Verdicts> verdicts_;
};

Result<void> Demo::Prepare() {
  BenchFileOptions file;
  file.path = options_.directory;
  file.given_by = file.option = "--dir";
  std::error_code ignored;
  if (std::filesystem::exists(file.path, ignored) &&
      !std::filesystem::is_directory(file.path, ignored)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot run on {} (--dir): it is no directory; give one on the disk to "
                            "be used",
                            Quote(file.path)));
  }
  auto opened = BenchFile::Open(file);
  if (!opened) return tl::unexpected(std::move(opened.error()));
  file_ = std::move(*opened);
  Print(
      fmt::format("Weir demo, about {:.0f} s, on a {}\n", 20 + 72 * scale_.seconds, file_->what()));
  ProgressLine progress;
  auto laid_out = file_->LayOut([&](int64_t done, int64_t all) {
    progress.Show("writing the scratch file", static_cast<double>(done) / static_cast<double>(all));
    return !stop_.Poll();
  });
  if (!laid_out) return laid_out;
  auto capacity =
      FindCapacity(nullptr, file_->directory(), &stop_, [&](const device::CalibrateProgress& step) {
        progress.Show("quick calibration: what does each request cost?", step.done);
      });
  if (!capacity) return tl::unexpected(std::move(capacity.error()));
  capacity_ = std::move(*capacity);
  return {};
}

SessionOptions Demo::Scheduled() const {
  SessionOptions session;
  session.max_depth = kMaxDepth;
  session.initial_depth = kMaxDepth;
  session.grid_step = kGridStep;
  return session;
}

SliceOptions Demo::Slices() const {
  SliceOptions slices;
  slices.slice = std::max<Duration>(scale_.Time(ToSeconds(slices.slice)), 2 * slices.warm_up);
  return slices;
}

// The demonstration's own load shape, unscheduled: its limits must fit what that gives.
Result<void> Demo::MeasureCapacity() {
  auto scenario = FourTenants(scale_);
  if (!scenario) return tl::unexpected(std::move(scenario.error()));
  for (scenario::Load& load : scenario->loads) load.start = Duration(0);
  SessionOptions options;
  options.isolated = false;
  auto session = Session::Create(*scenario, *file_, capacity_, options, nullptr);
  if (!session) return tl::unexpected(std::move(session.error()));
  Print(fmt::format("I/O thread at {}\n", Describe((*session)->priority())));
  std::vector<double> slices;
  for (int i = 0; i < kCapacitySlices && !Stopped(); ++i) {
    auto slice = RunSlice(session->get(), Slices(), &stop_);
    if (!slice) return tl::unexpected(std::move(slice.error()));
    slices.push_back(DeviceIops(**session, *slice));
  }
  if (Stopped()) return {};
  std::sort(slices.begin(), slices.end());
  capacity_.iops = std::round(slices[slices.size() / 2]);
  scale_.rate = capacity_.iops / kArticleIops;
  Print(
      fmt::format("With {} requests outstanding this disk serves {} random reads of 16 KiB\n"
                  "({} to {}); the article's disk served {}. All limits are scaled by {:.3f}.\n",
                  4 * kThreads, Count(capacity_.iops), Count(slices.front()), Count(slices.back()),
                  Count(kArticleIops), scale_.rate));
  return {};
}

Result<std::optional<RunOutcome>> Demo::RunPart(const Scenario& scenario, bool table) {
  RunOptions run;
  run.session = Scheduled();
  run.interval = scale_.Time(table ? 1 : kScanStep / 5);
  run.on_start = [&](const RunResult& result, Priority) {
    Print("\n");
    if (table) Print(scenario::TableHeader(result, style_));
  };
  run.on_interval = [&](const RunResult& result, const scenario::Interval& interval) {
    if (table) Print(scenario::TableInterval(result, interval, style_));
  };
  auto outcome = RunScenario(scenario, *file_, capacity_, run, &stop_);
  if (!outcome) return tl::unexpected(std::move(outcome.error()));
  outcome->result.title += fmt::format(" (limits x {:.3f})", scale_.rate);
  if (outcome->stopped) {
    Print(scenario::Summary(outcome->result, {}, style_));
    return std::optional<RunOutcome>();
  }
  return std::optional<RunOutcome>(std::move(*outcome));
}

void Demo::Finish(RunResult result, Verdicts verdicts) {
  Print(scenario::Summary(result, verdicts, style_));
  results_.push_back(std::move(result));
  verdicts_.push_back(std::move(verdicts));
}

Result<void> Demo::Tenants() {
  auto scenario = FourTenants(scale_);
  if (!scenario) return tl::unexpected(std::move(scenario.error()));
  auto run = RunPart(*scenario, true);
  if (!run) return tl::unexpected(std::move(run.error()));
  if (*run) Finish((*run)->result, JudgeTenants(**run, scale_));
  return {};
}

Result<void> Demo::Loads() {
  auto scenario = LoadsInTenant2(scale_);
  if (!scenario) return tl::unexpected(std::move(scenario.error()));
  auto run = RunPart(*scenario, true);
  if (!run) return tl::unexpected(std::move(run.error()));
  if (*run) Finish((*run)->result, JudgeLoads(**run, scale_));
  return {};
}

Result<void> Demo::Compare() {
  auto scenario = FourTenants(scale_);
  if (!scenario) return tl::unexpected(std::move(scenario.error()));
  for (scenario::Load& load : scenario->loads) load.start = Duration(0);
  SessionOptions with = Scheduled();
  with.grid_step = Duration(0);
  SessionOptions without;
  without.isolated = false;
  auto scheduled = Session::Create(*scenario, *file_, capacity_, with, nullptr);
  if (!scheduled) return tl::unexpected(std::move(scheduled.error()));
  auto unscheduled = Session::Create(*scenario, *file_, capacity_, without, nullptr);
  if (!unscheduled) return tl::unexpected(std::move(unscheduled.error()));
  Print("\n");
  RunResult result;
  result.title =
      fmt::format("3. What it costs: the load of 1 unscheduled (limits x {:.3f})", scale_.rate);
  result.where = file_->what();
  result.isolated = false;
  result.capacity = capacity_.iops;
  for (const catalog::TreeNode& node : (*unscheduled)->nodes()) {
    result.groups.push_back({node.path, node.parent, node.leaf, node.params});
  }
  ProgressLine progress;
  // The bound on the depth settles first.
  auto pairs = TakeTurns(scheduled->get(), unscheduled->get(), kSettlingPairs, Slices(), &stop_,
                         nullptr, {});
  if (!pairs) return tl::unexpected(std::move(pairs.error()));
  pairs = TakeTurns(scheduled->get(), unscheduled->get(), kPairs, Slices(), &stop_,
                    &result.intervals, [&](int done, const SlicePair&) {
                      progress.Show("scheduled and unscheduled in turns",
                                    static_cast<double>(done + 1) / kPairs);
                    });
  progress.Clear();
  if (!pairs) return tl::unexpected(std::move(pairs.error()));
  if (!Stopped()) Finish(std::move(result), JudgeThroughput(*pairs));
  return {};
}

Result<void> Demo::Changes() {
  auto scenario = LiveChange(scale_);
  if (!scenario) return tl::unexpected(std::move(scenario.error()));
  auto run = RunPart(*scenario, false);
  if (!run) return tl::unexpected(std::move(run.error()));
  if (!*run) return {};
  const double cost = CostOfScanRead(**run);
  Print(fmt::format("{:>22} {:>12} {:>12} {:>12}\n", "MAX_IOPS of the scan", "in force",
                    "norm IOPS", "raw IOPS"));
  for (const ChangeEffect& effect : EffectsOf(**run, *scenario)) {
    Print(fmt::format("{:>10} -> {:>8} {:>9.0f} ms {:>12} {:>12}\n",
                      Count(static_cast<double>(effect.from)),
                      Count(static_cast<double>(effect.to)), ToSeconds(effect.in_force) * 1e3,
                      Count(effect.norm_iops), Count(cost > 0 ? effect.norm_iops / cost : 0)));
  }
  Finish((*run)->result, JudgeChanges(**run, *scenario));
  return {};
}

Result<void> Demo::WritePage() {
  if (options_.html.empty()) return {};
  const std::string title =
      fmt::format("Weir: disk isolation on a disk of {} (limits of the article's {} disk x {:.3f})",
                  Count(capacity_.iops), Count(kArticleIops), scale_.rate);
  auto written = WriteTextFile(options_.html, scenario::ToHtml(title, results_, verdicts_));
  if (written) Print(fmt::format("page      {}\n", options_.html));
  return written;
}

Result<int> Demo::Run() {
  for (const auto part : {&Demo::Prepare, &Demo::MeasureCapacity, &Demo::Tenants, &Demo::Loads,
                          &Demo::Compare, &Demo::Changes}) {
    auto done = (this->*part)();
    if (Stopped()) break;
    if (!done) return tl::unexpected(std::move(done.error()));
  }
  if (Stopped()) {
    Print("stopped; the scratch file is removed\n");
    return 128 + stop_.number();
  }
  int held = 0;
  int all = 0;
  for (const Verdicts& verdicts : verdicts_) {
    for (const scenario::Verdict& verdict : verdicts) {
      ++all;
      if (verdict.held) ++held;
    }
  }
  Print(fmt::format("\n{} of {} promises held\n", held, all));
  if (auto written = WritePage(); !written) return tl::unexpected(std::move(written.error()));
  return held == all ? 0 : 1;
}

}  // namespace

Result<int> RunDemo(const DemoOptions& options) { return Demo(options).Run(); }

}  // namespace weir::app::demo

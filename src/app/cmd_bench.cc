// `weir bench FILE.toml`: runs a scenario's loads on a real file through the engine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/bench_capacity.h"
#include "app/bench_file.h"
#include "app/bench_load.h"
#include "app/bench_output.h"
#include "app/bench_runner.h"
#include "app/bench_signal.h"
#include "app/bench_turns.h"
#include "app/commands.h"
#include "app/files.h"
#include "app/option_checks.h"
#include "app/report_files.h"
#include "base/text.h"
#include "base/units.h"
#include "scenario/report.h"
#include "scenario/scenario.h"

namespace weir::app {

namespace {

constexpr int kHeld = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

struct Arguments {
  std::string scenario;
  bool without_isolation = false;
  ReportFiles reports;
  std::string file;
  bool overwrite_file = false;
  std::string duration;
  std::string max_piece;
  int64_t seed = -1;
  int compare = 0;  // pairs
  bool quiet = false;
};

int Complain(const Error& error) {
  fmt::print(stderr, "weir bench: {}\n", error.message);
  return IsUsageError(error.code) ? kUsage : kFailed;
}

int Interrupted(int signal) { return 128 + signal; }

Result<scenario::Scenario> Load(const Arguments& arguments, std::vector<std::string>* warnings) {
  auto text = ReadTextFile(arguments.scenario);
  // A file that cannot be read is the caller's mistake.
  if (!text) return Fail(ErrorCode::kNotFound, text.error().message, text.error().sys_errno);
  auto scenario = scenario::ParseScenario(*text, arguments.scenario);
  if (!scenario) return scenario;
  if (arguments.seed >= 0) scenario->seed = static_cast<uint64_t>(arguments.seed);
  if (!arguments.file.empty()) scenario->file = arguments.file;
  if (scenario->title.empty()) scenario->title = arguments.scenario;
  if (arguments.duration.empty()) return scenario;
  auto duration = ParseDuration(arguments.duration);
  if (!duration) {
    return Fail(duration.error().code, "--duration: " + duration.error().message);
  }
  if (*duration < scenario::kMinRunTime || *duration > scenario::kMaxRunTime) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("--duration {} must be within {} .. {}", arguments.duration,
                    FormatDuration(scenario::kMinRunTime), FormatDuration(scenario::kMaxRunTime)));
  }
  SetDuration(&*scenario, *duration, warnings);
  if (scenario->loads.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--duration {}: no load starts within it; give a longer one",
                            arguments.duration));
  }
  return scenario;
}

Result<int64_t> MaxPiece(const std::string& text) {
  if (text.empty()) return 0;
  auto bytes = ParseBytes(text);
  if (bytes && (*bytes < 4096 || *bytes % 4096 != 0)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--max-piece {}: it must be a multiple of 4 KiB", text));
  }
  return bytes;
}

std::vector<InputFile> InputsOf(const scenario::Scenario& scenario, const Arguments& arguments) {
  std::vector<InputFile> inputs = {{"the scenario", arguments.scenario},
                                   {"the file that the loads run on", scenario.file}};
  for (const catalog::Device& device : scenario.config.devices) {
    inputs.push_back({"the profile of device " + Quote(device.name), device.profile});
    if (scenario.file.empty()) inputs.push_back({"the file that the loads run on", device.path});
  }
  return inputs;
}

// Where the loads run: as asked for, else beside what the scenario's device names, else here.
Result<BenchFile> OpenFile(const scenario::Scenario& scenario, const Arguments& arguments) {
  BenchFileOptions options;
  options.path = scenario.file;
  if (arguments.file.empty()) options.given_by = "file of [bench]";
  if (options.path.empty() && !scenario.config.devices.empty()) {
    const catalog::Device& device = scenario.config.devices.front();
    options.path = device.path;
    options.given_by = "path of device " + Quote(device.name);
  }
  if (options.path.empty()) options.path = ".";
  options.bytes = scenario.file_size;
  options.least_bytes = LargestRequest(scenario.loads);
  options.writes = AnyWrites(scenario.loads);
  options.overwrite = arguments.overwrite_file;
  return BenchFile::Open(options);
}

Result<Capacity> Prepare(const scenario::Scenario& scenario, BenchFile* file, StopSignal* stop) {
  const catalog::Device* device =
      scenario.config.devices.empty() ? nullptr : &scenario.config.devices.front();
  if (auto usable = ConfiguredCapacity(device); !usable) {
    return tl::unexpected(std::move(usable.error()));
  }
  ProgressLine progress;
  auto laid_out = file->LayOut([&](int64_t done, int64_t all) {
    progress.Show("writing the " + file->what(),
                  static_cast<double>(done) / static_cast<double>(all));
    return !stop->Poll();
  });
  if (!laid_out) return tl::unexpected(std::move(laid_out.error()));
  return FindCapacity(device, file->directory(), stop, [&](const device::CalibrateProgress& step) {
    progress.Show("quick calibration (no profile, no capacity_iops)", step.done);
  });
}

void Print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int StatusOf(const RunOutcome& outcome, const std::vector<scenario::Verdict>& verdicts,
             const StopSignal& stop) {
  if (outcome.stopped) return Interrupted(stop.number());
  if (outcome.result.errors > 0) return kFailed;
  // Without isolation nothing was promised; the verdicts are for comparison.
  if (!outcome.result.isolated) return kHeld;
  const bool held = std::all_of(verdicts.begin(), verdicts.end(),
                                [](const scenario::Verdict& verdict) { return verdict.held; });
  return held ? kHeld : kFailed;
}

std::string PairsJson(const std::vector<SlicePair>& pairs) {
  std::string json =
      fmt::format("{{\"median_ratio\": {:.6f}, \"pairs\": [", RatioQuantile(pairs, 0.5));
  for (size_t i = 0; i < pairs.size(); ++i) {
    json +=
        fmt::format("{}{{\"scheduled\": {:.1f}, \"unscheduled\": {:.1f}, \"depth\": {:.2f}}}",
                    i == 0 ? "" : ", ", pairs[i].scheduled, pairs[i].unscheduled, pairs[i].depth);
  }
  return json + "]}\n";
}

// --compare: all loads at once, in short slices scheduled and unscheduled in turns.
int Compare(const Arguments& arguments, scenario::Scenario scenario, const BenchFile& file,
            const Capacity& capacity, int64_t max_piece, StopSignal* stop) {
  for (scenario::Load& load : scenario.loads) load.start = load.stop = Duration(0);
  SessionOptions with;
  with.max_piece_bytes = max_piece;
  SessionOptions without;
  without.isolated = false;
  auto scheduled = Session::Create(scenario, file, capacity, with, nullptr);
  if (!scheduled) return Complain(scheduled.error());
  auto unscheduled = Session::Create(scenario, file, capacity, without, nullptr);
  if (!unscheduled) return Complain(unscheduled.error());
  MakeComparable(scheduled->get(), unscheduled->get());
  ProgressLine progress;
  // The bound on the depth settles first.
  auto pairs =
      TakeTurns(scheduled->get(), unscheduled->get(), kSettlingPairs, {}, stop, nullptr, {});
  if (pairs && stop->number() == 0) {
    pairs = TakeTurns(scheduled->get(), unscheduled->get(), arguments.compare, {}, stop, nullptr,
                      [&](int done, const SlicePair&) {
                        progress.Show("scheduled and unscheduled in turns",
                                      (done + 1.0) / arguments.compare);
                      });
  }
  progress.Clear();
  if (!pairs) return Complain(pairs.error());
  if (stop->number() != 0) return Interrupted(stop->number());
  Print(fmt::format(
      "scheduled / unscheduled, normalised op/s: {:.2f} %, median of {} pairs "
      "(quartiles {:.2f} to {:.2f} %), depth {:.0f} op at the end\n",
      100 * RatioQuantile(*pairs, 0.5), pairs->size(), 100 * RatioQuantile(*pairs, 0.25),
      100 * RatioQuantile(*pairs, 0.75), pairs->back().depth));
  if (arguments.reports.json.empty()) return kHeld;
  auto written = WriteTextFile(arguments.reports.json, PairsJson(*pairs));
  return written ? kHeld : Complain(written.error());
}

int Bench(const Arguments& arguments) {
  StopSignal stop;
  std::vector<std::string> warnings;
  auto scenario = Load(arguments, &warnings);
  if (!scenario) return Complain(scenario.error());
  if (auto ok = CheckReports(arguments.reports, InputsOf(*scenario, arguments)); !ok) {
    Complain(ok.error());
    return kUsage;
  }
  auto piece = MaxPiece(arguments.max_piece);
  if (!piece) return Complain(piece.error());
  auto file = OpenFile(*scenario, arguments);
  if (!file) return Complain(file.error());
  auto capacity = Prepare(*scenario, &*file, &stop);
  if (!capacity) {
    if (stop.number() != 0) {
      fmt::print(stderr, "weir bench: stopped before the run; the scratch file is removed\n");
      return Interrupted(stop.number());
    }
    return Complain(capacity.error());
  }

  if (arguments.compare > 0) {
    return Compare(arguments, std::move(*scenario), *file, *capacity, *piece, &stop);
  }

  const bool piped = arguments.reports.Piped();
  const bool table = !arguments.quiet && !piped;
  const scenario::TableStyle style = TerminalStyle();
  RunOptions options;
  options.session.isolated = !arguments.without_isolation;
  options.session.max_piece_bytes = *piece;
  options.on_start = [&](const scenario::RunResult& result, Priority priority) {
    if (!table) return;
    Print(fmt::format("capacity {} normalised IOPS, from {}; I/O thread at {}\n",
                      FormatOpsRate(std::llround(capacity->iops * static_cast<double>(kOp))),
                      capacity->source, Describe(priority)));
    Print(scenario::TableHeader(result, style));
  };
  options.on_interval = [&](const scenario::RunResult& result, const scenario::Interval& interval) {
    if (table) Print(scenario::TableInterval(result, interval, style));
  };
  auto outcome = RunScenario(*scenario, *file, *capacity, options, &stop);
  if (!outcome) return Complain(outcome.error());
  outcome->result.warnings.insert(outcome->result.warnings.begin(), warnings.begin(),
                                  warnings.end());
  const auto verdicts = scenario::Judge(
      outcome->stopped ? OnlyJudgeable(*scenario, outcome->ran) : *scenario, outcome->result);
  if (!piped) Print(scenario::Summary(outcome->result, verdicts, style));
  if (outcome->stopped) {
    fmt::print(stderr, "weir bench: stopped after {}\n", FormatDuration(outcome->ran));
  }
  if (auto written = WriteReports(arguments.reports, outcome->result, verdicts); !written) {
    return Complain(written.error());
  }
  return StatusOf(*outcome, verdicts, stop);
}

void AddRunOptions(CLI::App* command, Arguments* arguments) {
  command
      ->add_option("--file", arguments->file,
                   "Where to run: a directory, in which a scratch file without a name is made\n"
                   "(1 GiB, or file_size of [bench]), or a file or block device to read; default:\n"
                   "file of [bench], else path of the [[device]], else the working directory")
      ->check(NotEmpty())
      ->type_name("PATH");
  command->add_flag("--overwrite-file", arguments->overwrite_file,
                    "Let loads write to a file or block device that was there before;\n"
                    "what is in it is lost");
  command
      ->add_option("--duration", arguments->duration,
                   "Run for this long instead of the file's duration, as 5s or 2m")
      ->check(NotEmpty())
      ->type_name("TIME");
  command
      ->add_option("--seed", arguments->seed,
                   "Of offsets, sizes and think times, instead of the file's (default 1)")
      ->check(Seed())
      ->type_name("N");
  command
      ->add_option("--max-piece", arguments->max_piece,
                   "Send larger requests in pieces of this size, as 64KiB, a multiple of 4 KiB;\n"
                   "default: whole")
      ->check(NotEmpty())
      ->type_name("SIZE");
}

}  // namespace

void AddBench(CLI::App* app, int* status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app->add_subcommand(
      "bench", "Run a scenario's loads on a real file, in real time: who gets what, and why");
  command->add_option("FILE", arguments->scenario, "The scenario, as in docs/scenarios.md")
      ->required()
      ->type_name("");
  AddRunOptions(command, arguments.get());
  AddReportOptions(command, "second", &arguments->reports);
  command->add_flag("-q,--quiet", arguments->quiet, "Only the summary and the verdicts");
  CLI::Option* without =
      command->add_flag("--without-isolation", arguments->without_isolation,
                        "The same load unscheduled, to compare; nothing is promised then");
  command
      ->add_option("--compare", arguments->compare,
                   "Instead: what isolation costs, from N (1 to 10000) pairs of slices of\n"
                   "250 ms, scheduled and unscheduled in turns; only --json reports it")
      ->check(Between(1, 10'000))
      ->type_name("N")
      ->excludes(without)
      ->excludes("--csv")
      ->excludes("--html");
  command->footer(
      "Exit status: 0 all promises held, 1 one was missed or something failed, 2 bad usage or\n"
      "input; after a signal the summary of what ran is printed: 130 after Ctrl-C, 143 after\n"
      "SIGTERM, 129 after a hang-up.\n"
      "Examples:\n"
      "  weir bench examples/four-tenants.toml\n"
      "  weir bench examples/four-tenants.toml --file /data --html four-tenants.html\n"
      "  weir bench examples/four-tenants.toml --without-isolation --duration 5s\n"
      "  weir bench examples/four-tenants.toml --compare 40");
  command->callback([arguments, status] { *status = Bench(*arguments); });
}

}  // namespace weir::app

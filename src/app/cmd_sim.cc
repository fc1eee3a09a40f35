// weir sim: a scenario in virtual time.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/commands.h"
#include "app/files.h"
#include "app/option_checks.h"
#include "app/report_files.h"
#include "scenario/report.h"
#include "scenario/scenario.h"
#include "sim/simulator.h"

namespace weir::app {
namespace {

struct SimArguments {
  std::string file;
  uint64_t seed = 0;
  bool has_seed = false;
  ReportFiles reports;
  bool quiet = false;
};

int Complain(const Error& error) {
  fmt::print(stderr, "weir sim: {}\n", error.message);
  return error.code == ErrorCode::kIo ? 1 : 2;
}

int RunSim(const SimArguments& arguments) {
  const Result<std::string> text = ReadTextFile(arguments.file);
  if (!text) {
    Complain(text.error());
    return 2;
  }
  Result<scenario::Scenario> scenario = scenario::ParseScenario(*text, arguments.file);
  if (!scenario) return Complain(scenario.error());
  if (scenario->title.empty()) scenario->title = arguments.file;
  if (const Result<void> ok = CheckReports(arguments.reports, {{"the scenario", arguments.file}});
      !ok) {
    Complain(ok.error());
    return 2;
  }

  const bool piped = arguments.reports.Piped();
  const bool table = !arguments.quiet && !piped;
  const scenario::TableStyle style = TerminalStyle();
  bool first = true;
  const auto print = [&](const scenario::RunResult& run, const scenario::Interval& interval) {
    if (!table) return;
    if (first) fmt::print("{}", scenario::TableHeader(run, style));
    first = false;
    fmt::print("{}", scenario::TableInterval(run, interval, style));
  };
  const uint64_t seed = arguments.has_seed ? arguments.seed : scenario->seed;
  const Result<scenario::RunResult> result = sim::Run(*scenario, seed, print);
  if (!result) return Complain(result.error());
  const std::vector<scenario::Verdict> verdicts = scenario::Judge(*scenario, *result);
  if (!piped) {
    fmt::print("{}", scenario::Summary(*result, verdicts, style));
    fmt::print("seed {}\n", seed);
  }
  if (const Result<void> written = WriteReports(arguments.reports, *result, verdicts); !written) {
    return Complain(written.error());
  }
  for (const scenario::Verdict& verdict : verdicts) {
    if (!verdict.held) return 1;
  }
  return 0;
}

}  // namespace

void AddSim(CLI::App* app, int* status) {
  auto arguments = std::make_shared<SimArguments>();
  CLI::App* sim = app->add_subcommand(
      "sim",
      "Run a scenario in virtual time, in milliseconds and repeatably, and judge its promises");
  sim->add_option("FILE", arguments->file, "The scenario, as in docs/scenarios.md")
      ->required()
      ->type_name("");
  CLI::Option* seed = sim->add_option("--seed", arguments->seed,
                                      "Of sizes, offsets, think times and noise, instead of the "
                                      "file's (default 1);\na seed replays any run");
  seed->check(Seed())->type_name("N");
  AddReportOptions(sim, "interval", &arguments->reports);
  sim->add_flag("-q,--quiet", arguments->quiet, "Only the summary and the verdicts");
  sim->footer(
      "Exit status: 0 all promises held, 1 one was missed or a report could not be written,\n"
      "2 bad usage or input.\n"
      "Examples:\n"
      "  weir sim examples/four-tenants.toml\n"
      "  weir sim examples/four-tenants.toml --seed 7 --html four-tenants.html\n"
      "  weir sim examples/four-tenants.toml --json - | jq '.verdicts'");
  sim->callback([arguments, seed, status] {
    arguments->has_seed = seed->count() > 0;
    *status = RunSim(*arguments);
  });
}

}  // namespace weir::app

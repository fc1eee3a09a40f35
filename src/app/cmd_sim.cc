// weir sim: a scenario in virtual time.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/commands.h"
#include "app/files.h"
#include "scenario/report.h"
#include "scenario/scenario.h"
#include "sim/simulator.h"

namespace weir::app {
namespace {

struct SimArguments {
  std::string file;
  uint64_t seed = 0;
  bool has_seed = false;
  std::string json, csv, html;
  bool quiet = false;
};

int Complain(const Error& error) {
  fmt::print(stderr, "weir sim: {}\n", error.message);
  return error.code == ErrorCode::kIo ? 1 : 2;
}

Result<void> WriteReports(const SimArguments& arguments, const scenario::RunResult& result,
                          const std::vector<scenario::Verdict>& verdicts) {
  if (!arguments.json.empty()) {
    const Result<void> done = WriteTextFile(arguments.json, scenario::ToJson(result, verdicts));
    if (!done) return done;
  }
  if (!arguments.csv.empty()) {
    const Result<void> done = WriteTextFile(arguments.csv, scenario::ToCsv(result));
    if (!done) return done;
  }
  if (!arguments.html.empty()) {
    return WriteTextFile(arguments.html, scenario::ToHtml(result.title, {result}, {verdicts}));
  }
  return {};
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

  // Reports on standard output are for programs: the table would be in their way.
  const bool piped = arguments.json == "-" || arguments.csv == "-" || arguments.html == "-";
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
  if (const Result<void> written = WriteReports(arguments, *result, verdicts); !written) {
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
  CLI::App* sim = app->add_subcommand("sim", "Run a scenario in virtual time and judge it");
  sim->add_option("FILE", arguments->file, "The scenario, as in docs/scenarios.md")->required();
  CLI::Option* seed = sim->add_option("--seed", arguments->seed,
                                      "Replaces the seed of the file; a seed replays any run");
  seed->check([](const std::string& text) {
    // Read as unsigned, "-1" and numbers beyond 64 bits would silently become another seed.
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    return digits && text.size() <= 18
               ? std::string()
               : "a seed is a whole number from 0 to 999999999999999999, not " + text;
  });
  sim->add_option("--json", arguments->json, "Write all numbers as JSON to this file (-: stdout)");
  sim->add_option("--csv", arguments->csv,
                  "Write a line for each group and interval to this file (-: stdout)");
  sim->add_option("--html", arguments->html, "Write a page with charts to this file");
  sim->add_flag("-q,--quiet", arguments->quiet, "Only the summary and the verdicts");
  sim->footer(
      "Exit status: 0 all promises held, 1 one was missed, 2 bad usage or input.\n"
      "Examples:\n"
      "  weir sim tests/scenario/oceanbase_tenants.toml\n"
      "  weir sim four-tenants.toml --seed 7 --html four-tenants.html\n"
      "  weir sim four-tenants.toml --json - | jq '.verdicts'");
  sim->callback([arguments, seed, status] {
    arguments->has_seed = seed->count() > 0;
    *status = RunSim(*arguments);
  });
}

}  // namespace weir::app

// `weir demo`: the isolation experiments, live.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/bench_output.h"
#include "app/commands.h"
#include "app/demo/demo.h"
#include "app/files.h"
#include "app/option_checks.h"

namespace weir::app {

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int Demo(const demo::DemoOptions& options) {
  Result<void> writable = CheckWritable(options.html);
  if (writable && options.html == "-") {
    writable = Fail(ErrorCode::kInvalidArgument,
                    "--html -: standard output has the tables; give the page a file name");
  }
  if (!writable) {
    fmt::print(stderr, "weir demo: {}\n", writable.error().message);
    return kUsage;
  }
  auto status = demo::RunDemo(options);
  if (status) return *status;
  fmt::print(stderr, "weir demo: {}\n", status.error().message);
  return IsUsageError(status.error().code) ? kUsage : kFailed;
}

}  // namespace

void AddDemo(CLI::App* app, int* status) {
  auto options = std::make_shared<demo::DemoOptions>();
  CLI::App* command = app->add_subcommand(
      "demo", "Show disk isolation on this machine: four tenants, loads in a tenant, live changes");
  command->add_option("--dir", options->directory, "A directory on the disk to use")
      ->check(NotEmpty())
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--html", options->html, "Where to write the page with charts")
      ->check(NotEmpty())
      ->type_name("FILE")
      ->capture_default_str();
  command
      ->add_option("--seconds-scale", options->seconds_scale,
                   "Length of the runs, 0.02 to 1: 0.2 takes a fifth of the 70 seconds and is\n"
                   "judged less surely")
      ->check(Between(demo::kMinSecondsScale, 1.0))
      ->type_name("FACTOR")
      ->capture_default_str();
  command->footer(
      "Makes a scratch file of 1 GiB without a name, which goes away with the process.\n"
      "Takes about 90 seconds with the calibration. docs/demo.md tells what it shows.\n"
      "Exit status: 0 all promises held, 1 one was missed or something failed, 2 bad usage,\n"
      "130 after Ctrl-C, 143 after SIGTERM, 129 after a hang-up.\n"
      "Examples:\n"
      "  weir demo\n"
      "  weir demo --dir /data --html /tmp/weir-demo.html --seconds-scale 0.2");
  command->callback([options, status] { *status = Demo(*options); });
}

}  // namespace weir::app

// `weir calibrate PATH`: measures a device and stores its profile.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "app/commands.h"
#include "app/files.h"
#include "app/option_checks.h"
#include "base/monotonic_clock.h"
#include "base/units.h"
#include "device/block_info.h"
#include "device/calibrate.h"
#include "device/profile.h"

namespace weir::app {

namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

struct Arguments {
  std::string path;
  bool quick = false;
  std::string output = "weir-profile.json";
  std::string size;
  bool io_cost_model = false;
  bool destroy_data = false;
  bool json = false;
};

std::atomic<bool> g_cancel{false};
std::atomic<int> g_signal{0};

void OnSignal(int number) {
  g_signal.store(number);
  g_cancel.store(true);
}

// While one lives the first SIGINT, SIGTERM or SIGHUP cancels; a second one ends the process.
class CancelOnSignal {
 public:
  CancelOnSignal() {
    g_cancel.store(false);
    g_signal.store(0);
    struct sigaction action {};
    action.sa_handler = OnSignal;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      ::sigaction(kSignals[i], &action, &before_[i]);
      const bool under_nohup = kSignals[i] == SIGHUP && before_[i].sa_handler == SIG_IGN;
      if (under_nohup) ::sigaction(kSignals[i], &before_[i], nullptr);
    }
  }
  ~CancelOnSignal() {
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      ::sigaction(kSignals[i], &before_[i], nullptr);
    }
  }
  CancelOnSignal(const CancelOnSignal&) = delete;
  CancelOnSignal& operator=(const CancelOnSignal&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[std::size(kSignals)];
};

// A bar that is redrawn on a terminal, else a line for each tenth. On stderr.
class ProgressBar {
 public:
  void Show(const device::CalibrateProgress& progress) {
    const int percent = static_cast<int>(progress.done * 100);
    if (!on_terminal_) {
      if (percent / 10 == shown_ / 10 && shown_ >= 0) return;
      shown_ = percent;
      fmt::print(stderr, "{:3} %  {}\n", percent, progress.step);
      return;
    }
    const TimePoint now = MonotonicNow();
    if (now - drawn_ < std::chrono::milliseconds(80)) return;
    drawn_ = now;
    const int filled = static_cast<int>(progress.done * kWidth);
    fmt::print(stderr, "\r[{:#<{}}{:.<{}}] {:3} %  {:.40}\x1b[K", "", filled, "", kWidth - filled,
               percent, progress.step);
    std::fflush(stderr);
  }
  ~ProgressBar() { Clear(); }
  void Clear() {
    if (on_terminal_ && drawn_ != TimePoint{}) fmt::print(stderr, "\r\x1b[K");
    drawn_ = TimePoint{};
  }

 private:
  static constexpr int kWidth = 30;
  const bool on_terminal_ = ::isatty(STDERR_FILENO) == 1;
  TimePoint drawn_{};
  int shown_ = -1;
};

int Complain(const Error& error, int status) {
  fmt::print(stderr, "weir calibrate: {}\n", error.message);
  return status;
}

// What the caller got wrong, rather than the machine.
bool IsUsage(ErrorCode code) {
  return code == ErrorCode::kInvalidArgument || code == ErrorCode::kNotFound ||
         code == ErrorCode::kFailedPrecondition;
}

void PrintTable(const device::Profile& profile) {
  fmt::print("{:<18} {:>8} {:>9} {:>9} {:>13} {:>6} {:>7} {:>13}\n", "", "size", "IOPS", "MB/s",
             "latency us", "depth", "spread", "cost");
  fmt::print("{:<18} {:>8} {:>9} {:>9} {:>13} {:>6} {:>7} {:>13}\n", "", "", "saturated", "",
             "at depth 1", "", "%", "norm ops");
  const Result<core::CostModel> model = profile.Model();
  for (const device::Measurement& m : profile.measurements) {
    const std::string kind =
        fmt::format("{} {}", m.access == core::Access::kRandom ? "random" : "sequential",
                    m.direction == Direction::kRead ? "read" : "write");
    const double cost =
        model ? static_cast<double>(model->Cost(m.direction, m.access, m.bytes)) / kOp : 0;
    fmt::print("{:<18} {:>8} {:>9.0f} {:>9.1f} {:>13.1f} {:>6} {:>7.0f} {:>13.2f}\n", kind,
               FormatBytes(m.bytes), m.iops, m.iops * static_cast<double>(m.bytes) / 1e6,
               m.depth1_latency_ns / 1e3, m.depth, m.spread * 100, cost);
  }
  fmt::print("\ndevice    {}\ncapacity  {} (normalised IOPS: random reads of 16 KiB)\n",
             profile.device.empty() ? "unknown" : profile.device,
             FormatOpsRate(profile.CapacityPerSecond()));
}

// As far as one can tell before measuring.
Result<void> CheckOutput(const Arguments& arguments) {
  const std::string& output = arguments.output;
  struct stat st {};
  const auto refuse = [&](const char* why) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot write the profile to {}: {}", output, why));
  };
  if (output == "-" ||
      (::stat(output.c_str(), &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) {
    return refuse("it is no regular file; --json prints the profile as well");
  }
  if (IsSameFile(output, arguments.path)) {
    return refuse("it is what is to be measured; give another name with --output");
  }
  return CheckWritable(output);
}

int Store(const device::Profile& profile, const Arguments& arguments) {
  const Result<device::Profile> old = device::ReadProfile(arguments.output);
  if (auto ok = device::WriteProfile(profile, arguments.output); !ok) {
    return Complain(ok.error(), kFailed);
  }
  if (old) {
    for (const std::string& finding : device::CompareWithOld(*old, profile)) {
      fmt::print(stderr, "warning: {}\n", finding);
    }
  }
  return kDone;
}

int PrintIoCostModel(const Arguments& arguments, const device::Profile& profile) {
  const Result<device::BlockInfo> info = device::FindBlockDevice(arguments.path);
  if (!info) return Complain(info.error(), kFailed);
  if (info->name.empty()) {
    fmt::print(stderr,
               "weir calibrate: {} is on no block device that the kernel names, so there "
               "is no io.cost.model line for it\n",
               arguments.path);
    return kFailed;
  }
  fmt::print("io.cost.model of {}:\n{}\n", info->name,
             device::IoCostModelLine(profile, info->major_minor));
  return kDone;
}

int Report(const device::Profile& profile, const Arguments& arguments) {
  for (const std::string& warning : profile.warnings) {
    fmt::print(stderr, "warning: {}\n", warning);
  }
  if (const int status = Store(profile, arguments); status != kDone) return status;
  if (arguments.json) {
    fmt::print("{}", device::ProfileJson(profile));
    return kDone;
  }
  PrintTable(profile);
  fmt::print("profile   {}\n", arguments.output);
  return arguments.io_cost_model ? PrintIoCostModel(arguments, profile) : kDone;
}

int Calibrate(const Arguments& arguments) {
  device::CalibrateOptions options;
  options.path = arguments.path;
  options.quick = arguments.quick;
  options.destroy_data = arguments.destroy_data;
  if (!arguments.size.empty()) {
    const Result<int64_t> size = ParseBytes(arguments.size);
    if (!size) return Complain(size.error(), kUsage);
    options.size = *size;
  }
  if (const Result<void> ok = CheckOutput(arguments); !ok) return Complain(ok.error(), kUsage);
  const CancelOnSignal on_signal;
  ProgressBar bar;
  const Result<device::Profile> profile = device::Calibrate(
      options, [&](const auto& progress) { bar.Show(progress); }, &g_cancel);
  bar.Clear();
  if (profile) return Report(*profile, arguments);
  if (profile.error().code == ErrorCode::kCancelled) {
    fmt::print(stderr, "weir calibrate: cancelled; {} was not touched\n", arguments.output);
    return 128 + g_signal.load();
  }
  const int status = IsUsage(profile.error().code) ? kUsage : kFailed;
  std::error_code error;
  const bool kept = std::filesystem::exists(arguments.output, error);
  return Complain(
      {profile.error().code,
       profile.error().message + (kept && status == kFailed
                                      ? "; the profile in " + arguments.output + " stays as it was"
                                      : "")},
      status);
}

}  // namespace

void AddCalibrate(CLI::App* app, int* status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app->add_subcommand(
      "calibrate",
      "Measure a disk: IOPS, bandwidth, latency and the cost of each kind of request.\n"
      "Writes a scratch file that is gone afterwards, and a JSON profile for weir.toml.");
  command
      ->add_option("PATH", arguments->path,
                   "A directory on the disk (or a file: its directory), or a block device, whose\n"
                   "contents are destroyed")
      ->required()
      ->type_name("");
  command->add_flag("--quick", arguments->quick,
                    "10 seconds and 5 sizes instead of 2 minutes and 10 sizes");
  command->add_option("--output", arguments->output, "Where to store the profile")
      ->check(NotEmpty())
      ->type_name("FILE")
      ->capture_default_str();
  command
      ->add_option("--size", arguments->size,
                   "Of the scratch file, as 512MiB, at least 16MiB; default: 1GiB, with --quick\n"
                   "256MiB, or half of the free space if that is less")
      ->check(NotEmpty())
      ->type_name("SIZE");
  CLI::Option* io_cost =
      command->add_flag("--io-cost-model", arguments->io_cost_model,
                        "Also print a line for the kernel's io.cost.model (not with --json)");
  command
      ->add_flag("--json", arguments->json,
                 "Print the profile instead of a table (not with --io-cost-model)")
      ->excludes(io_cost);
  command->add_flag("--i-know-this-destroys-data", arguments->destroy_data,
                    "Allow a block device, and overwrite what is on it");
  command->footer(
      "IOPS are operations per second, normalised ones in random reads of 16 KiB; MB/s are 10^6\n"
      "bytes per second; latencies are in microseconds. docs/calibration.md tells the rest.\n"
      "Exit status: 0 the profile was stored, 1 measuring or storing failed (a profile that was\n"
      "there stays), 2 bad usage, 130 after Ctrl-C, 143 after SIGTERM, 129 after a hang-up.\n"
      "Examples:\n"
      "  weir calibrate /data --quick\n"
      "  weir calibrate /data --output /etc/weir/data.json\n"
      "  weir calibrate /dev/nvme1n1 --i-know-this-destroys-data");
  command->callback([arguments, status] { *status = Calibrate(*arguments); });
}

}  // namespace weir::app

// `weir volume DIR MOUNTPOINT`: serves a directory through a mount on which groups get what they
// were promised.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/bench_capacity.h"
#include "app/bench_output.h"
#include "app/bench_signal.h"
#include "app/commands.h"
#include "base/units.h"
#include "catalog/config.h"
#include "datapath/volume/file_system.h"
#include "datapath/volume/volume.h"

namespace weir::app {

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

struct Arguments {
  std::string directory;
  std::string mountpoint;
  std::string transport = "resumable";
  std::string config;
  std::string device;
  std::string default_group;
  int metadata_threads = 4;
  uint32_t outstanding = volume::kDefaultOutstanding;
  std::string buffer_memory = "1GiB";
  std::string max_piece;
  std::string stop_limit = "10s";
  bool suid = false;
  bool dev = false;
  bool read_only = false;
  bool quiet = false;
};

int Complain(const Error& error) {
  fmt::print(stderr, "weir volume: {}\n", error.message);
  return IsUsageError(error.code) ? kUsage : kFailed;
}

Result<void> ReadNumbers(const Arguments& arguments, volume::VolumeOptions* options) {
  auto memory = ParseBytes(arguments.buffer_memory);
  if (!memory) return Fail(memory.error().code, "--buffer-memory: " + memory.error().message);
  options->buffer_bytes = *memory;
  auto limit = ParseDuration(arguments.stop_limit);
  if (!limit) return Fail(limit.error().code, "--stop-limit: " + limit.error().message);
  options->stop_limit = *limit;
  if (arguments.max_piece.empty()) return {};
  auto piece = ParseBytes(arguments.max_piece);
  if (!piece) return Fail(piece.error().code, "--max-piece: " + piece.error().message);
  if (*piece < 4096 || *piece % 4096 != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--max-piece {}: it must be a multiple of 4 KiB", arguments.max_piece));
  }
  options->engine.max_piece_bytes = *piece;
  return {};
}

const catalog::Device* FindDevice(const catalog::Config& config, const std::string& name) {
  for (const catalog::Device& device : config.devices) {
    if (name.empty() || device.name == name) return &device;
  }
  return nullptr;
}

// The groups of the configuration, and what the device can do. `warnings` are for people.
Result<void> ApplyConfig(const Arguments& arguments, StopSignal* stop,
                         volume::VolumeOptions* options, std::vector<std::string>* warnings) {
  auto config = catalog::ReadConfigFile(arguments.config);
  if (!config) return tl::unexpected(std::move(config.error()));
  *warnings = config->warnings;
  const catalog::Device* device = FindDevice(*config, arguments.device);
  ProgressLine progress;
  auto capacity =
      FindCapacity(device, arguments.directory, stop, [&](const device::CalibrateProgress& step) {
        progress.Show("quick calibration (no profile, no capacity_iops)", step.done);
      });
  progress.Clear();
  if (!capacity) return tl::unexpected(std::move(capacity.error()));
  core::SchedulerOptions& scheduler = options->engine.scheduler;
  scheduler.capacity_per_s =
      std::clamp<int64_t>(std::llround(capacity->iops * static_cast<double>(kOp)), 1, kMaxRate);
  if (capacity->saturation_depth > 0) {
    scheduler.depth.initial = std::max(scheduler.depth.initial, capacity->saturation_depth);
    scheduler.depth.max = std::max(scheduler.depth.initial, 2 * capacity->saturation_depth);
  }
  options->engine.cost_model = capacity->model;
  if (device != nullptr) options->fixed_depth = device->fixed_depth;
  auto nodes = catalog::Resolve(*config, arguments.device, scheduler.capacity_per_s, warnings);
  if (!nodes) return tl::unexpected(std::move(nodes.error()));
  for (catalog::TreeNode& node : *nodes) {
    options->groups.push_back(volume::GroupSpec{
        .path = node.path, .parent = node.parent, .params = node.params, .leaf = node.leaf});
  }
  return {};
}

Result<void> CheckDefaultGroup(const Arguments& arguments, const volume::VolumeOptions& options) {
  if (arguments.default_group.empty()) return {};
  std::string leaves;
  for (const volume::GroupSpec& group : options.groups) {
    if (!group.leaf) continue;
    if (group.path == arguments.default_group) return {};
    leaves += (leaves.empty() ? "" : ", ") + group.path;
  }
  return Fail(
      ErrorCode::kNotFound,
      fmt::format("--default-group {}: there is no such group; there {}", arguments.default_group,
                  leaves.empty() ? "are none without --config" : "are: " + leaves));
}

Result<std::unique_ptr<volume::Backing>> OpenBacking(const volume::BackingStart& start) {
  volume::FileSystemOptions options;
  options.backing_fd = start.directory_fd;
  options.state = start.state;
  auto files = volume::FileSystem::Open(options);
  if (!files) return tl::unexpected(std::move(files.error()));
  return std::unique_ptr<volume::Backing>(std::move(*files));
}

int Volume(const Arguments& arguments) {
  volume::VolumeOptions options;
  options.directory = arguments.directory;
  options.mountpoint = arguments.mountpoint;
  options.transport = arguments.transport == "fast" ? volume::TransportKind::kFast
                                                    : volume::TransportKind::kResumable;
  options.allow_suid = arguments.suid;
  options.allow_devices = arguments.dev;
  options.read_only = arguments.read_only;
  options.metadata_threads = arguments.metadata_threads;
  options.outstanding = arguments.outstanding;
  options.default_group = arguments.default_group;
  options.quiet = arguments.quiet;
  options.state_bytes = volume::FileSystem::StateBytes();
  options.backing = OpenBacking;
  if (auto read = ReadNumbers(arguments, &options); !read) return Complain(read.error());
  if (!arguments.config.empty()) {
    StopSignal stop;
    std::vector<std::string> warnings;
    if (auto applied = ApplyConfig(arguments, &stop, &options, &warnings); !applied) {
      return stop.number() != 0 ? 128 + stop.number() : Complain(applied.error());
    }
    for (const std::string& warning : warnings) {
      fmt::print(stderr, "weir volume: warning: {}\n", warning);
    }
  }
  if (auto found = CheckDefaultGroup(arguments, options); !found) return Complain(found.error());
  auto status = volume::RunVolume(options);
  return status ? *status : Complain(status.error());
}

}  // namespace

void AddVolume(CLI::App* app, int* status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app->add_subcommand(
      "volume",
      "Mount a directory so that any program's I/O in it gets what its group was promised");
  command->add_option("DIR", arguments->directory, "The directory to serve")->required();
  command
      ->add_option("MOUNTPOINT", arguments->mountpoint, "Where it is to appear; may be DIR itself")
      ->required();
  command
      ->add_option("--transport", arguments->transport,
                   "resumable: programs notice nothing when the daemon dies or is replaced; fast: "
                   "FUSE over io_uring, less CPU")
      ->check(CLI::IsMember({"resumable", "fast"}))
      ->capture_default_str();
  command->add_option("--config", arguments->config, "Units, plans and groups (weir.toml)");
  command->add_option("--device", arguments->device, "Which device of the configuration DIR is on");
  command->add_option("--default-group", arguments->default_group,
                      "The group of what nothing else claims, as \"unit/group\"");
  command
      ->add_option("--metadata-threads", arguments->metadata_threads,
                   "Threads for everything but reads, writes and fsync")
      ->check(CLI::Range(1, volume::kMostMetadataThreads))
      ->capture_default_str();
  command
      ->add_option("--max-outstanding", arguments->outstanding,
                   "Requests that the scheduler sees at one time; more wait in order of arrival")
      ->check(CLI::Range(volume::kLeastOutstanding, volume::kMostOutstanding))
      ->capture_default_str();
  command
      ->add_option("--buffer-memory", arguments->buffer_memory,
                   "Memory for their data at one time (resumable)")
      ->capture_default_str();
  command->add_option("--max-piece", arguments->max_piece,
                      "Send larger requests in pieces of this size, as \"256KiB\"");
  command
      ->add_option("--stop-limit", arguments->stop_limit,
                   "When asked to stop while files are open: how long these stay usable")
      ->capture_default_str();
  command->add_flag("--suid", arguments->suid, "Let setuid programs in the volume work");
  command->add_flag("--dev", arguments->dev, "Let device files in the volume work");
  command->add_flag("--read-only", arguments->read_only, "Mount read-only");
  command->add_flag("-q,--quiet", arguments->quiet, "Print errors only");
  command->footer(
      "Runs until Ctrl-C, SIGTERM or umount; SIGHUP replaces the daemon while programs work on.\n"
      "Exit status: 0 unmounted cleanly, 1 failed, 2 bad usage or input.\n"
      "Examples:\n"
      "  weir volume /var/lib/mysql /srv/mysql\n"
      "  weir volume /data /data --transport fast --config weir.toml");
  command->callback([arguments, status] { *status = Volume(*arguments); });
}

}  // namespace weir::app

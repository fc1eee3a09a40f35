// `weir volume DIR MOUNTPOINT`: serves a directory through a mount on which groups get what they
// were promised.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/bench_capacity.h"
#include "app/bench_output.h"
#include "app/bench_signal.h"
#include "app/commands.h"
#include "app/files.h"
#include "app/volume_control.h"
#include "base/units.h"
#include "catalog/config.h"
#include "catalog/leaf_index.h"
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
  std::string control;
  bool no_control = false;
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

Result<void> CheckDefaultGroup(const Arguments& arguments,
                               const std::vector<catalog::TreeNode>& nodes) {
  if (arguments.default_group.empty() || arguments.default_group == catalog::kUnmatched) return {};
  const Result<int> leaf = catalog::LeafIndex(nodes).Find(arguments.default_group);
  if (leaf) return {};
  return Fail(leaf.error().code, "--default-group: " + leaf.error().message);
}

// The configuration, checked, and what the device can do. `warnings` are for people.
Result<void> ApplyConfig(const Arguments& arguments, StopSignal* stop,
                         volume::VolumeOptions* options, VolumeControlOptions* control,
                         std::vector<std::string>* warnings) {
  auto text = ReadTextFile(arguments.config);
  if (!text) return tl::unexpected(std::move(text.error()));
  auto config = catalog::ParseConfig(*text, arguments.config);
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
  PutCapacity(*capacity, &options->engine);
  control->capacity = options->engine.scheduler.capacity_per_s;
  if (device != nullptr) options->fixed_depth = device->fixed_depth;
  auto nodes = catalog::Resolve(*config, arguments.device, control->capacity, warnings);
  if (!nodes) return tl::unexpected(std::move(nodes.error()));
  control->state.file = arguments.config;
  control->state.toml = std::move(*text);
  control->device = arguments.device;
  return CheckDefaultGroup(arguments, *nodes);
}

// The control plane and the files of one daemon.
struct DaemonParts {
  class Paths final : public volume::NodePaths {
   public:
    bool PathOf(uint64_t node, std::string* path) override {
      std::optional<std::string> found = files->PathOf(node);
      if (found) *path = std::move(*found);
      return found.has_value();
    }
    volume::FileSystem* files = nullptr;
  };
  VolumeControl* control = nullptr;
  Paths paths;
};

void SetParts(const VolumeControlOptions& control, volume::VolumeOptions* options) {
  const auto parts = std::make_shared<DaemonParts>();
  options->attribution = [parts, control](Engine* engine, const volume::VolumeGroups&)
      -> Result<std::unique_ptr<volume::Attribution>> {
    auto made = VolumeControl::Create(engine, control);
    if (!made) return tl::unexpected(std::move(made.error()));
    parts->control = made->get();
    return std::unique_ptr<volume::Attribution>(std::move(*made));
  };
  options->backing =
      [parts](const volume::BackingStart& start) -> Result<std::unique_ptr<volume::Backing>> {
    volume::FileSystemOptions files;
    files.backing_fd = start.directory_fd;
    files.state = start.state;
    auto opened = volume::FileSystem::Open(files);
    if (!opened) return tl::unexpected(std::move(opened.error()));
    parts->paths.files = opened->get();
    parts->control->SetPaths(&parts->paths);
    return std::unique_ptr<volume::Backing>(std::move(*opened));
  };
}

VolumeControlOptions ControlOf(const Arguments& arguments) {
  VolumeControlOptions control;
  control.state.file = "weir.toml";
  control.version = WEIR_VERSION;
  control.default_group = arguments.default_group;
  control.quiet = arguments.quiet;
  // This process outlives its daemons; with its start time its id is never another's.
  const auto started = volume::StartTimeOf(static_cast<uint32_t>(::getpid()));
  control.owner = static_cast<int64_t>(started.value_or(0)) * 4'194'304 + ::getpid();
  if (!arguments.no_control) {
    control.prefix =
        arguments.control.empty() ? ControlPrefix(arguments.mountpoint) : arguments.control;
  }
  return control;
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
  options.quiet = arguments.quiet;
  options.state_bytes = volume::FileSystem::StateBytes();
  VolumeControlOptions control = ControlOf(arguments);
  if (auto read = ReadNumbers(arguments, &options); !read) return Complain(read.error());
  if (!arguments.config.empty()) {
    StopSignal stop;
    std::vector<std::string> warnings;
    if (auto applied = ApplyConfig(arguments, &stop, &options, &control, &warnings); !applied) {
      return stop.number() != 0 ? 128 + stop.number() : Complain(applied.error());
    }
    for (const std::string& warning : warnings) {
      fmt::print(stderr, "weir volume: warning: {}\n", warning);
    }
  }
  if (arguments.config.empty()) {
    if (auto found = CheckDefaultGroup(arguments, {}); !found) return Complain(found.error());
  }
  SetParts(control, &options);
  auto status = volume::RunVolume(options);
  if (status && !control.prefix.empty()) RemoveControlFiles(control.prefix);
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
  CLI::Option* named =
      command->add_option("--control", arguments->control,
                          "Where the control socket (this with .sock), thread table (.threads) and "
                          "saved plan (.plan) are; default: /run/weir/ and the mount point's name");
  command->add_flag("--no-control", arguments->no_control, "No control socket, no thread table")
      ->excludes(named);
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

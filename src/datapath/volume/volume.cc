#include "datapath/volume/volume.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "datapath/volume/daemon.h"
#include "datapath/volume/supervisor.h"

namespace weir::volume {

namespace {

// Of descriptors: two for each open file, one for each directory or node that is kept.
constexpr rlim_t kWantedDescriptors = 1u << 20;

Result<void> CheckOptions(const VolumeOptions& options) {
  const auto range = [](const char* name, int64_t value, int64_t least,
                        int64_t most) -> Result<void> {
    if (value >= least && value <= most) return {};
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is {}; it must be {} to {}", name, value, least, most));
  };
  for (const Result<void>& checked :
       {range("the number of metadata threads", options.metadata_threads, 1, kMostMetadataThreads),
        range("the number of outstanding requests", options.outstanding, kLeastOutstanding,
              kMostOutstanding),
        range("the memory for requests in bytes", options.buffer_bytes, int64_t{16} << 20,
              int64_t{1} << 40)}) {
    if (!checked) return checked;
  }
  return {};
}

Result<int> OpenDirectory(const std::string& path, struct stat* found) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, found) != 0) {
    return Fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                fmt::format("cannot serve {}: {}", path, std::strerror(errno)), errno);
  }
  return fd;
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  rlimit wanted{.rlim_cur = std::max(limit.rlim_cur, kWantedDescriptors),
                .rlim_max = std::max(limit.rlim_max, kWantedDescriptors)};
  if (setrlimit(RLIMIT_NOFILE, &wanted) == 0) return;
  wanted.rlim_cur = wanted.rlim_max = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &wanted));
}

// Which transport it will be, and why.
std::string TransportSentence(bool fast_wanted, bool fast, OverIoUring state, bool can_resend) {
  if (fast) {
    return "transport: fast (FUSE over io_uring); if the daemon dies, the volume is mounted anew "
           "and open files are lost";
  }
  std::string why;
  if (fast_wanted) {
    why = state == OverIoUring::kDisabled
              ? ", since FUSE over io_uring is switched off here (echo Y > "
                "/sys/module/fuse/parameters/enable_uring)"
              : ", since this kernel has no FUSE over io_uring (Linux 6.14)";
  }
  return can_resend ? "transport: resumable (/dev/fuse)" + why +
                          "; if the daemon dies, another continues its work"
                    : "transport: /dev/fuse" + why +
                          "; this kernel cannot deliver requests again (Linux 6.9): if the "
                          "daemon dies, the volume is mounted anew and open files are lost";
}

}  // namespace

Result<int> RunVolume(const VolumeOptions& options) {
  if (auto checked = CheckOptions(options); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  TakeRemainsOff(options.mountpoint);  // first: it may be the directory itself
  struct stat root {};
  auto directory = OpenDirectory(options.directory, &root);
  if (!directory) return directory;
  if (auto checked = CheckMountpoint(options.directory, options.mountpoint); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  RaiseDescriptorLimit();

  const OverIoUring over_io_uring = OverIoUringState();
  const bool fast_wanted = options.transport == TransportKind::kFast;
  SupervisorOptions supervised;
  supervised.mount.directory = options.directory;
  supervised.mount.mountpoint = options.mountpoint;
  supervised.mount.root_mode = root.st_mode;
  supervised.mount.allow_suid = options.allow_suid;
  supervised.mount.allow_devices = options.allow_devices;
  supervised.mount.read_only = options.read_only;
  supervised.mount.init.over_io_uring = fast_wanted && over_io_uring == OverIoUring::kEnabled;
  supervised.mount.init.max_background = options.outstanding;
  supervised.state_bytes = options.state_bytes;
  supervised.stop_limit = options.stop_limit;
  supervised.quiet = options.quiet;
  supervised.daemon = [&](const DaemonStart& start) {
    return RunDaemon(options, *directory, start);
  };

  Supervisor supervisor(std::move(supervised));
  if (auto prepared = supervisor.Prepare(); !prepared) {
    return tl::unexpected(std::move(prepared.error()));
  }
  const InitResult& init = supervisor.mounted().init;
  if (!options.quiet) {
    fmt::print(
        stderr, "weir volume: {}\n",
        TransportSentence(fast_wanted, init.over_io_uring(), over_io_uring, init.can_resend()));
  }
  return supervisor.Run();
}

}  // namespace weir::volume

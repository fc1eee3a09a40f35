#include "datapath/volume/transport_mount.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace weir::volume {

namespace {

constexpr int kInitTimeoutMs = 10'000;

std::string RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real == nullptr ? std::string() : std::string(real.get());
}

tl::unexpected<Error> MountError(const MountOptions& options, int error) {
  const char* hint = "see the kernel's log";
  ErrorCode code = ErrorCode::kIo;
  if (error == EPERM || error == EACCES) {
    code = ErrorCode::kUnavailable;
    hint =
        "mounting needs CAP_SYS_ADMIN: run weir volume as root (in a container: --cap-add "
        "SYS_ADMIN and an AppArmor profile that allows mount)";
  } else if (error == ENODEV) {
    code = ErrorCode::kUnavailable;
    hint = "this kernel has no FUSE: modprobe fuse";
  }
  return Fail(code,
              fmt::format("cannot mount the volume of {} on {}: {}: {}", options.directory,
                          options.mountpoint, std::strerror(error), hint),
              error);
}

Result<int> OpenDevice() {
  const int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0) return fd;
  const int error = errno;
  const char* hint = error == ENOENT || error == ENODEV || error == ENXIO
                         ? "load the module (modprobe fuse), and give a container --device "
                           "/dev/fuse"
                         : "run weir volume as root, and give a container --device /dev/fuse";
  return Fail(ErrorCode::kUnavailable,
              fmt::format("cannot open /dev/fuse: {}; {}", std::strerror(error), hint), error);
}

// The kernel's first message, and our answer.
Result<InitResult> ExchangeInit(int device, const MountOptions& options) {
  pollfd wait{.fd = device, .events = POLLIN, .revents = 0};
  if (poll(&wait, 1, kInitTimeoutMs) <= 0) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("cannot mount on {}: the kernel does not begin to talk within {} s",
                            options.mountpoint, kInitTimeoutMs / 1000));
  }
  std::vector<std::byte> message(FUSE_MIN_READ_BUFFER + size_t{65'536});
  const ssize_t got = read(device, message.data(), message.size());
  if (got < 0) return MountError(options, errno);
  message.resize(static_cast<size_t>(got));
  InitAnswer answer;
  auto agreed = NegotiateInit(message, options.init, &answer);
  if (!agreed) return agreed;
  if (write(device, &answer, sizeof(answer)) < 0) return MountError(options, errno);
  return agreed;
}

}  // namespace

void TakeRemainsOff(const std::string& mountpoint) {
  struct statvfs found {};  // unlike attributes it is never answered from a cache
  // ENOTCONN; the others while the daemon is still dying.
  if (statvfs(mountpoint.c_str(), &found) == 0 ||
      (errno != ENOTCONN && errno != ECONNABORTED && errno != ECANCELED)) {
    return;
  }
  fmt::print(stderr, "weir volume: {} carries the remains of a volume that died; taking them off\n",
             mountpoint);
  umount2(mountpoint.c_str(), MNT_DETACH);
}

Result<void> CheckMountpoint(const std::string& directory, const std::string& mountpoint) {
  struct stat found {};
  if (stat(mountpoint.c_str(), &found) != 0) {
    return Fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                fmt::format("cannot mount on {}: {}; create the directory first", mountpoint,
                            std::strerror(errno)),
                errno);
  }
  if (!S_ISDIR(found.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot mount on {}: it is not a directory", mountpoint));
  }
  const std::string real_directory = RealPath(directory);
  const std::string real_mountpoint = RealPath(mountpoint);
  const bool inside = real_mountpoint.size() > real_directory.size() + 1 &&
                      real_mountpoint.compare(0, real_directory.size(), real_directory) == 0 &&
                      (real_mountpoint[real_directory.size()] == '/' || real_directory == "/");
  if (inside && !real_directory.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot mount on {}: it lies inside {}, so that the volume would "
                            "contain itself; mount elsewhere, or on {} itself",
                            mountpoint, directory, directory));
  }
  return {};
}

Result<Mounted> MountVolume(const MountOptions& options) {
  auto device = OpenDevice();
  if (!device) return tl::unexpected(std::move(device.error()));
  const std::string data =
      fmt::format("fd={},rootmode={:o},user_id=0,group_id=0,allow_other,default_permissions",
                  *device, options.root_mode & S_IFMT);
  unsigned long flags = 0;
  if (!options.allow_suid) flags |= MS_NOSUID;
  if (!options.allow_devices) flags |= MS_NODEV;
  if (options.read_only) flags |= MS_RDONLY;
  if (mount(options.directory.c_str(), options.mountpoint.c_str(), "fuse.weir", flags,
            data.c_str()) != 0) {
    const int error = errno;
    close(*device);
    return MountError(options, error);
  }
  auto agreed = ExchangeInit(*device, options);
  if (!agreed) {
    umount2(options.mountpoint.c_str(), MNT_DETACH);
    close(*device);
    return tl::unexpected(std::move(agreed.error()));
  }
  return Mounted{.device_fd = *device, .init = *agreed};
}

OverIoUring OverIoUringState() {
  const int fd = open("/sys/module/fuse/parameters/enable_uring", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return OverIoUring::kUnknownToKernel;
  char value = 'N';
  const bool read_it = read(fd, &value, 1) == 1;
  close(fd);
  return read_it && (value == 'Y' || value == '1') ? OverIoUring::kEnabled : OverIoUring::kDisabled;
}

}  // namespace weir::volume

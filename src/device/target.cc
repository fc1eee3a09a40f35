#include "device/target.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "device/block_info.h"

namespace weir::device {

namespace {

// Left free beside the scratch file.
constexpr int64_t kSpareBytes = int64_t{64} << 20;
constexpr int64_t kSizeUnit = int64_t{4} << 20;  // sizes are multiples of this

tl::unexpected<Error> SystemError(const std::string& attempt, int error) {
  return Fail(ErrorCode::kIo, fmt::format("cannot {}: {}", attempt, std::strerror(error)), error);
}

// A new file without a name. `flags` may hold O_DIRECT. -1 with errno.
int OpenNameless(const std::string& directory, int flags) {
  int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  std::string name = directory + "/.weir-calibrate.XXXXXX";
  fd = ::mkostemp(name.data(), O_CLOEXEC | flags);
  const int error = errno;
  if (fd >= 0 || error == EINVAL) ::unlink(name.c_str());  // open() may make, then refuse O_DIRECT
  errno = error;
  return fd;
}

// O_DIRECT may be refused at the first transfer only.
bool DirectWorks(int fd) {
  void* block = nullptr;
  if (::posix_memalign(&block, 4096, 4096) != 0) return true;
  std::memset(block, 0, 4096);
  const bool works = ::pwrite(fd, block, 4096, 0) == 4096 || errno != EINVAL;
  std::free(block);
  return works;
}

Result<int64_t> SizeFor(const TargetOptions& options, int64_t available, const std::string& where) {
  if (options.size != 0 && (options.size < kMinTargetBytes || options.size > kMaxTargetBytes)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("size {} must be within {} .. {}", FormatBytes(options.size),
                            FormatBytes(kMinTargetBytes), FormatBytes(kMaxTargetBytes)));
  }
  const int64_t size =
      options.size != 0 ? options.size : std::min(options.default_size, available / 2);
  const int64_t rounded = size / kSizeUnit * kSizeUnit;
  if (rounded < kMinTargetBytes || rounded > available) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{} has {} to spare, calibrating needs {}; free some space, or give a "
                            "smaller size or another directory",
                            where, FormatBytes(std::max<int64_t>(0, available)),
                            FormatBytes(std::max(options.size, 2 * kMinTargetBytes))));
  }
  return rounded;
}

}  // namespace

Target::Target(Target&& other) noexcept { *this = std::move(other); }

Target& Target::operator=(Target&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  std::swap(direct_, other.direct_);
  std::swap(what_, other.what_);
  return *this;
}

Target::~Target() {
  if (fd_ >= 0) ::close(fd_);
}

Result<Target> Target::Open(const TargetOptions& options) {
  struct stat st {};
  if (::stat(options.path.c_str(), &st) != 0) {
    return Fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                fmt::format("cannot calibrate {}: {}; give an existing directory, file or block "
                            "device",
                            options.path, std::strerror(errno)),
                errno);
  }
  if (S_ISBLK(st.st_mode)) return OpenBlockDevice(options);
  if (S_ISDIR(st.st_mode)) return OpenScratch(options.path, options);
  if (S_ISREG(st.st_mode)) {
    return OpenScratch(DirectoryOf(options.path), options);
  }
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("cannot calibrate {}: it is no directory, file or block device", options.path));
}

Result<Target> Target::OpenScratch(const std::string& directory, const TargetOptions& options) {
  struct statvfs space {};
  if (::statvfs(directory.c_str(), &space) != 0) {
    return SystemError("ask for the free space of " + directory, errno);
  }
  const int64_t available = static_cast<int64_t>(
      std::min<uint64_t>(static_cast<uint64_t>(space.f_bavail) * space.f_frsize, INT64_MAX / 2));
  const Result<int64_t> size = SizeFor(options, available - kSpareBytes, directory);
  if (!size) return tl::unexpected(size.error());

  Target target;
  target.bytes_ = *size;
  target.what_ = "the scratch file in " + directory;
  target.fd_ = OpenNameless(directory, O_DIRECT);
  if (target.fd_ >= 0 && !DirectWorks(target.fd_)) {
    ::close(std::exchange(target.fd_, -1));
    errno = EINVAL;
  }
  if (target.fd_ < 0 && errno == EINVAL) {
    target.direct_ = false;
    target.fd_ = OpenNameless(directory, 0);
  }
  if (target.fd_ < 0) return SystemError("make a scratch file in " + directory, errno);
  return target;
}

Result<Target> Target::OpenBlockDevice(const TargetOptions& options) {
  const std::string& path = options.path;
  if (!options.destroy_data) {
    return Fail(
        ErrorCode::kFailedPrecondition,
        fmt::format("{} is a block device and calibrating it overwrites what is on it; pass "
                    "--i-know-this-destroys-data, or give a directory on its file system",
                    path));
  }
  const auto in_use = [&](const std::string& use) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("will not overwrite {}: it is {}; give a directory on its file system "
                            "instead",
                            path, use),
                EBUSY);
  };
  if (const std::string use = UseOfBlockDevice(path); !use.empty()) return in_use(use);
  Target target;
  // O_EXCL: refused by the kernel while anybody has it or a part of it mounted or claimed.
  target.fd_ = ::open(path.c_str(), O_RDWR | O_DIRECT | O_EXCL | O_CLOEXEC);
  if (target.fd_ < 0) {
    return errno == EBUSY ? in_use("in use") : SystemError("open " + path, errno);
  }
  uint64_t bytes = 0;
  if (::ioctl(target.fd_, BLKGETSIZE64, &bytes) != 0) {
    return SystemError("ask for the size of " + path, errno);
  }
  // The whole device is there to be used, not half of it as on a file system.
  TargetOptions wanted = options;
  if (wanted.size == 0) {
    wanted.size = std::min<int64_t>(options.default_size, static_cast<int64_t>(bytes));
  }
  const Result<int64_t> size = SizeFor(wanted, static_cast<int64_t>(bytes), path);
  if (!size) return tl::unexpected(size.error());
  target.bytes_ = *size;
  target.what_ = path;
  return target;
}

}  // namespace weir::device

#include "app/bench_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "base/time.h"
#include "base/units.h"
#include "device/block_info.h"
#include "device/load_ring.h"

namespace weir::app {

namespace {

constexpr int64_t kSpareBytes = int64_t{64} << 20;  // left free beside the scratch file
constexpr int64_t kSizeUnit = int64_t{4} << 20;     // of scratch files

std::string OnDisk(const std::string& path) {
  const auto block = device::FindBlockDevice(path);
  if (!block || block->name.empty()) return "";
  return " on " + block->Describe();
}

Result<void> CheckSpace(const std::string& directory, int64_t bytes, const std::string& option) {
  struct statvfs space {};
  if (::statvfs(directory.c_str(), &space) != 0) {
    return Fail(
        ErrorCode::kIo,
        fmt::format("cannot ask for the free space of {}: {}", directory, std::strerror(errno)),
        errno);
  }
  const double free_bytes =
      static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  if (free_bytes >= static_cast<double>(bytes + kSpareBytes)) return {};
  return Fail(ErrorCode::kResourceExhausted,
              fmt::format("{} has {} free, the scratch file needs {} and {} to spare; free some "
                          "space, make file_size smaller, or run elsewhere with {} DIR",
                          directory, FormatBytes(static_cast<int64_t>(free_bytes)),
                          FormatBytes(bytes), FormatBytes(kSpareBytes), option));
}

int64_t SizeOf(int fd, const struct stat& st) {
  if (!S_ISBLK(st.st_mode)) return st.st_size;
  uint64_t bytes = 0;
  return ::ioctl(fd, BLKGETSIZE64, &bytes) == 0 ? static_cast<int64_t>(bytes) : 0;
}

}  // namespace

BenchFile::BenchFile(BenchFile&& other) noexcept { *this = std::move(other); }

BenchFile& BenchFile::operator=(BenchFile&& other) noexcept {
  std::swap(scratch_, other.scratch_);
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  std::swap(directory_, other.directory_);
  std::swap(what_, other.what_);
  std::swap(warnings_, other.warnings_);
  return *this;
}

BenchFile::~BenchFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<BenchFile> BenchFile::Open(const BenchFileOptions& options) {
  struct stat st {};
  if (::stat(options.path.c_str(), &st) != 0) {
    const int error = errno;
    return Fail(
        error == EIO ? ErrorCode::kIo : ErrorCode::kNotFound,
        fmt::format("cannot run on {} ({}): {}; give a directory, in which a scratch file "
                    "is made, or a file or block device that exists with {}",
                    Quote(options.path), options.given_by, std::strerror(error), options.option),
        error);
  }
  if (S_ISDIR(st.st_mode)) return OpenScratch(options.path, options);
  if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)) {
    return OpenExisting(options, S_ISBLK(st.st_mode));
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("cannot run on {} ({}): it is no directory, file or block device; give "
                          "one of them with {}",
                          Quote(options.path), options.given_by, options.option));
}

Result<BenchFile> BenchFile::OpenScratch(const std::string& directory,
                                         const BenchFileOptions& options) {
  device::TargetOptions wanted;
  wanted.path = directory;
  wanted.size =
      options.bytes > 0 ? std::max(options.bytes, device::kMinTargetBytes) : kDefaultBenchFileBytes;
  wanted.size = std::max(wanted.size, options.least_bytes);
  wanted.size = (wanted.size + kSizeUnit - 1) / kSizeUnit * kSizeUnit;
  if (auto enough = CheckSpace(directory, wanted.size, options.option); !enough) {
    return tl::unexpected(std::move(enough.error()));
  }
  auto target = device::Target::Open(wanted);
  if (!target) return tl::unexpected(std::move(target.error()));
  BenchFile file;
  if (!target->direct()) {
    file.warnings_.push_back(fmt::format(
        "{} does not do direct I/O: the figures show the page cache, not the device", directory));
  }
  file.directory_ = directory;
  file.what_ = fmt::format("scratch file of {} in {}{}", FormatBytes(target->bytes()), directory,
                           OnDisk(directory));
  file.scratch_ = std::move(*target);
  return file;
}

Result<BenchFile> BenchFile::OpenExisting(const BenchFileOptions& options, bool block_device) {
  const std::string& path = options.path;
  if (options.writes && !options.overwrite) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("will not overwrite {}: the loads write and it was there before; pass "
                            "--overwrite-file to destroy its content, or --file DIR for a scratch "
                            "file",
                            path));
  }
  if (options.writes && block_device) {
    if (const std::string use = device::UseOfBlockDevice(path); !use.empty()) {
      return Fail(ErrorCode::kFailedPrecondition,
                  fmt::format("will not overwrite {}: it is {}; run on a scratch file of its file "
                              "system instead, with --file DIR",
                              path, use),
                  EBUSY);
    }
  }
  const int mode = options.writes ? O_RDWR | (block_device ? O_EXCL : 0) : O_RDONLY;
  BenchFile file;
  file.fd_ = ::open(path.c_str(), mode | O_DIRECT | O_CLOEXEC);
  if (file.fd_ < 0 && errno == EINVAL) {
    file.fd_ = ::open(path.c_str(), mode | O_CLOEXEC);
    file.warnings_.push_back(fmt::format(
        "{} does not do direct I/O: the figures show the page cache, not the device", path));
  }
  struct stat st {};
  if (file.fd_ < 0 || ::fstat(file.fd_, &st) != 0) {
    return Fail(ErrorCode::kIo, fmt::format("cannot open {}: {}", path, std::strerror(errno)),
                errno);
  }
  file.bytes_ = SizeOf(file.fd_, st);
  const int64_t least = std::max({options.bytes, options.least_bytes, int64_t{1}});
  if (file.bytes_ < least) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has {}, the loads need {}; give a larger file or a smaller "
                            "file_size, or --file DIR for a scratch file",
                            path, FormatBytes(file.bytes_), FormatBytes(least)));
  }
  if (options.bytes > 0) file.bytes_ = options.bytes;
  if (!block_device && ::lseek(file.fd_, 0, SEEK_HOLE) < file.bytes_) {
    file.warnings_.push_back(fmt::format(
        "{} has holes: reading those does not reach the device, so the figures are too good",
        path));
  }
  file.directory_ = DirectoryOf(path);
  file.what_ = fmt::format("{} ({}){}", path, FormatBytes(file.bytes_), OnDisk(path));
  return file;
}

Result<void> BenchFile::LayOut(const std::function<bool(int64_t, int64_t)>& on_progress) {
  if (!scratch_) return {};
  const int64_t total = scratch_->bytes();
  // Contiguous space where the file system can; where it cannot, the writes below find out.
  if (::fallocate(scratch_->fd(), 0, 0, total) != 0 && errno == ENOSPC) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("cannot make the {}: no space left on the device", what_), ENOSPC);
  }
  std::atomic<bool> cancel{false};
  auto ring = device::LoadRing::Open(&*scratch_, &cancel);
  if (!ring) return tl::unexpected(std::move(ring.error()));
  const auto written = ring->LayOut(kNever, [&](int64_t bytes) {
    if (on_progress && !on_progress(bytes, total)) cancel = true;
  });
  if (!written) return tl::unexpected(written.error());
  return {};
}

}  // namespace weir::app

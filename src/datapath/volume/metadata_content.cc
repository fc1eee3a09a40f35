// Operations on the contents of open files that move no data: space, holes, shared blocks; and the
// attributes that go by ioctl.
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "datapath/volume/file_system_impl.h"
#include "datapath/volume/fuse_abi.h"

namespace weir::volume {

namespace {

// Of FUSE_COPY_FILE_RANGE_64, protocol 7.45.
struct CopyOut64 {
  uint64_t bytes_copied;
};

// Nobody without the right to keep setuid bits writes into such a file and leaves them.
constexpr bool KeepsSetId(const Caller& caller) { return caller.uid == 0; }

}  // namespace

Answer FileSystem::Impl::Fallocate(const Request& request, std::span<std::byte> out) {
  fuse_fallocate_in in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  const auto file = handles.Find(in.fh);
  if (!file.has_value() || file->directory) return -EBADF;
  const auto run = [&]() -> Answer {
    if (fallocate(file->fd, static_cast<int>(in.mode), static_cast<off_t>(in.offset),
                  static_cast<off_t>(in.length)) != 0) {
      return -errno;
    }
    struct stat status {};
    if (KeepsSetId(request.caller) || fstat(file->fd, &status) != 0) return 0;
    return DropSetId(file->fd, status);
  };
  if ((in.mode & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE)) == 0) return run();
  // These move what follows, so twice is not once; the size tells.
  const auto size = [&] {
    struct stat status {};
    return fstat(file->fd, &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
  };
  return Once(
      request, out, [&](Before* before) { before->first = size(); },
      [&](const Before& before) { return size() != before.first; },
      [&](bool done) { return done ? 0 : run(); });
}

Answer FileSystem::Impl::Lseek(const Request& request, std::span<std::byte> out) {
  fuse_lseek_in in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  const auto file = handles.Find(in.fh);
  if (!file.has_value()) return -EBADF;
  // The position of an open directory is in use.
  if (file->directory || (in.whence != SEEK_DATA && in.whence != SEEK_HOLE)) return -EINVAL;
  const off_t found = lseek(file->fd, static_cast<off_t>(in.offset), static_cast<int>(in.whence));
  if (found < 0) return -errno;
  return WriteAnswer(out, fuse_lseek_out{.offset = static_cast<uint64_t>(found)});
}

// Blocks are shared or nothing happens: copying here would be I/O that nobody scheduled. The
// kernel then copies through READ and WRITE.
Answer FileSystem::Impl::CopyFileRange(const Request& request, std::span<std::byte> out) {
  fuse_copy_file_range_in in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  const auto from = handles.Find(in.fh_in);
  const auto to = handles.Find(in.fh_out);
  if (!from.has_value() || !to.has_value() || from->directory || to->directory) return -EBADF;
  if (in.flags != 0) return -EINVAL;
  struct stat status {};
  if (fstat(from->fd, &status) != 0) return -errno;
  const auto size = static_cast<uint64_t>(status.st_size);
  const uint64_t left = in.off_in < size ? size - in.off_in : 0;
  // The older answer has 32 bits for the length.
  const bool wide = request.opcode == abi::kCopyFileRange64;
  const uint64_t most = wide ? uint64_t{INT64_MAX} : uint64_t{1} << 30;
  const uint64_t length = std::min({in.len, left, most});
  if (length > 0) {
    file_clone_range range{};
    range.src_fd = from->fd;
    range.src_offset = in.off_in;
    range.src_length = length;
    range.dest_offset = in.off_out;
    if (ioctl(to->fd, FICLONERANGE, &range) != 0) return -EOPNOTSUPP;
    if (!KeepsSetId(request.caller) && fstat(to->fd, &status) == 0) {
      if (const int error = DropSetId(to->fd, status); error != 0) return error;
    }
  }
  if (wide) return WriteAnswer(out, CopyOut64{.bytes_copied = length});
  return WriteAnswer(out, fuse_write_out{.size = static_cast<uint32_t>(length), .padding = 0});
}

// Only the four that the kernel itself makes of the callers' (and has checked): attribute flags,
// project and extent size.
Answer FileSystem::Impl::Ioctl(const Request& request, std::span<std::byte> out) {
  fuse_ioctl_in in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  const auto file = handles.Find(in.fh);
  if (!file.has_value()) return -EBADF;
  const bool extended = in.cmd == FS_IOC_FSGETXATTR || in.cmd == FS_IOC_FSSETXATTR;
  const bool get = in.cmd == FS_IOC_GETFLAGS || in.cmd == FS_IOC_FSGETXATTR;
  const bool set = in.cmd == FS_IOC_SETFLAGS || in.cmd == FS_IOC_FSSETXATTR;
  if (!get && !set) return -ENOTTY;
  // FS_IOC_GETFLAGS says long and means int.
  union {
    unsigned int flags;
    fsxattr attributes;
  } value{};
  const size_t bytes = extended ? sizeof(value.attributes) : sizeof(value.flags);
  if (set && (request.rest.size() < bytes || in.in_size < bytes)) return -EINVAL;
  if (get && (out.size() < sizeof(fuse_ioctl_out) + bytes || in.out_size < bytes)) return -EINVAL;
  if (out.size() < sizeof(fuse_ioctl_out)) return -EINVAL;
  if (set) std::memcpy(&value, request.rest.data(), bytes);
  if (ioctl(file->fd, in.cmd, &value) != 0) return -errno;
  const fuse_ioctl_out answer{};
  Answer result = WriteAnswer(out, answer);
  if (get) {
    std::memcpy(out.data() + result, &value, bytes);
    result += static_cast<Answer>(bytes);
  }
  return result;
}

Answer FileSystem::Impl::SyncDirectory(const Request& request) {
  fuse_fsync_in in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  const auto file = handles.Find(in.fh);
  if (!file.has_value()) return -EBADF;
  const bool data_only = (in.fsync_flags & FUSE_FSYNC_FDATASYNC) != 0;
  return (data_only ? fdatasync(file->fd) : fsync(file->fd)) == 0 ? 0 : -errno;
}

}  // namespace weir::volume

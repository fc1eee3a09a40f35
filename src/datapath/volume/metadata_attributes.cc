// Attributes of files and of the file system.
#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "datapath/volume/file_system_impl.h"

namespace weir::volume {

namespace {

// fchmodat2(2) is newer than some kernels that we run on, and than the libc.
constexpr long kFchmodat2 = 452;

// Of FUSE_STATX, protocol 7.39.
struct StatxIn {
  uint32_t getattr_flags;
  uint32_t reserved;
  uint64_t fh;
  uint32_t sx_flags;
  uint32_t sx_mask;
};
struct StatxOut {
  uint64_t attr_valid;
  uint32_t attr_valid_nsec;
  uint32_t flags;
  uint64_t spare[2];
  struct statx stat;
};
static_assert(sizeof(StatxIn) == 24 && sizeof(StatxOut) == 32 + 256);

int ChangeMode(int fd, mode_t mode) {
  if (syscall(kFchmodat2, fd, "", mode, AT_EMPTY_PATH) == 0) return 0;
  if (errno != ENOSYS) return -errno;
  return chmod(ProcPath(fd).c_str(), mode) == 0 ? 0 : -errno;
}

int ChangeOwner(int fd, const fuse_setattr_in& in) {
  constexpr auto kUnchanged = static_cast<uint32_t>(-1);
  const uint32_t uid = (in.valid & FATTR_UID) != 0 ? in.uid : kUnchanged;
  const uint32_t gid = (in.valid & FATTR_GID) != 0 ? in.gid : kUnchanged;
  return fchownat(fd, "", uid, gid, AT_EMPTY_PATH) == 0 ? 0 : -errno;
}

timespec TimeOf(const fuse_setattr_in& in, uint32_t set, uint32_t now, uint64_t seconds,
                uint32_t ns) {
  if ((in.valid & set) == 0) return timespec{.tv_sec = 0, .tv_nsec = UTIME_OMIT};
  if ((in.valid & now) != 0) return timespec{.tv_sec = 0, .tv_nsec = UTIME_NOW};
  return timespec{.tv_sec = static_cast<time_t>(seconds), .tv_nsec = std::min(ns, 999'999'999u)};
}

int ChangeTimes(int fd, const fuse_setattr_in& in) {
  const std::array<timespec, 2> times = {
      TimeOf(in, FATTR_ATIME, FATTR_ATIME_NOW, in.atime, in.atimensec),
      TimeOf(in, FATTR_MTIME, FATTR_MTIME_NOW, in.mtime, in.mtimensec)};
  return utimensat(fd, "", times.data(), AT_EMPTY_PATH) == 0 ? 0 : -errno;
}

}  // namespace

// What the kernel does for a write by somebody without CAP_FSETID. `fd` may be O_PATH.
int FileSystem::Impl::DropSetId(int fd, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return 0;
  mode_t mode = status.st_mode & 07777;
  mode &= ~static_cast<mode_t>(S_ISUID);
  // Without the group's execute bit, setgid does not mean setgid.
  if ((mode & S_IXGRP) != 0) mode &= ~static_cast<mode_t>(S_ISGID);
  return mode == (status.st_mode & 07777) ? 0 : ChangeMode(fd, mode);
}

Answer FileSystem::Impl::GetAttributes(const Request& request, std::span<std::byte> out) {
  fuse_getattr_in in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  struct stat status {};
  const auto file = (in.getattr_flags & FUSE_GETATTR_FH) != 0 ? handles.Find(in.fh) : std::nullopt;
  if (file.has_value() && file->node == request.node) {
    if (fstat(file->fd, &status) != 0) return -errno;
  } else {
    NodeRef node;
    if (const int error = Resolve(request.node, &node); error != 0) return error;
    if (fstat(node.get(), &status) != 0) return -errno;
  }
  NoteStatus(request.node, status);
  return AttributesAnswer(status, out);
}

Answer FileSystem::Impl::AttributesAnswer(const struct stat& status,
                                          std::span<std::byte> out) const {
  fuse_attr_out answer{};
  answer.attr_valid = static_cast<uint64_t>(options.attributes_valid_ns / 1'000'000'000);
  answer.attr_valid_nsec = static_cast<uint32_t>(options.attributes_valid_ns % 1'000'000'000);
  FillAttributes(status, &answer.attr);
  return WriteAnswer(out, answer);
}

int FileSystem::Impl::ChangeSize(const NodeRef& node, const fuse_setattr_in& in) {
  if (in.size > static_cast<uint64_t>(INT64_MAX)) return -EFBIG;
  const auto size = static_cast<off_t>(in.size);
  if ((in.valid & FATTR_FH) != 0) {
    const auto file = handles.Find(in.fh);
    if (!file.has_value() || file->directory || file->node != node.id) return -EBADF;
    if (ftruncate(file->fd, size) != 0) return -errno;
  } else {
    if (node.type == S_IFDIR) return -EISDIR;
    if (node.type != S_IFREG) return -EINVAL;
    if (truncate(ProcPath(node.get()).c_str(), size) != 0) return -errno;
  }
  if ((in.valid & FATTR_KILL_SUIDGID) == 0) return 0;
  struct stat status {};
  if (fstat(node.get(), &status) != 0) return -errno;
  return DropSetId(node.get(), status);
}

Answer FileSystem::Impl::SetAttributes(const Request& request, std::span<std::byte> out) {
  fuse_setattr_in in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  NodeRef node;
  if (const int error = Resolve(request.node, &node); error != 0) return error;
  // The owner first: changing it takes setuid and setgid bits away, which the mode may give again.
  if ((in.valid & (FATTR_UID | FATTR_GID)) != 0) {
    if (const int error = ChangeOwner(node.get(), in); error != 0) return error;
  }
  if ((in.valid & FATTR_SIZE) != 0) {
    if (const int error = ChangeSize(node, in); error != 0) return error;
  }
  if ((in.valid & FATTR_MODE) != 0) {
    if (const int error = ChangeMode(node.get(), in.mode & 07777); error != 0) return error;
  }
  if ((in.valid & (FATTR_ATIME | FATTR_MTIME)) != 0) {
    if (const int error = ChangeTimes(node.get(), in); error != 0) return error;
  }
  struct stat status {};
  if (fstat(node.get(), &status) != 0) return -errno;
  NoteStatus(request.node, status);
  if ((in.valid & (FATTR_SIZE | FATTR_MTIME)) != 0) NoteContents(request.node, status);
  return AttributesAnswer(status, out);
}

Answer FileSystem::Impl::Statx(const Request& request, std::span<std::byte> out) {
  StatxIn in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  NodeRef node;
  if (const int error = Resolve(request.node, &node); error != 0) return error;
  StatxOut answer{};
  const int flags =
      AT_EMPTY_PATH | AT_NO_AUTOMOUNT | static_cast<int>(in.sx_flags & AT_STATX_SYNC_TYPE);
  if (statx(node.get(), "", flags, in.sx_mask & (STATX_BASIC_STATS | STATX_BTIME), &answer.stat) !=
      0) {
    return -errno;
  }
  // Only what the protocol knows.
  answer.stat.stx_mask &= STATX_BASIC_STATS | STATX_BTIME;
  answer.attr_valid = static_cast<uint64_t>(options.attributes_valid_ns / 1'000'000'000);
  answer.attr_valid_nsec = static_cast<uint32_t>(options.attributes_valid_ns % 1'000'000'000);
  return WriteAnswer(out, answer);
}

Answer FileSystem::Impl::StatFs(const Request& /*request*/, std::span<std::byte> out) {
  struct statvfs status {};
  if (fstatvfs(root.get(), &status) != 0) return -errno;
  fuse_statfs_out answer{};
  answer.st.blocks = status.f_blocks;
  answer.st.bfree = status.f_bfree;
  answer.st.bavail = status.f_bavail;
  answer.st.files = status.f_files;
  answer.st.ffree = status.f_ffree;
  answer.st.bsize = static_cast<uint32_t>(status.f_bsize);
  answer.st.namelen = static_cast<uint32_t>(status.f_namemax);
  answer.st.frsize = static_cast<uint32_t>(status.f_frsize);
  return WriteAnswer(out, answer);
}

}  // namespace weir::volume

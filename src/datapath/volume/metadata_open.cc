// Opening and closing.
#include <fcntl.h>
#include <unistd.h>

#include "datapath/volume/file_system_impl.h"
#include "datapath/volume/metadata_caller.h"

namespace weir::volume {

namespace {

constexpr uint64_t kUniqueBits = ~(uint64_t{1} << 63);

// Of the caller's flags those that a backing descriptor has too. Never O_APPEND: the kernel sends
// offsets.
uint32_t BackingFlags(uint32_t flags) {
  return (flags & (O_ACCMODE | O_SYNC | O_DSYNC | O_NOATIME)) | O_CLOEXEC | O_LARGEFILE;
}

bool MayWrite(uint32_t flags) { return (flags & O_ACCMODE) != O_RDONLY; }

uint64_t ModifiedNs(const struct stat& status) {
  return static_cast<uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(status.st_mtim.tv_nsec);
}

// CREATE and TMPFILE answer with both.
struct CreateAnswer {
  fuse_entry_out entry;
  fuse_open_out open;
};
static_assert(sizeof(CreateAnswer) == sizeof(fuse_entry_out) + sizeof(fuse_open_out) &&
              sizeof(CreateAnswer) <= kJournalAnswerBytes);

}  // namespace

Fd FileSystem::Impl::OpenDirect(int fd, uint32_t flags) {
  if (!has_direct.load(std::memory_order_relaxed)) return Fd();
  int error = 0;
  Fd direct = Reopen(fd, static_cast<int>(BackingFlags(flags) | O_DIRECT), &error);
  // EINVAL: the file system has no direct I/O. Others (EMFILE) may pass.
  if (error == -EINVAL) has_direct.store(false, std::memory_order_relaxed);
  return direct;
}

void FileSystem::Impl::NoteContents(uint64_t node, const struct stat& status) const {
  NodeHints* hints = nodes.Hints(node);
  if (hints == nullptr) return;
  hints->size.store(static_cast<uint64_t>(status.st_size), std::memory_order_relaxed);
  hints->modified_ns.store(ModifiedNs(status), std::memory_order_relaxed);
}

// While somebody may write through the mount, a change is taken for that; else size and time must
// be what they were when the last writer closed the file.
bool FileSystem::Impl::ChangedBehindOurBack(uint64_t node, const struct stat& status) const {
  const NodeHints* hints = nodes.Hints(node);
  if (hints == nullptr) return true;
  if (hints->writers.load(std::memory_order_relaxed) > 0) return false;
  return hints->size.load(std::memory_order_relaxed) != static_cast<uint64_t>(status.st_size) ||
         hints->modified_ns.load(std::memory_order_relaxed) != ModifiedNs(status);
}

int FileSystem::Impl::FinishOpen(const Request& request, Fd fd, uint64_t node, uint32_t flags,
                                 const struct stat& status, fuse_open_out* answer) {
  Fd direct = OpenDirect(fd.get(), flags);
  OpenFile file{.fd = fd.get(), .direct_fd = direct.get(), .node = node, .flags = flags};
  if (options.direct_io && (flags & O_DIRECT) != 0) {
    file.answer_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
  } else if (!ChangedBehindOurBack(node, status)) {
    file.answer_flags = FOPEN_KEEP_CACHE;
  }
  NodeHints* hints = nodes.Hints(node);
  if (hints == nullptr) return -ESTALE;
  const auto handle = handles.Open(file, request.unique & kUniqueBits);
  if (!handle.has_value()) return -ENFILE;
  static_cast<void>(fd.release());
  static_cast<void>(direct.release());
  if (MayWrite(flags)) hints->writers.fetch_add(1, std::memory_order_relaxed);
  NoteContents(node, status);
  *answer = fuse_open_out{};
  answer->fh = *handle;
  answer->open_flags = file.answer_flags;
  return 0;
}

Answer FileSystem::Impl::Open(const Request& request, std::span<std::byte> out) {
  fuse_open_in in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  if (out.size() < sizeof(fuse_open_out)) return -EINVAL;
  fuse_open_out answer{};
  if (request.resent) {
    if (const auto handle = handles.OpenedFor(request.unique & kUniqueBits)) {
      answer.fh = *handle;
      if (const auto file = handles.Find(*handle)) answer.open_flags = file->answer_flags;
      return WriteAnswer(out, answer);
    }
  }
  NodeRef node;
  if (const int error = Resolve(request.node, &node); error != 0) return error;
  // The kernel itself opens what is not a file; a descriptor of a device or a pipe would do harm.
  if (node.type == S_IFDIR) return -EISDIR;
  if (node.type == S_IFLNK) return -ELOOP;
  if (node.type != S_IFREG) return -ENXIO;
  int error = 0;
  const uint32_t truncate = in.flags & O_TRUNC;  // O_RDONLY truncates, too
  Fd fd = Reopen(node.get(), static_cast<int>(BackingFlags(in.flags) | truncate), &error);
  struct stat status {};
  if (!fd.valid()) return error;
  if (fstat(fd.get(), &status) != 0) return -errno;
  if ((in.open_flags & FUSE_OPEN_KILL_SUIDGID) != 0 && truncate != 0) {
    if (error = DropSetId(fd.get(), status); error != 0) return error;
    if (fstat(fd.get(), &status) != 0) return -errno;
  }
  NoteStatus(request.node, status);
  // What is cut off here is not a change behind the mount's back.
  if (truncate != 0) NoteContents(request.node, status);
  error = FinishOpen(request, std::move(fd), request.node, in.flags, status, &answer);
  return error != 0 ? error : WriteAnswer(out, answer);
}

Answer FileSystem::Impl::Create(const Request& request, std::span<std::byte> out) {
  fuse_create_in in{};
  std::span<const std::byte> rest = request.rest;
  int error = 0;
  if (!ReadFixed(request, &in)) return -EINVAL;
  const char* name = TakeName(&rest, &error);
  if (name == nullptr) return error;
  if (out.size() < sizeof(CreateAnswer)) return -EINVAL;
  NodeRef parent;
  if (error = ResolveDirectory(request.node, &parent); error != 0) return error;
  if (error = BecomeCaller(request.caller, in.umask); error != 0) return error;
  return Once(
      request, out, [&](Before* before) { before->first = InodeAt(parent.get(), name); },
      [&](const Before& before) { return before.first == 0 && InodeAt(parent.get(), name) != 0; },
      [&](bool done) -> Answer {
        CreateAnswer answer{};
        Fd fd;
        if (!done) {
          const auto flags = static_cast<int>(BackingFlags(in.flags) | O_CREAT | O_EXCL);
          fd = Fd(openat(parent.get(), name, flags | O_NOFOLLOW, in.mode & 07777));
          // The kernel thought that the name was free. Unless it must be, the file is opened.
          if (!fd.valid() && (errno != EEXIST || (in.flags & O_EXCL) != 0)) return -errno;
        }
        if (const int failed = EntryOf(parent.get(), name, &answer.entry); failed != 0) {
          return failed;
        }
        const uint64_t node = answer.entry.nodeid;
        const int failed = FinishCreate(request, std::move(fd), node, in.flags, &answer.open);
        if (failed != 0) {
          Forget(node, 1);
          return failed;
        }
        return WriteAnswer(out, answer);
      });
}

// `fd` invalid: the file was there, or made by a predecessor.
int FileSystem::Impl::FinishCreate(const Request& request, Fd fd, uint64_t node, uint32_t flags,
                                   fuse_open_out* answer) {
  if (request.resent) {
    if (const auto handle = handles.OpenedFor(request.unique & kUniqueBits)) {
      answer->fh = *handle;
      if (const auto file = handles.Find(*handle)) answer->open_flags = file->answer_flags;
      return 0;
    }
  }
  NodeRef ref;
  if (const int error = Resolve(node, &ref); error != 0) return error;
  // Not a file: the kernel has to look again what is there.
  if (ref.type != S_IFREG) return -ESTALE;
  int error = 0;
  if (!fd.valid()) {
    fd = Reopen(ref.get(), static_cast<int>(BackingFlags(flags) | (flags & O_TRUNC)), &error);
    if (!fd.valid()) return error;
  }
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return -errno;
  return FinishOpen(request, std::move(fd), node, flags, status, answer);
}

Answer FileSystem::Impl::Tmpfile(const Request& request, std::span<std::byte> out) {
  fuse_create_in in{};
  int error = 0;
  if (!ReadFixed(request, &in)) return -EINVAL;
  if (out.size() < sizeof(CreateAnswer)) return -EINVAL;
  NodeRef parent;
  if (error = ResolveDirectory(request.node, &parent); error != 0) return error;
  if (error = BecomeCaller(request.caller, in.umask); error != 0) return error;
  // It has no name, so one more that nobody was told of goes when its descriptor does.
  const auto flags = static_cast<int>(BackingFlags(in.flags) | O_TMPFILE | (in.flags & O_EXCL));
  Fd fd(openat(parent.get(), ".", flags, in.mode & 07777));
  if (!fd.valid()) return -errno;
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return -errno;
  Fd path = Reopen(fd.get(), O_PATH, &error);
  if (!path.valid()) return error;
  CreateAnswer answer{};
  const uint64_t node = Remember(std::move(path), status);
  if (node == 0) return -ENOMEM;
  FillEntry(node, status, &answer.entry);
  error = FinishOpen(request, std::move(fd), node, in.flags, status, &answer.open);
  if (error != 0) {
    Forget(node, 1);
    return error;
  }
  return WriteAnswer(out, answer);
}

Answer FileSystem::Impl::OpenDirectory(const Request& request, std::span<std::byte> out) {
  fuse_open_in in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  if (out.size() < sizeof(fuse_open_out)) return -EINVAL;
  fuse_open_out answer{};
  if (request.resent) {
    if (const auto handle = handles.OpenedFor(request.unique & kUniqueBits)) {
      answer.fh = *handle;
      return WriteAnswer(out, answer);
    }
  }
  NodeRef node;
  if (const int error = ResolveDirectory(request.node, &node); error != 0) return error;
  Fd fd(openat(node.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | (in.flags & O_NOATIME)));
  if (!fd.valid()) return -errno;
  const OpenFile file{.fd = fd.get(), .node = request.node, .flags = in.flags, .directory = true};
  const auto handle = handles.Open(file, request.unique & kUniqueBits);
  if (!handle.has_value()) return -ENFILE;
  static_cast<void>(fd.release());
  answer.fh = *handle;
  return WriteAnswer(out, answer);
}

Answer FileSystem::Impl::Release(const Request& request) {
  fuse_release_in in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  const auto file = handles.Close(in.fh);
  // Closed already: a predecessor did, and died before it said so.
  if (!file.has_value()) return request.resent ? 0 : -EBADF;
  NodeHints* hints = nodes.Hints(file->node);
  if (!file->directory && MayWrite(file->flags) && hints != nullptr) {
    struct stat status {};
    if (fstat(file->fd, &status) == 0) NoteContents(file->node, status);
    hints->writers.fetch_sub(1, std::memory_order_relaxed);
  }
  close(file->fd);
  if (file->direct_fd >= 0) close(file->direct_fd);
  handles.Reuse(in.fh);
  return 0;
}

}  // namespace weir::volume

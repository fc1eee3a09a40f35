// From node ids to descriptors and back.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>

#include "datapath/volume/file_system_impl.h"

namespace weir::volume {

namespace {

// struct file_handle with room for what we keep.
struct HandleBuffer {
  uint32_t bytes;
  int32_t type;
  std::array<std::byte, kMaxFileHandleBytes> data;
};
static_assert(sizeof(HandleBuffer) == 8 + kMaxFileHandleBytes);

Fd Opened(long result, int* error) {
  *error = result < 0 ? -errno : 0;
  return result < 0 ? Fd() : Fd(static_cast<int>(result));
}

void SplitSeconds(int64_t ns, uint64_t* seconds, uint32_t* rest_ns) {
  *seconds = static_cast<uint64_t>(std::max<int64_t>(ns, 0)) / 1'000'000'000;
  *rest_ns = static_cast<uint32_t>(static_cast<uint64_t>(std::max<int64_t>(ns, 0)) % 1'000'000'000);
}

}  // namespace

FileHandle FileSystem::Impl::HandleOf(int fd) const {
  HandleBuffer buffer{};
  buffer.bytes = kMaxFileHandleBytes;
  int mount = 0;
  FileHandle handle;
  if (syscall(SYS_name_to_handle_at, fd, "", &buffer, &mount, AT_EMPTY_PATH) != 0) return handle;
  handle.type = buffer.type;
  handle.bytes = buffer.bytes;
  std::copy_n(buffer.data.begin(), std::min<size_t>(buffer.bytes, kMaxFileHandleBytes),
              handle.data.begin());
  return handle;
}

Fd FileSystem::Impl::OpenByHandle(const NodeIdentity& identity, int flags, int* error) const {
  HandleBuffer buffer{};
  buffer.bytes = identity.handle.bytes;
  buffer.type = identity.handle.type;
  buffer.data = identity.handle.data;
  return Opened(syscall(SYS_open_by_handle_at, root.get(), &buffer, flags | O_CLOEXEC | O_NOFOLLOW),
                error);
}

Fd FileSystem::Impl::OpenChild(int directory, const char* name, int* error) const {
  open_how how{};
  how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS;
  return Opened(syscall(SYS_openat2, directory, name, &how, sizeof(how)), error);
}

Fd FileSystem::Impl::Reopen(int fd, int flags, int* error) const {
  return Opened(open(ProcPath(fd).c_str(), flags | O_CLOEXEC), error);
}

int FileSystem::Impl::Resolve(uint64_t node, NodeRef* ref) {
  ref->id = node;
  if (node == kRootNode) {
    ref->type = S_IFDIR;
    ref->fd = root_shared;
    return 0;
  }
  const auto identity = nodes.Find(node);
  if (!identity.has_value()) return -ESTALE;
  ref->type = identity->type;
  ref->fd = cache.Find(node);
  if (ref->fd != nullptr) return 0;
  if (!has_handles || identity->handle.bytes == 0) return -ESTALE;
  int error = 0;
  Fd fd = OpenByHandle(*identity, O_PATH, &error);
  if (!fd.valid()) return error;
  ref->fd = cache.Add(node, std::make_shared<Fd>(std::move(fd)));
  return 0;
}

int FileSystem::Impl::ResolveDirectory(uint64_t node, NodeRef* ref) {
  if (const int error = Resolve(node, ref); error != 0) return error;
  return ref->type == S_IFDIR ? 0 : -ENOTDIR;
}

uint64_t FileSystem::Impl::Remember(Fd fd, const struct stat& status) {
  NodeIdentity identity{.inode = status.st_ino, .type = status.st_mode & S_IFMT};
  if (has_handles) identity.handle = HandleOf(fd.get());
  // Without a handle, or without a name, the descriptor is the only way back to the file.
  const bool pin = identity.handle.bytes == 0 || status.st_nlink == 0;
  const auto remembered = nodes.Remember(identity, pin ? fd.get() : -1);
  if (!remembered.has_value()) return 0;
  auto shared = std::make_shared<Fd>(std::move(fd));
  if (remembered->pinned) {
    cache.Pin(remembered->node, std::move(shared));
  } else {
    cache.Add(remembered->node, std::move(shared));
  }
  NoteStatus(remembered->node, status);
  return remembered->node;
}

void FileSystem::Impl::KeepReachable(int directory, const char* name) {
  int error = 0;
  Fd fd = OpenChild(directory, name, &error);
  struct stat status {};
  if (!fd.valid() || fstat(fd.get(), &status) != 0) return;
  if (!S_ISDIR(status.st_mode) && status.st_nlink > 1) return;
  NodeIdentity identity{.inode = status.st_ino, .type = status.st_mode & S_IFMT};
  if (has_handles) identity.handle = HandleOf(fd.get());
  const auto node = nodes.Known(identity);
  if (node.has_value() && nodes.Pin(*node, fd.get())) {
    cache.Pin(*node, std::make_shared<Fd>(std::move(fd)));
  }
}

void FileSystem::Impl::Forget(uint64_t node, uint64_t lookups) {
  if (nodes.Forget(node, lookups)) cache.Drop(node);
}

void FileSystem::Impl::NoteStatus(uint64_t node, const struct stat& status) const {
  if (!S_ISREG(status.st_mode)) return;
  if (NodeHints* hints = nodes.Hints(node)) {
    hints->set_id.store((status.st_mode & (S_ISUID | S_ISGID)) != 0 ? 1 : 0,
                        std::memory_order_relaxed);
  }
}

void FileSystem::Impl::FillAttributes(const struct stat& status, fuse_attr* attributes) const {
  *attributes = fuse_attr{};
  attributes->ino = status.st_ino;
  attributes->size = static_cast<uint64_t>(status.st_size);
  attributes->blocks = static_cast<uint64_t>(status.st_blocks);
  attributes->atime = static_cast<uint64_t>(status.st_atim.tv_sec);
  attributes->mtime = static_cast<uint64_t>(status.st_mtim.tv_sec);
  attributes->ctime = static_cast<uint64_t>(status.st_ctim.tv_sec);
  attributes->atimensec = static_cast<uint32_t>(status.st_atim.tv_nsec);
  attributes->mtimensec = static_cast<uint32_t>(status.st_mtim.tv_nsec);
  attributes->ctimensec = static_cast<uint32_t>(status.st_ctim.tv_nsec);
  attributes->mode = status.st_mode;
  attributes->nlink = static_cast<uint32_t>(status.st_nlink);
  attributes->uid = status.st_uid;
  attributes->gid = status.st_gid;
  // The kernel's 32-bit encoding of a device number.
  const uint32_t low = minor(status.st_rdev);
  attributes->rdev = (low & 0xff) | (major(status.st_rdev) << 8) | ((low & ~0xffu) << 12);
  attributes->blksize = static_cast<uint32_t>(status.st_blksize);
}

void FileSystem::Impl::FillEntry(uint64_t node, const struct stat& status,
                                 fuse_entry_out* entry) const {
  *entry = fuse_entry_out{};
  entry->nodeid = node;
  entry->generation = 0;  // the node id itself is never used again
  SplitSeconds(options.entries_valid_ns, &entry->entry_valid, &entry->entry_valid_nsec);
  SplitSeconds(options.attributes_valid_ns, &entry->attr_valid, &entry->attr_valid_nsec);
  FillAttributes(status, &entry->attr);
}

int FileSystem::Impl::EntryOf(int directory, const char* name, fuse_entry_out* entry) {
  int error = 0;
  Fd fd = OpenChild(directory, name, &error);
  if (!fd.valid()) return error;
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return -errno;
  const uint64_t node = Remember(std::move(fd), status);
  if (node == 0) return -ENOMEM;
  FillEntry(node, status, entry);
  return 0;
}

}  // namespace weir::volume

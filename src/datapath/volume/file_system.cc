#include "datapath/volume/file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "datapath/volume/file_system_impl.h"
#include "datapath/volume/fuse_abi.h"

namespace weir::volume {

namespace {

constexpr uint64_t kMagic = 0x31736C6966726577;  // "werfils1": another layout, another number
constexpr size_t kPage = 4096;

// At the beginning of the state region.
struct StateHeader {
  std::atomic<uint64_t> magic;  // written last
  uint64_t device;
  uint64_t inode;
  std::atomic<int32_t> root_fd_plus_1;
};

constexpr size_t RoundUp(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// The parts of the region, one after another.
std::span<std::byte> JournalPart(std::span<std::byte> state) {
  return state.subspan(kPage, Journal::StateBytes());
}
std::span<std::byte> HandlePart(std::span<std::byte> state) {
  return state.subspan(kPage + RoundUp(Journal::StateBytes()), HandleTable::StateBytes());
}
std::span<std::byte> NodePart(std::span<std::byte> state) {
  return state.subspan(kPage + RoundUp(Journal::StateBytes()) + RoundUp(HandleTable::StateBytes()),
                       NodeTable::StateBytes());
}

size_t CachedDescriptors(const FileSystemOptions& options) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  return std::min<size_t>(options.max_cached_descriptors, limit.rlim_cur / 8);
}

std::string LinkText(const char* path) {
  std::array<char, 4096> text{};
  const ssize_t bytes = readlink(path, text.data(), text.size());
  return bytes < 0 ? std::string() : std::string(text.data(), static_cast<size_t>(bytes));
}

// Whether a descriptor that may be anybody's is of the file system `device`. Nothing that has to
// ask a file system: one on this very volume would wait for this daemon, which is not ready.
bool IsOn(int fd, dev_t device, uint64_t* inode) {
  struct statx status {};
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &status) != 0) return false;
  *inode = status.stx_ino;
  return makedev(status.stx_dev_major, status.stx_dev_minor) == device;
}

bool IsBelow(std::string_view path, std::string_view root) {
  if (root == "/") return path.starts_with('/');
  return path.size() > root.size() && path.starts_with(root) && path[root.size()] == '/';
}

}  // namespace

ProcPath::ProcPath(int fd) {
  *fmt::format_to_n(text_.data(), text_.size() - 1, "/proc/self/fd/{}", fd).out = '\0';
}

const char* TakeText(std::span<const std::byte>* rest) {
  const void* end = rest->empty() ? nullptr : std::memchr(rest->data(), 0, rest->size());
  if (end == nullptr) return nullptr;
  const char* text = reinterpret_cast<const char*>(rest->data());
  *rest = rest->subspan(static_cast<size_t>(static_cast<const char*>(end) - text) + 1);
  return text;
}

int CheckName(const char* name) {
  constexpr size_t kMaxName = 255;
  const size_t length = std::strlen(name);
  if (length == 0 || std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) return -EINVAL;
  if (std::memchr(name, '/', length) != nullptr) return -EINVAL;
  return length > kMaxName ? -ENAMETOOLONG : 0;
}

const char* TakeName(std::span<const std::byte>* rest, int* error) {
  const char* name = TakeText(rest);
  *error = name == nullptr ? -EINVAL : CheckName(name);
  return *error == 0 ? name : nullptr;
}

uint64_t InodeAt(int directory, const char* name) {
  struct stat status {};
  return fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0
             ? status.st_ino
             : 0;
}

FileSystem::Impl::Impl(const FileSystemOptions& given, Fd root_fd, const struct stat& root_stat)
    : options(given),
      root(std::move(root_fd)),
      root_status(root_stat),
      nodes(NodePart(given.state), given.max_nodes),
      handles(HandlePart(given.state), given.max_open_files),
      journal(JournalPart(given.state)),
      cache(CachedDescriptors(given)),
      root_shared(new Fd(root.get()), [](Fd* fd) {
        static_cast<void>(fd->release());
        delete fd;
      }) {
  root_path = LinkText(ProcPath(root.get()).c_str());
  // Handles must lead back to the file, which takes CAP_DAC_READ_SEARCH.
  FileHandle handle = HandleOf(root.get());
  if (handle.bytes > 0) {
    int error = 0;
    has_handles = true;
    const NodeIdentity identity{.inode = root_stat.st_ino, .type = S_IFDIR, .handle = handle};
    has_handles = OpenByHandle(identity, O_PATH, &error).valid();
  }
}

Result<void> FileSystem::Impl::Adopt() {
  auto* header = reinterpret_cast<StateHeader*>(options.state.data());
  const uint64_t magic = header->magic.load(std::memory_order_acquire);
  if (magic != 0 && magic != kMagic) {
    return Fail(ErrorCode::kFailedPrecondition,
                "cannot open the volume's state: another version of the program left it; unmount "
                "the volume and mount it again");
  }
  if (magic == kMagic &&
      (header->device != root_status.st_dev || header->inode != root_status.st_ino)) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("cannot open the volume's state for {}: it belongs to another "
                            "directory; unmount the volume and mount it again",
                            root_path));
  }
  std::vector<int> owned;
  nodes.Recover([&](uint64_t node, const NodeIdentity& identity, int fd) {
    uint64_t inode = 0;
    if (!IsOn(fd, root_status.st_dev, &inode) || inode != identity.inode) return false;
    owned.push_back(fd);
    cache.Pin(node, std::make_shared<Fd>(fd));
    return true;
  });
  handles.Recover([&](const OpenFile& file) {
    uint64_t inode = 0;
    if (!IsOn(file.fd, root_status.st_dev, &inode)) return false;
    owned.push_back(file.fd);
    owned.push_back(file.direct_fd);
    const bool writes = !file.directory && (file.flags & O_ACCMODE) != O_RDONLY;
    NodeHints* hints = nodes.Hints(file.node);
    if (writes && hints != nullptr) hints->writers.fetch_add(1, std::memory_order_relaxed);
    return true;
  });
  journal.Recover();
  if (magic == kMagic) {
    const int old_root = header->root_fd_plus_1.exchange(0) - 1;
    if (old_root >= 0 && old_root != root.get()) close(old_root);
    CloseOrphans(owned);
  }
  header->root_fd_plus_1.store(root.get() + 1, std::memory_order_release);
  header->device = root_status.st_dev;
  header->inode = root_status.st_ino;
  header->magic.store(kMagic, std::memory_order_release);
  return {};
}

// A predecessor that died between opening and recording left descriptors that nobody knows. They
// are recognised by where they lead: into the backing directory.
void FileSystem::Impl::CloseOrphans(const std::vector<int>& owned) {
  std::vector<int> keep = owned;
  keep.insert(keep.end(), options.keep_fds.begin(), options.keep_fds.end());
  keep.insert(keep.end(), {root.get(), options.backing_fd});
  std::sort(keep.begin(), keep.end());
  const Fd list(open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!list.valid()) return;
  std::vector<int> orphans;
  alignas(8) std::array<char, 32'768> buffer{};
  for (;;) {
    const long bytes = syscall(SYS_getdents64, list.get(), buffer.data(), buffer.size());
    if (bytes <= 0) break;
    for (long at = 0; at < bytes;) {
      const char* entry = buffer.data() + at;
      uint16_t length = 0;
      std::memcpy(&length, entry + 16, sizeof(length));
      at += length;
      char* end = nullptr;
      const long fd = std::strtol(entry + 19, &end, 10);
      if (*end != '\0' || fd <= STDERR_FILENO || fd == list.get()) continue;
      if (std::binary_search(keep.begin(), keep.end(), static_cast<int>(fd))) continue;
      uint64_t inode = 0;
      if (IsBelow(LinkText(ProcPath(static_cast<int>(fd)).c_str()), root_path) &&
          IsOn(static_cast<int>(fd), root_status.st_dev, &inode)) {
        orphans.push_back(static_cast<int>(fd));
      }
    }
  }
  for (const int fd : orphans) close(fd);
}

Result<std::unique_ptr<FileSystem>> FileSystem::Open(const FileSystemOptions& options) {
  const auto misaligned = reinterpret_cast<uintptr_t>(options.state.data()) % kPage;
  if (options.state.size() < StateBytes() || misaligned != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot open the volume: its state region has {} bytes; {} are needed, "
                            "page aligned",
                            options.state.size(), StateBytes()));
  }
  if (options.max_nodes == 0 || options.max_nodes > kMaxNodes || options.max_open_files == 0 ||
      options.max_open_files > kMaxOpenFiles) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("cannot open the volume: max_nodes must be 1 to {}, max_open_files 1 to "
                    "{}",
                    kMaxNodes, kMaxOpenFiles));
  }
  const bool by_path = options.backing_fd < 0;
  const std::string name =
      by_path ? options.backing_path : LinkText(ProcPath(options.backing_fd).c_str());
  Fd root(by_path ? open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                  : openat(options.backing_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!root.valid() || fstat(root.get(), &status) != 0) {
    const int error = errno;
    return Fail(ErrorCode::kIo,
                fmt::format("cannot open the directory behind the volume, {}: {}", name,
                            std::strerror(error)),
                error);
  }
  auto impl = std::make_unique<Impl>(options, std::move(root), status);
  if (auto adopted = impl->Adopt(); !adopted) return tl::unexpected<Error>(adopted.error());
  return std::unique_ptr<FileSystem>(new FileSystem(std::move(impl)));
}

size_t FileSystem::StateBytes() {
  return kPage + RoundUp(Journal::StateBytes()) + RoundUp(HandleTable::StateBytes()) +
         RoundUp(NodeTable::StateBytes());
}

FileSystem::FileSystem(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

FileSystem::~FileSystem() {
  auto* header = reinterpret_cast<StateHeader*>(impl_->options.state.data());
  header->root_fd_plus_1.store(0);
}

Answer FileSystem::Handle(const Request& request, std::span<std::byte> out) {
  return impl_->Dispatch(request, out);
}

Answer FileSystem::Impl::Dispatch(const Request& request, std::span<std::byte> out) {
  switch (request.opcode) {
    case FUSE_LOOKUP:
      return Lookup(request, out);
    case FUSE_FORGET: {
      fuse_forget_in in{};
      if (!ReadFixed(request, &in)) return -EINVAL;
      Forget(request.node, in.nlookup);
      return 0;
    }
    case FUSE_BATCH_FORGET:
      return BatchForget(request);
    case FUSE_GETATTR:
      return GetAttributes(request, out);
    case FUSE_SETATTR:
      return SetAttributes(request, out);
    case FUSE_READLINK:
      return Readlink(request, out);
    case FUSE_SYMLINK:
      return Symlink(request, out);
    case FUSE_MKNOD:
      return Mknod(request, out);
    case FUSE_MKDIR:
      return Mkdir(request, out);
    case FUSE_UNLINK:
      return Remove(request, out, 0);
    case FUSE_RMDIR:
      return Remove(request, out, AT_REMOVEDIR);
    case FUSE_RENAME:
    case FUSE_RENAME2:
      return Rename(request, out);
    case FUSE_LINK:
      return Link(request, out);
    case FUSE_OPEN:
      return Open(request, out);
    case FUSE_CREATE:
      return Create(request, out);
    case FUSE_TMPFILE:
      return Tmpfile(request, out);
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
      return Release(request);
    case FUSE_OPENDIR:
      return OpenDirectory(request, out);
    case FUSE_READDIR:
      return ReadDirectory(request, out, false);
    case FUSE_READDIRPLUS:
      return ReadDirectory(request, out, true);
    case FUSE_FSYNCDIR:
      return SyncDirectory(request);
    case FUSE_STATFS:
      return StatFs(request, out);
    case FUSE_SYNCFS:
      return syncfs(root.get()) == 0 ? 0 : -errno;
    case FUSE_SETXATTR:
      return SetXattr(request, out);
    case FUSE_GETXATTR:
      return GetXattr(request, out);
    case FUSE_LISTXATTR:
      return ListXattr(request, out);
    case FUSE_REMOVEXATTR:
      return RemoveXattr(request, out);
    case FUSE_FALLOCATE:
      return Fallocate(request, out);
    case FUSE_LSEEK:
      return Lseek(request, out);
    case FUSE_IOCTL:
      return Ioctl(request, out);
    case FUSE_COPY_FILE_RANGE:
    case abi::kCopyFileRange64:
      return CopyFileRange(request, out);
    case abi::kStatx:
      return Statx(request, out);
    default:
      return -ENOSYS;  // also FLUSH, ACCESS, BMAP, POLL, GETLK, SETLK, SETLKW: see the header
  }
}

std::optional<DataFile> FileSystem::File(uint64_t fh) const {
  const auto file = impl_->handles.Find(fh);
  if (!file.has_value() || file->directory) return std::nullopt;
  return DataFile{.buffered_fd = file->fd,
                  .direct_fd = file->direct_fd,
                  .node = file->node,
                  .open_flags = file->flags};
}

void FileSystem::DropSetId(uint64_t fh) const {
  const auto file = impl_->handles.Find(fh);
  if (!file.has_value() || file->directory) return;
  const NodeHints* hints = impl_->nodes.Hints(file->node);
  if (hints != nullptr && hints->set_id.load(std::memory_order_relaxed) == 0) return;
  struct stat status {};
  if (fstat(file->fd, &status) != 0) return;
  static_cast<void>(Impl::DropSetId(file->fd, status));
}

std::optional<std::string> FileSystem::PathOf(uint64_t node) {
  NodeRef ref;
  if (impl_->Resolve(node, &ref) != 0) return std::nullopt;
  if (node == kRootNode) return std::string();
  const std::string path = LinkText(ProcPath(ref.get()).c_str());
  struct stat status {};
  if (!IsBelow(path, impl_->root_path)) return std::nullopt;
  if (fstat(ref.get(), &status) != 0 || status.st_nlink == 0) return std::nullopt;
  return path.substr(impl_->root_path == "/" ? 1 : impl_->root_path.size() + 1);
}

void FileSystem::CloseAll() {
  impl_->handles.ForEach([this](uint64_t handle) {
    if (const auto file = impl_->handles.Close(handle)) {
      close(file->fd);
      if (file->direct_fd >= 0) close(file->direct_fd);
      impl_->handles.Reuse(handle);
    }
  });
  impl_->nodes.ForEach([this](uint64_t node) { impl_->Forget(node, UINT64_MAX); });
}

size_t FileSystem::nodes() const { return impl_->nodes.size(); }
size_t FileSystem::open_files() const { return impl_->handles.size(); }

}  // namespace weir::volume

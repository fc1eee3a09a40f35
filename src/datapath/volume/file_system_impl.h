// What the operations of the file system share. Internal to file_system*.cc and metadata_*.cc.
#pragma once

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string_view>

#include "datapath/volume/file_system.h"
#include "datapath/volume/journal.h"
#include "datapath/volume/metadata_cache.h"
#include "datapath/volume/metadata_fd.h"

namespace weir::volume {

// A node that an operation works on: its O_PATH descriptor and kind.
struct NodeRef {
  uint64_t id = 0;
  uint32_t type = 0;  // S_IFREG, ...
  SharedFd fd;
  [[nodiscard]] int get() const { return fd->get(); }
};

// "/proc/self/fd/N": the way to what an O_PATH descriptor means for calls that take only names.
class ProcPath {
 public:
  explicit ProcPath(int fd);
  [[nodiscard]] const char* c_str() const { return text_.data(); }

 private:
  std::array<char, 32> text_{};
};

struct FileSystem::Impl {
  Impl(const FileSystemOptions& given, Fd root_fd, const struct stat& root_stat);

  // --- file_system.cc
  // Takes over the state region; recovers what a predecessor left in it.
  [[nodiscard]] Result<void> Adopt();
  void CloseOrphans(const std::vector<int>& owned);
  Answer Dispatch(const Request& request, std::span<std::byte> out);

  // --- metadata_nodes.cc: from node ids to descriptors and back.
  [[nodiscard]] int Resolve(uint64_t node, NodeRef* ref);           // 0 or -errno
  [[nodiscard]] int ResolveDirectory(uint64_t node, NodeRef* ref);  // also ENOTDIR
  // One component of a directory, O_PATH. An invalid one and `error` set: it could not be opened.
  [[nodiscard]] Fd OpenChild(int directory, const char* name, int* error) const;
  // A real descriptor of a regular file or directory that an O_PATH one means; < 0: -errno.
  [[nodiscard]] Fd Reopen(int fd, int flags, int* error) const;
  [[nodiscard]] Fd OpenByHandle(const NodeIdentity& identity, int flags, int* error) const;
  [[nodiscard]] FileHandle HandleOf(int fd) const;
  // Counts a lookup of what `fd` (O_PATH, kept for later) is. 0: no room (ENOMEM).
  [[nodiscard]] uint64_t Remember(Fd fd, const struct stat& status);
  // Before a name goes: keeps a node reachable that this may leave without any.
  void KeepReachable(int directory, const char* name);
  void Forget(uint64_t node, uint64_t lookups);

  // --- Answers.
  void FillAttributes(const struct stat& status, fuse_attr* attributes) const;
  void FillEntry(uint64_t node, const struct stat& status, fuse_entry_out* entry) const;
  // Remembers what the mount last knew: of a file's setuid bits; of its size and time.
  void NoteStatus(uint64_t node, const struct stat& status) const;
  void NoteContents(uint64_t node, const struct stat& status) const;
  // The whole answer for a name that exists: looks it up and counts it.
  [[nodiscard]] int EntryOf(int directory, const char* name, fuse_entry_out* entry);

  // Runs what must not run twice (journal.h). `before(Before*)` notes what exists; on a request
  // that a predecessor began, `happened(before)` tells whether it was carried out; `run(done)`
  // answers, and does it first unless `done`.
  template <typename NoteBefore, typename Happened, typename Run>
  Answer Once(const Request& request, std::span<std::byte> out, NoteBefore&& note,
              Happened&& happened, Run&& run);

  // --- metadata_names.cc
  Answer Lookup(const Request& request, std::span<std::byte> out);
  Answer Readlink(const Request& request, std::span<std::byte> out);
  template <typename Make>
  Answer MakeEntry(const Request& request, std::span<std::byte> out, const char* name,
                   uint64_t inode, Make&& make);
  Answer Symlink(const Request& request, std::span<std::byte> out);
  Answer Mknod(const Request& request, std::span<std::byte> out);
  Answer Mkdir(const Request& request, std::span<std::byte> out);
  Answer Link(const Request& request, std::span<std::byte> out);
  Answer Remove(const Request& request, std::span<std::byte> out, int flags);
  Answer Rename(const Request& request, std::span<std::byte> out);
  Answer BatchForget(const Request& request);

  // --- metadata_open.cc
  Answer Open(const Request& request, std::span<std::byte> out);
  Answer Create(const Request& request, std::span<std::byte> out);
  Answer Tmpfile(const Request& request, std::span<std::byte> out);
  Answer Release(const Request& request);
  Answer OpenDirectory(const Request& request, std::span<std::byte> out);
  // Makes `fd` (a regular file, through the page cache) an open file of the volume.
  [[nodiscard]] int FinishOpen(const Request& request, Fd fd, uint64_t node, uint32_t flags,
                               const struct stat& status, fuse_open_out* answer);
  [[nodiscard]] int FinishCreate(const Request& request, Fd fd, uint64_t node, uint32_t flags,
                                 fuse_open_out* answer);
  [[nodiscard]] Fd OpenDirect(int fd, uint32_t flags);
  [[nodiscard]] bool ChangedBehindOurBack(uint64_t node, const struct stat& status) const;

  // --- metadata_attributes.cc
  Answer GetAttributes(const Request& request, std::span<std::byte> out);
  Answer SetAttributes(const Request& request, std::span<std::byte> out);
  Answer Statx(const Request& request, std::span<std::byte> out);
  Answer StatFs(const Request& request, std::span<std::byte> out);
  [[nodiscard]] Answer AttributesAnswer(const struct stat& status, std::span<std::byte> out) const;
  [[nodiscard]] int ChangeSize(const NodeRef& node, const fuse_setattr_in& in);
  [[nodiscard]] static int DropSetId(int fd, const struct stat& status);

  // --- metadata_content.cc
  Answer Fallocate(const Request& request, std::span<std::byte> out);
  Answer Lseek(const Request& request, std::span<std::byte> out);
  Answer CopyFileRange(const Request& request, std::span<std::byte> out);
  Answer Ioctl(const Request& request, std::span<std::byte> out);
  Answer SyncDirectory(const Request& request);

  // --- metadata_directory.cc
  void FillPlus(int directory, const char* name, uint64_t inode, uint8_t type,
                fuse_entry_out* entry);
  Answer ReadDirectory(const Request& request, std::span<std::byte> out, bool plus);

  // --- metadata_xattr.cc
  Answer SetXattr(const Request& request, std::span<std::byte> out);
  Answer GetXattr(const Request& request, std::span<std::byte> out);
  Answer ListXattr(const Request& request, std::span<std::byte> out);
  Answer RemoveXattr(const Request& request, std::span<std::byte> out);

  const FileSystemOptions options;
  const Fd root;  // O_RDONLY: open_by_handle_at takes no O_PATH
  const struct stat root_status;
  std::string root_path;
  bool has_handles = false;
  std::atomic<bool> has_direct{true};  // until the backing refuses O_DIRECT
  NodeTable nodes;
  HandleTable handles;
  Journal journal;
  DescriptorCache cache;
  SharedFd root_shared;
  // Of the position of an open directory: found by the handle.
  std::array<std::mutex, 64> directory_locks;
};

// --- Requests, defensively: whoever decoded them may have been sloppy.

// False: too short.
template <typename T>
[[nodiscard]] bool ReadFixed(const Request& request, T* value) {
  if (request.fixed.size() < sizeof(T)) return false;
  std::memcpy(value, request.fixed.data(), sizeof(T));
  return true;
}

// Takes a NUL-terminated text off `rest`. Null: there is none.
[[nodiscard]] const char* TakeText(std::span<const std::byte>* rest);

// 0, or EINVAL or ENAMETOOLONG: a name that is not one entry of its directory.
[[nodiscard]] int CheckName(const char* name);

// The name of an entry at the head of `rest`. Null and `error` set: none, or a bad one.
[[nodiscard]] const char* TakeName(std::span<const std::byte>* rest, int* error);

template <typename T>
[[nodiscard]] Answer WriteAnswer(std::span<std::byte> out, const T& value) {
  if (out.size() < sizeof(T)) return -EINVAL;
  std::memcpy(out.data(), &value, sizeof(T));
  return static_cast<Answer>(sizeof(T));
}

// The inode number under a name, 0 when there is none.
[[nodiscard]] uint64_t InodeAt(int directory, const char* name);

template <typename NoteBefore, typename Happened, typename Run>
Answer FileSystem::Impl::Once(const Request& request, std::span<std::byte> out, NoteBefore&& note,
                              Happened&& happened, Run&& run) {
  const uint64_t unique = request.unique & ~(uint64_t{1} << 63);
  bool done = false;
  std::optional<Journal::Slot> slot;
  if (request.resent) slot = journal.Begun(unique, request.opcode);
  if (slot.has_value()) {
    if (const auto answer = journal.Repeat(*slot, out)) return *answer;
    done = happened(journal.BeforeOf(*slot));
  } else {
    Before before;
    note(&before);
    slot = journal.Begin(unique, request.opcode, before);
    if (!slot.has_value()) return -ENOMEM;
  }
  const Answer answer = run(done);
  journal.Done(*slot, answer, out);
  return answer;
}

}  // namespace weir::volume

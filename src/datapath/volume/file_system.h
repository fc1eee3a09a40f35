// A complete pass-through file system over a backing directory, at the level of the FUSE protocol:
// everything but the data (READ, WRITE, FSYNC), which goes through the engine.
//
// What the mount must promise (see kInitFlags): default_permissions and allow_other, so that the
// kernel checks what a caller may do, by the backing's owners, modes and ACLs; this side runs with
// all capabilities and makes new files in the caller's name.
//
// Never outside the backing directory: names are single components, symbolic links are never
// followed, nodes are only what was found under the directory. Other file systems mounted below it
// are not entered: looking up their mount point says EXDEV ("Invalid cross-device link"), listing
// their parent works.
//
// Locks (flock, POSIX, OFD) are the kernel's own: every user comes through the mount, so FUSE's
// lock flags must not be negotiated. FLUSH, ACCESS, BMAP, POLL and the lock requests say ENOSYS,
// which the kernel remembers. copy_file_range shares blocks where the backing can (XFS, Btrfs)
// and else says EOPNOTSUPP: then the kernel copies through READ and WRITE, which are scheduled.
//
// Killed and replaced: all that a successor needs is in the state region and in the descriptor
// table, both of which it must share (MAP_SHARED, CLONE_FILES). Open() with a used region completes
// or rolls back what was half done, and closes descriptors into the backing directory that nobody
// owns. Operations that must not run twice are in a journal (journal.h).
#pragma once

#include <linux/fuse.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "datapath/volume/backing.h"
#include "datapath/volume/handle_table.h"
#include "datapath/volume/node_table.h"
#include "datapath/volume/request.h"

namespace weir::volume {

// The INIT flags that this side relies on (lower half: `flags`, upper half: `flags2`):
// - FUSE_ATOMIC_O_TRUNC: OPEN truncates, one request instead of two;
// - FUSE_DONT_MASK: the umask comes with the request and is applied here, unless the directory has
//   a default ACL, as on the backing (without the flag the umask wins over default ACLs);
// - FUSE_POSIX_ACL: the kernel checks ACLs, which are ordinary extended attributes here;
// - FUSE_HANDLE_KILLPRIV_V2: setuid and setgid bits are taken away here and by the data path
//   (DropSetId), only when the request says so; without it every write costs a GETXATTR;
// - FUSE_SETXATTR_EXT: says when an ACL takes the setgid bit away;
// - FUSE_DO_READDIRPLUS, FUSE_READDIRPLUS_AUTO, FUSE_PARALLEL_DIROPS, FUSE_CACHE_SYMLINKS: speed;
// - FUSE_HAS_IOCTL_DIR: attributes of directories (lsattr);
// - bit 36, FUSE_DIRECT_IO_ALLOW_MMAP: files opened with O_DIRECT may be mapped.
inline constexpr uint64_t kInitFlags =
    FUSE_ATOMIC_O_TRUNC | FUSE_DONT_MASK | FUSE_POSIX_ACL | FUSE_HANDLE_KILLPRIV_V2 |
    FUSE_SETXATTR_EXT | FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO | FUSE_PARALLEL_DIROPS |
    FUSE_CACHE_SYMLINKS | FUSE_HAS_IOCTL_DIR | uint64_t{1} << 36;

struct FileSystemOptions {
  // The directory, as a descriptor that stays the caller's (and open), or as a path.
  int backing_fd = -1;
  std::string backing_path;
  // StateBytes() bytes, page aligned, MAP_SHARED; zero, or as a killed daemon left them.
  std::span<std::byte> state;
  // Descriptors of others into the backing directory, which recovery must not close.
  std::vector<int> keep_fds;

  // For how long the kernel may believe what it was told. A change behind the mount's back (in the
  // backing directory itself) shows after this long at the latest; what goes through the mount
  // shows at once.
  int64_t attributes_valid_ns = 1'000'000'000;
  int64_t entries_valid_ns = 1'000'000'000;
  int64_t absences_valid_ns = 1'000'000'000;  // that a name does not exist

  // Files opened with O_DIRECT: writes of several threads run in parallel (FOPEN_DIRECT_IO,
  // FOPEN_PARALLEL_DIRECT_WRITES). The kernel then sends no FSYNC for their O_DSYNC writes.
  bool direct_io = true;

  uint32_t max_nodes = kMaxNodes;
  uint32_t max_open_files = kMaxOpenFiles;
  uint32_t max_cached_descriptors = 4096;  // at most an eighth of RLIMIT_NOFILE is used
};

class FileSystem final : public Backing {
 public:
  // Errors: kInvalidArgument (options, region too small), kIo (the directory cannot be opened),
  // kFailedPrecondition (the region is another directory's or another version's; missing rights).
  // Cost: one pass over the nodes and open files that a predecessor left.
  [[nodiscard]] static Result<std::unique_ptr<FileSystem>> Open(const FileSystemOptions& options);
  // Of the state region: virtual, touched as nodes and files come.
  [[nodiscard]] static size_t StateBytes();

  // The descriptors of open files and nodes stay open, for a successor.
  ~FileSystem() override;

  // Any opcode but READ, WRITE, FSYNC, INIT, DESTROY, INTERRUPT (ENOSYS). Blocks. Never crashes on
  // what a request says: unknown nodes give ESTALE, unknown handles EBADF.
  // Requires: the calling thread has sent the answer of its last request (journal.h).
  // Threads: any, concurrently; a thread's file-system ids, umask and current directory change.
  Answer Handle(const Request& request, std::span<std::byte> out) override;

  // No lock, no system call. Threads: any.
  [[nodiscard]] std::optional<DataFile> File(uint64_t fh) const override;

  // To be called before a WRITE with FUSE_WRITE_KILL_SUIDGID is carried out: takes setuid and
  // setgid bits off the file. Cost: a few loads; system calls only if the file had such bits.
  void DropSetId(uint64_t fh) const;

  // Where the node is, relative to the backing directory ("" is the directory itself; nothing when
  // it has no name or cannot be told). Cost: two or three system calls.
  [[nodiscard]] std::optional<std::string> PathOf(uint64_t node);

  // Closes every open file and forgets every node: the end, no successor.
  void CloseAll();

  [[nodiscard]] size_t nodes() const;
  [[nodiscard]] size_t open_files() const;

 private:
  struct Impl;
  explicit FileSystem(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::volume

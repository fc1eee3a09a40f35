// Which file a node id of the kernel means: one entry for each file or directory that the kernel
// knows, in the state region, so that the daemon's successor knows them too. Internal.
//
// A node is found again by its file handle (ext4, XFS, Btrfs, ...: survives renames, needs no
// descriptor), or by a pinned O_PATH descriptor where the file system has no handles or the file
// has no name left. A node id is an index and a generation, so that a stale one is recognised.
//
// Killed at any instruction: an entry counts only once its state word says live, which is written
// last; it stops counting with one store. Lookup counts are raised before the answer is sent, so a
// kill can only leave them too high. Everything else (the index by inode number, the free list) is
// private memory that Recover() builds anew.
//
// Threads: any; one lock, held for tens of nanoseconds. Hints are atomics.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace weir::volume {

inline constexpr uint32_t kMaxNodes = 1u << 22;  // ENOMEM beyond; the kernel forgets under pressure
inline constexpr size_t kMaxFileHandleBytes = 32;
inline constexpr uint64_t kRootNode = 1;

// Of name_to_handle_at(2). No bytes: the file system has none, or a longer one.
struct FileHandle {
  int32_t type = 0;
  uint32_t bytes = 0;
  std::array<std::byte, kMaxFileHandleBytes> data{};
  bool operator==(const FileHandle&) const = default;
};

struct NodeIdentity {
  uint64_t inode = 0;
  uint32_t type = 0;  // S_IFREG, S_IFDIR, ...
  FileHandle handle{};
};

// What the mount last knew of a file. Wrong or torn values cost a dropped cache, no more.
struct NodeHints {
  std::atomic<uint64_t> size{0};
  std::atomic<uint64_t> modified_ns{0};
  std::atomic<uint32_t> writers{0};  // open files that may write; counted anew after a kill
  std::atomic<uint32_t> set_id{0};   // setuid or setgid bits were seen
};

class NodeTable {
 public:
  [[nodiscard]] static size_t StateBytes();
  // Requires: `region` has StateBytes() bytes, zero or left by a predecessor; max_nodes <=
  // kMaxNodes.
  NodeTable(std::span<std::byte> region, uint32_t max_nodes);

  // Goes through what a predecessor left: half-made entries go, and `pinned(node, identity,
  // descriptor)` is called for each pinned one; false: it is not that file's. Requires: before
  // anything else, one thread.
  using PinnedNode = std::function<bool(uint64_t, const NodeIdentity&, int)>;
  void Recover(const PinnedNode& pinned);

  // The node of a file, made when it is new, with one lookup more. `pin` >= 0: the descriptor to
  // keep for a new node (its identity has no handle). Nothing: the table is full.
  struct Remembered {
    uint64_t node = 0;
    bool pinned = false;  // `pin` belongs to the table now
  };
  [[nodiscard]] std::optional<Remembered> Remember(const NodeIdentity& identity, int pin);
  // The node of a file that is known already; no lookup is counted.
  [[nodiscard]] std::optional<uint64_t> Known(const NodeIdentity& identity) const;
  [[nodiscard]] std::optional<NodeIdentity> Find(uint64_t node) const;

  // Records the descriptor that keeps a node reachable. False: it is gone or has one.
  [[nodiscard]] bool Pin(uint64_t node, int fd);
  // Takes lookups back. True: the node is gone now, and its descriptor, if any, is no longer
  // recorded: the caller closes it. Forgetting the root, or more than was looked up, is harmless.
  [[nodiscard]] bool Forget(uint64_t node, uint64_t lookups);

  // Calls `each` for every node, without the lock; what comes or goes meanwhile may be missed.
  void ForEach(const std::function<void(uint64_t)>& each) const;

  // Null: no such node. Stays valid; may be another node's after a Forget().
  [[nodiscard]] NodeHints* Hints(uint64_t node) const;
  [[nodiscard]] size_t size() const;

 private:
  struct Entry;
  struct Header;
  static constexpr uint32_t kNoEntry = 0;  // entry 0 is never used: the root is no entry

  [[nodiscard]] Entry* EntryOf(uint64_t node) const;
  [[nodiscard]] uint32_t FindIndex(const NodeIdentity& identity) const;
  void Link(uint32_t index);
  void Unlink(uint32_t index);

  const uint32_t max_nodes_;
  Header* const header_;
  Entry* const entries_;
  NodeHints* const root_hints_;
  mutable std::mutex mutex_;
  std::vector<uint32_t> buckets_;  // of inode numbers: the first entry
  std::vector<uint32_t> next_;     // the next entry of the same bucket, by entry; grows with use
  std::vector<uint32_t> free_;
  size_t size_ = 0;
};

}  // namespace weir::volume

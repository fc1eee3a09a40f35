// The open files and directories of the volume, in the state region: their descriptors stay open
// when the daemon dies, and its successor goes on with them. Internal.
//
// Killed at any instruction: an entry owns its descriptors from the moment its state word says open
// until it says closing; a descriptor that no entry owns is closed by the recovery of the file
// system. So an entry is filled before it is open, and is closing before its descriptors are
// closed.
//
// Threads: any. Find() takes no lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace weir::volume {

inline constexpr uint32_t kMaxOpenFiles = 200'000;  // files and directories; ENFILE beyond

struct OpenFile {
  int fd = -1;         // files: through the page cache; directories: to list
  int direct_fd = -1;  // with O_DIRECT
  uint64_t node = 0;
  uint32_t flags = 0;         // of open(2), as the caller gave them
  uint32_t answer_flags = 0;  // FOPEN_...
  bool directory = false;
};

class HandleTable {
 public:
  [[nodiscard]] static size_t StateBytes();
  // Requires: `region` has StateBytes() bytes, zero or left by a predecessor; max_open <=
  // kMaxOpenFiles.
  HandleTable(std::span<std::byte> region, uint32_t max_open);

  // Goes through what a predecessor left; `open(file)` is called for each open file; false: its
  // descriptors are not what they should be, it is closed. Requires: before anything else, one
  // thread.
  void Recover(const std::function<bool(const OpenFile&)>& open);

  // A handle that owns the descriptors. Nothing: all are in use. `unique`: the request it was
  // opened for.
  [[nodiscard]] std::optional<uint64_t> Open(const OpenFile& file, uint64_t unique);
  [[nodiscard]] std::optional<OpenFile> Find(uint64_t handle) const;
  // The handle that a dead predecessor opened for this request, if it got that far.
  [[nodiscard]] std::optional<uint64_t> OpenedFor(uint64_t unique) const;
  // The handle is no more; the caller closes the descriptors, then calls Reuse().
  [[nodiscard]] std::optional<OpenFile> Close(uint64_t handle);
  void Reuse(uint64_t handle);
  // Calls `each` for every open handle, without the lock; later ones may be missed.
  void ForEach(const std::function<void(uint64_t)>& each) const;
  [[nodiscard]] size_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  struct Entry;
  struct Header;

  [[nodiscard]] Entry* EntryOf(uint64_t handle) const;
  static OpenFile Contents(const Entry& entry);

  const uint32_t max_open_;
  Header* const header_;
  Entry* const entries_;
  std::mutex mutex_;
  std::vector<uint32_t> free_;
  std::atomic<size_t> size_{0};
  std::unordered_map<uint64_t, uint64_t> opened_for_;  // unchanged after Recover()
};

}  // namespace weir::volume

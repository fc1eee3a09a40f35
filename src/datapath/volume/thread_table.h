// Thread -> group, in shared memory: who knows what a thread works on (a proxy) writes, a volume
// reads at the cost of one lookup, and it goes before the rules.
//
// One writer process, any number of readers. Readers never block, never write and survive any
// content; a writer that dies leaves a table that is whole. docs/control.md has the layout.
// Threads: a Writer and a Reader are each used by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/group_token.h"
#include "base/result.h"

namespace weir::volume {

inline constexpr uint64_t kThreadTableMagic = 0x31'74'64'68'74'72'65'77;  // "werthdt1"
inline constexpr uint32_t kThreadTableVersion = 1;
inline constexpr uint32_t kThreadTableSlots = 1u << 16;
// Slots after the first that are tried; a thread that finds none free is not in the table.
inline constexpr uint32_t kThreadTableProbes = 32;

// The memory, byte for byte.
struct ThreadTableSlot {
  static constexpr uint64_t kFree = 0;
  static constexpr uint64_t kRemoved = UINT64_MAX;
  // TID in the upper 32 bits; in the lower ones the lower 32 bits of the thread's start time (field
  // 22 of /proc/TID/stat), so that a reused TID is not mistaken; 0: any.
  std::atomic<uint64_t> thread;
  std::atomic<uint64_t> token;  // GroupToken; 0: none
  // ThreadTableCheck of both: that they belong together. A slot may change its thread twice while
  // it is read, so that seeing the same thread before and after the token would prove nothing.
  std::atomic<uint64_t> check;
  uint64_t reserved;
};
[[nodiscard]] constexpr uint64_t ThreadTableCheck(uint64_t thread, uint64_t token) {
  return thread * 0x9E3779B97F4A7C15u ^ token;
}
struct ThreadTableLayout {
  std::atomic<uint64_t> magic;  // written last
  uint32_t version;
  uint32_t slots;
  uint64_t reserved[6];
  ThreadTableSlot slot[kThreadTableSlots];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(ThreadTableLayout) == 64 + 32 * size_t{kThreadTableSlots});

class ThreadTableWriter {
 public:
  // Opens or creates the file (mode 0600) and takes its lock. What is in it stays. Errors: kIo;
  // kFailedPrecondition (another writer has it; it is not a thread table; it belongs to somebody
  // else).
  [[nodiscard]] static Result<ThreadTableWriter> Open(const std::string& path);
  ~ThreadTableWriter();
  ThreadTableWriter(ThreadTableWriter&& other) noexcept;
  ThreadTableWriter& operator=(ThreadTableWriter&&) = delete;

  // Everything that `tid` submits from now on belongs to the group. `start_time` as in
  // ThreadTableSlot, or 0. Errors: kInvalidArgument (tid, token); kResourceExhausted (no slot
  // near). Cost: a few stores, no system call.
  [[nodiscard]] Result<void> Set(uint32_t tid, uint32_t start_time, uint64_t token);
  // The rules apply again.
  void Clear(uint32_t tid);
  void ClearAll();

 private:
  ThreadTableWriter(int fd, ThreadTableLayout* table) : fd_(fd), table_(table) {}
  [[nodiscard]] ThreadTableSlot* Find(uint32_t tid) const;
  int fd_;
  ThreadTableLayout* table_;
};

class ThreadTableReader {
 public:
  // Creates the file (mode 0600, empty) if there is none, so that either side may start first.
  // Errors: kIo; kFailedPrecondition (not a thread table; it belongs to somebody else).
  [[nodiscard]] static Result<ThreadTableReader> Open(const std::string& path);
  ~ThreadTableReader();
  ThreadTableReader(ThreadTableReader&& other) noexcept;
  ThreadTableReader& operator=(ThreadTableReader&&) = delete;

  // The token of the thread, or 0. `start_time` 0: not checked. Cost: usually one cache line.
  [[nodiscard]] uint64_t Find(uint32_t tid, uint32_t start_time) const;

 private:
  explicit ThreadTableReader(const ThreadTableLayout* table) : table_(table) {}
  const ThreadTableLayout* table_;
};

}  // namespace weir::volume

// Which operations that must not run twice were begun and how they ended, in the state region.
// Internal.
//
// A kernel that has its unanswered requests delivered again does not know which of them the dead
// daemon carried out: a second RENAME or exclusive CREATE of the same request would fail although
// the first succeeded. So each such operation takes a slot, by the request's `unique`, with what
// existed before under the names it changes; then runs; then stores its answer. A request that is
// delivered again and finds its slot done repeats the answer. One that finds it begun compares what
// exists with what existed before: the kernel holds the directories locked until the answer, so
// a difference is this operation's.
//
// A slot is needed until the answer was sent. **A thread sends the answer of one request before it
// calls FileSystem::Handle again**; then its slot is free. Slots that a dead predecessor left are
// kept until their request comes again, or (it had been answered) all others are in use.
//
// Threads: any; each slot is used by one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "datapath/volume/request.h"

namespace weir::volume {

inline constexpr uint32_t kJournalSlots = 4096;  // also the most threads that may call
inline constexpr size_t kJournalAnswerBytes = 256;

// What existed before; what the numbers mean is the operation's choice (inode numbers, sizes).
struct Before {
  uint64_t first = 0;
  uint64_t second = 0;
};

class Journal {
 public:
  using Slot = uint32_t;

  [[nodiscard]] static size_t StateBytes();
  // Requires: `region` has StateBytes() bytes, zero or left by a predecessor.
  explicit Journal(std::span<std::byte> region);

  // Keeps what a predecessor left. Requires: before anything else, one thread.
  void Recover();

  // The slot of a request that was begun by a predecessor; it is this thread's now.
  [[nodiscard]] std::optional<Slot> Begun(uint64_t unique, uint32_t opcode);
  // A new slot. Nothing: more than kJournalSlots threads.
  [[nodiscard]] std::optional<Slot> Begin(uint64_t unique, uint32_t opcode, const Before& before);
  [[nodiscard]] Before BeforeOf(Slot slot) const;

  // Stores the answer. Requires: answer < 0, or `payload` has that many bytes, at most
  // kJournalAnswerBytes.
  void Done(Slot slot, Answer answer, std::span<const std::byte> payload);
  // The stored answer, copied to `out`. Nothing: not done.
  [[nodiscard]] std::optional<Answer> Repeat(Slot slot, std::span<std::byte> out) const;

 private:
  struct Record;

  // Takes over `slot` (kJournalSlots: none) as the one this thread works on; frees the one before.
  void Own(Slot slot);

  const uint64_t instance_;
  Record* const records_;
  std::mutex mutex_;
  std::vector<Slot> free_;
  std::deque<Slot> left_;  // by a predecessor, oldest request first
};

}  // namespace weir::volume

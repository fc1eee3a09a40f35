#include "datapath/volume/journal.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace weir::volume {

namespace {

enum Phase : uint32_t { kFree = 0, kBegun = 1, kDone = 2 };

std::atomic<uint64_t> next_instance{1};

// The slot of the thread's last operation, and whose it is.
struct LastSlot {
  uint64_t instance = 0;
  Journal::Slot slot = 0;
};
thread_local LastSlot last_slot;

}  // namespace

struct alignas(64) Journal::Record {
  std::atomic<uint32_t> phase;
  uint32_t opcode;
  std::atomic<uint64_t> unique;
  Before before;
  Answer answer;
  std::array<std::byte, kJournalAnswerBytes> payload;
};

size_t Journal::StateBytes() { return sizeof(Record) * kJournalSlots; }

Journal::Journal(std::span<std::byte> region)
    : instance_(next_instance.fetch_add(1)), records_(reinterpret_cast<Record*>(region.data())) {
  WEIR_CHECK(region.size() >= StateBytes());
}

void Journal::Recover() {
  for (Slot slot = kJournalSlots; slot-- > 0;) {
    if (records_[slot].phase.load(std::memory_order_acquire) == kFree) {
      free_.push_back(slot);
    } else {
      left_.push_back(slot);
    }
  }
  std::sort(left_.begin(), left_.end(), [this](Slot a, Slot b) {
    return records_[a].unique.load(std::memory_order_relaxed) <
           records_[b].unique.load(std::memory_order_relaxed);
  });
}

void Journal::Own(Slot slot) {
  if (last_slot.instance == instance_) {
    records_[last_slot.slot].phase.store(kFree, std::memory_order_release);
    free_.push_back(last_slot.slot);
  }
  last_slot = slot == kJournalSlots ? LastSlot{} : LastSlot{instance_, slot};
}

std::optional<Journal::Slot> Journal::Begun(uint64_t unique, uint32_t opcode) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(left_.begin(), left_.end(), [&](Slot slot) {
    const Record& record = records_[slot];
    return record.unique.load(std::memory_order_relaxed) == unique && record.opcode == opcode;
  });
  if (found == left_.end()) return std::nullopt;
  const Slot slot = *found;
  left_.erase(found);
  Own(slot);
  return slot;
}

std::optional<Journal::Slot> Journal::Begin(uint64_t unique, uint32_t opcode,
                                            const Before& before) {
  Slot slot = kJournalSlots;
  {
    const std::lock_guard lock(mutex_);
    Own(kJournalSlots);
    if (!free_.empty()) {
      slot = free_.back();
      free_.pop_back();
    } else if (!left_.empty()) {
      slot = left_.front();
      left_.pop_front();
    } else {
      return std::nullopt;
    }
    last_slot = LastSlot{instance_, slot};
  }
  Record& record = records_[slot];
  record.phase.store(kFree, std::memory_order_release);
  record.opcode = opcode;
  record.unique.store(unique, std::memory_order_relaxed);
  record.before = before;
  record.phase.store(kBegun, std::memory_order_release);
  return slot;
}

Before Journal::BeforeOf(Slot slot) const { return records_[slot].before; }

void Journal::Done(Slot slot, Answer answer, std::span<const std::byte> payload) {
  Record& record = records_[slot];
  record.answer = answer;
  if (answer > 0) {
    const auto bytes = static_cast<size_t>(answer);
    WEIR_CHECK(bytes <= payload.size() && bytes <= kJournalAnswerBytes);
    std::memcpy(record.payload.data(), payload.data(), bytes);
  }
  record.phase.store(kDone, std::memory_order_release);
}

std::optional<Answer> Journal::Repeat(Slot slot, std::span<std::byte> out) const {
  const Record& record = records_[slot];
  if (record.phase.load(std::memory_order_acquire) != kDone) return std::nullopt;
  if (record.answer > 0) {
    const auto bytes = static_cast<size_t>(record.answer);
    if (bytes > out.size() || bytes > kJournalAnswerBytes) return -EIO;
    std::memcpy(out.data(), record.payload.data(), bytes);
  }
  return record.answer;
}

}  // namespace weir::volume

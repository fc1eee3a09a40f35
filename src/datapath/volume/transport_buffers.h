// The memory that data passes through: one slot for each request that may be in our hands, virtual
// until touched, given back beyond a bound. Internal. Threads: one.
//
// A slot's payload starts on a page, with a page in front of it for headers: reading a message of
// /dev/fuse to 80 bytes before the payload makes the data of a WRITE land aligned, so that it can
// go to an O_DIRECT file as it is. Slots freed last are used first, so few are ever touched under
// a steady load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"

namespace weir::volume {

inline constexpr size_t kSlotHeadBytes = 4096;

struct Slot {
  std::byte* data = nullptr;  // the payload, kMaxTransferBytes
  uint32_t index = 0;
  uint32_t touched = 0;    // bytes from `data` on that may be resident
  uint64_t unique = 0;     // of the request that it holds
  uint64_t commit_id = 0;  // FUSE over io_uring: names the request to the kernel
  Slot* next = nullptr;    // while free
};

struct BufferLimits {
  uint32_t slots = 8192;
  int64_t keep_bytes = int64_t{64} << 20;  // free slots' memory beyond this goes back
};

class SlotPool {
 public:
  // Reserves addresses only. Errors: kResourceExhausted (address space, overcommit limits).
  [[nodiscard]] static Result<std::unique_ptr<SlotPool>> Create(const BufferLimits& limits);
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  [[nodiscard]] Slot* Take();  // nullptr: all are in use
  // Of a taken slot: `bytes` of its payload are about to be written.
  void Touch(Slot* slot, uint32_t bytes);
  void Free(Slot* slot);

  // A taken slot whose payload nobody needs for the time being: its memory counts as free. Only
  // Unpark ends that.
  void Park(Slot* slot) { idle_ += slot->touched; }
  void Unpark(Slot* slot) { idle_ -= slot->touched; }
  [[nodiscard]] bool KeepsTooMuch() const { return idle_ > limits_.keep_bytes; }
  // Of a parked slot: gives its memory back.
  void GiveBack(Slot* slot);

  [[nodiscard]] Slot* At(uint32_t index) { return &slots_[index]; }
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(slots_.size()); }
  [[nodiscard]] uint32_t used() const { return used_; }
  // Of payloads, at most: in memory, and of it in use.
  [[nodiscard]] int64_t resident_bytes() const { return resident_; }
  [[nodiscard]] int64_t busy_bytes() const { return resident_ - idle_; }

 private:
  explicit SlotPool(const BufferLimits& limits) : limits_(limits) {}

  const BufferLimits limits_;
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
  std::vector<Slot> slots_;
  Slot* free_ = nullptr;
  uint32_t used_ = 0;
  int64_t resident_ = 0;
  int64_t idle_ = 0;  // of it, in free and parked slots
};

}  // namespace weir::volume

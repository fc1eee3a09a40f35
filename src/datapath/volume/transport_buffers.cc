#include "datapath/volume/transport_buffers.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "datapath/volume/protocol.h"

namespace weir::volume {

namespace {

constexpr size_t kStride = kSlotHeadBytes + kMaxTransferBytes;
constexpr uint32_t kPage = 4096;

}  // namespace

Result<std::unique_ptr<SlotPool>> SlotPool::Create(const BufferLimits& limits) {
  std::unique_ptr<SlotPool> pool(new SlotPool(limits));
  pool->bytes_ = kStride * limits.slots;
  void* memory = mmap(nullptr, pool->bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("cannot reserve addresses for {} requests of 1 MiB: {}; see ulimit -v "
                            "and the sysctl vm.overcommit_memory",
                            limits.slots, std::strerror(errno)),
                errno);
  }
  pool->memory_ = static_cast<std::byte*>(memory);
  // A huge page would make a request of 4 KiB cost 2 MiB.
  madvise(memory, pool->bytes_, MADV_NOHUGEPAGE);
  pool->slots_.resize(limits.slots);
  for (uint32_t i = limits.slots; i-- > 0;) {
    Slot& slot = pool->slots_[i];
    slot.data = pool->memory_ + i * kStride + kSlotHeadBytes;
    slot.index = i;
    slot.next = pool->free_;
    pool->free_ = &slot;
  }
  return pool;
}

SlotPool::~SlotPool() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

Slot* SlotPool::Take() {
  Slot* slot = free_;
  if (slot == nullptr) return nullptr;
  free_ = slot->next;
  Unpark(slot);
  ++used_;
  return slot;
}

void SlotPool::Touch(Slot* slot, uint32_t bytes) {
  const uint32_t pages = (bytes + kPage - 1) / kPage * kPage;
  if (pages <= slot->touched) return;
  resident_ += pages - slot->touched;
  slot->touched = pages;
}

void SlotPool::GiveBack(Slot* slot) {
  madvise(slot->data, slot->touched, MADV_DONTNEED);
  resident_ -= slot->touched;
  idle_ -= slot->touched;
  slot->touched = 0;
}

void SlotPool::Free(Slot* slot) {
  Park(slot);
  if (KeepsTooMuch()) GiveBack(slot);
  slot->unique = 0;
  slot->next = free_;
  free_ = slot;
  --used_;
}

}  // namespace weir::volume

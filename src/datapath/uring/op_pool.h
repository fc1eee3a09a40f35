// A fixed number of Ops: any thread takes one, the owner gives them back. Lock-free. Internal.
//
// Freed ops are a stack of indices (Treiber) whose head carries a counter against ABA. The owner
// keeps the ones it frees to itself first, newest on top, since a callback mostly submits again at
// once and then meets warm memory; what it does not need goes to the shared stack by the chain.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>

#include "datapath/uring/op.h"

namespace weir::uring {

class OpPool {
 public:
  // The owner's private stack is cut when it grows beyond this: max_outstanding is exact to it.
  static constexpr uint32_t kPrivate = 64;

  OpPool() = default;
  OpPool(const OpPool&) = delete;
  OpPool& operator=(const OpPool&) = delete;
  ~OpPool() {
    if (ops_ != nullptr) munmap(static_cast<void*>(ops_), Bytes());
  }

  // False: no memory. Memory is touched when an op is first used.
  [[nodiscard]] bool Init(uint32_t capacity) {
    capacity_ = capacity;
    void* memory = mmap(nullptr, Bytes(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    ops_ = static_cast<Op*>(memory);
    return true;
  }

  // nullptr: all are in use. Threads: any but the owner.
  [[nodiscard]] Op* Take() {
    uint64_t head = shared_.load(std::memory_order_acquire);
    while (IndexOf(head) != kNone) {
      Op* op = &ops_[IndexOf(head)];
      const uint32_t next = op->free_next.load(std::memory_order_relaxed);
      if (shared_.compare_exchange_weak(head, Head(next, head), std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        return op;
      }
    }
    uint32_t fresh = fresh_.load(std::memory_order_relaxed);
    while (fresh < capacity_) {
      if (fresh_.compare_exchange_weak(fresh, fresh + 1, std::memory_order_relaxed)) {
        Op* op = new (static_cast<void*>(&ops_[fresh])) Op;
        op->index = fresh;
        return op;
      }
    }
    return nullptr;
  }

  // Gives back an op that was never pushed. Threads: any.
  void GiveBack(Op* op) { PushChain(op, op); }

  // --- The owner's.

  [[nodiscard]] Op* TakeOnOwner() {
    if (private_ == kNone) return Take();
    Op* op = &ops_[private_];
    private_ = op->free_next.load(std::memory_order_relaxed);
    --private_count_;
    return op;
  }
  void Free(Op* op) {
    ++op->generation;
    op->free_next.store(private_, std::memory_order_relaxed);
    private_ = op->index;
    if (private_count_ == 0) private_oldest_ = op->index;
    if (++private_count_ > kPrivate) Flush();
  }
  // Lets the submitting threads have all free ops. True if there were any.
  bool Flush() {
    if (private_ == kNone) return false;
    PushChain(&ops_[private_], &ops_[private_oldest_]);
    private_ = kNone;
    private_count_ = 0;
    return true;
  }
  // The op if `id` is one in use (or being filled), else nullptr.
  [[nodiscard]] Op* Find(OpId id) {
    if (id.index >= capacity_ || id.index >= fresh_.load(std::memory_order_acquire)) return nullptr;
    Op* op = &ops_[id.index];
    return op->generation == id.generation ? op : nullptr;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static uint32_t IndexOf(uint64_t head) { return static_cast<uint32_t>(head); }
  static uint64_t Head(uint32_t index, uint64_t previous) {
    return (((previous >> 32) + 1) << 32) | index;
  }
  [[nodiscard]] size_t Bytes() const { return sizeof(Op) * capacity_; }
  void PushChain(Op* newest, Op* oldest) {
    uint64_t head = shared_.load(std::memory_order_relaxed);
    do {
      oldest->free_next.store(IndexOf(head), std::memory_order_relaxed);
    } while (!shared_.compare_exchange_weak(head, Head(newest->index, head),
                                            std::memory_order_acq_rel, std::memory_order_relaxed));
  }

  Op* ops_ = nullptr;
  uint32_t capacity_ = 0;
  uint32_t private_ = kNone;
  uint32_t private_oldest_ = kNone;
  uint32_t private_count_ = 0;
  alignas(64) std::atomic<uint64_t> shared_{kNone};
  std::atomic<uint32_t> fresh_{0};
};

}  // namespace weir::uring

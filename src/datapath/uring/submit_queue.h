// Many threads push, the owner takes all at once. Lock-free; one atomic operation a push. Internal.
//
// The head also says whether the owner sleeps or is gone, so that a push learns with the same
// compare-and-swap whether it must wake the owner, and no wake-up can be lost.
#pragma once

#include <atomic>
#include <cstdint>

#include "datapath/uring/op.h"

namespace weir::uring {

class SubmitQueue {
 public:
  enum class Pushed { kDone, kWakeOwner, kClosed };

  // Threads: any. kClosed: the node is still the caller's.
  Pushed Push(QueueNode* node) {
    QueueNode* head = head_.load(std::memory_order_relaxed);
    do {
      if (head == Closed()) return Pushed::kClosed;
      node->next = head == Sleeping() ? nullptr : head;
    } while (!head_.compare_exchange_weak(head, node, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
    return head == Sleeping() ? Pushed::kWakeOwner : Pushed::kDone;
  }

  // The owner's: everything pushed so far, oldest first. Also ends the sleep.
  QueueNode* TakeAll() {
    if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    QueueNode* newest = head_.exchange(nullptr, std::memory_order_acq_rel);
    const bool slept = asleep_;
    asleep_ = false;
    if (newest == Sleeping()) return nullptr;
    if (slept) ++wakers_;
    QueueNode* oldest = nullptr;
    while (newest != nullptr) {
      QueueNode* next = newest->next;
      newest->next = oldest;
      oldest = newest;
      newest = next;
    }
    return oldest;
  }

  // The owner's: true if nothing was pushed; the next push then says kWakeOwner.
  bool PrepareSleep() {
    asleep_ = ReplaceEmptyBy(Sleeping());
    return asleep_;
  }
  // The owner's: how many pushes were told kWakeOwner, as far as taken.
  [[nodiscard]] uint64_t wakers() const { return wakers_; }
  // The owner's: true if nothing was pushed; every later push then says kClosed.
  bool Close() { return ReplaceEmptyBy(Closed()); }

 private:
  static QueueNode* Sleeping() { return &sleeping_; }
  static QueueNode* Closed() { return &closed_; }
  bool ReplaceEmptyBy(QueueNode* mark) {
    QueueNode* expected = nullptr;
    return head_.compare_exchange_strong(expected, mark, std::memory_order_acq_rel,
                                         std::memory_order_relaxed);
  }

  // Marks for head_; never in the list.
  inline static constinit QueueNode sleeping_{QueueNode::Kind::kControl};
  inline static constinit QueueNode closed_{QueueNode::Kind::kControl};

  alignas(64) std::atomic<QueueNode*> head_{nullptr};
  alignas(64) bool asleep_ = false;
  uint64_t wakers_ = 0;
};

}  // namespace weir::uring

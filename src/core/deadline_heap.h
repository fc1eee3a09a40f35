// The deadlines of queued requests: an intrusive pairing heap, so that a deadline needs no memory.
// Source: Fredman, Sedgewick, Sleator, Tarjan: The pairing heap (Algorithmica, 1986).
#pragma once

#include "core/request.h"

namespace weir::core {

// Push O(1); Remove and PopTop O(log n) amortised; no recursion, no allocation.
class DeadlineHeap {
 public:
  [[nodiscard]] Request* top() const { return root_; }
  void Push(Request* request);
  // No effect if the request is not in the heap.
  void Remove(Request* request);

 private:
  static Request* Meld(Request* a, Request* b);
  static Request* MergeSiblings(Request* first);
  Request* root_ = nullptr;
};

}  // namespace weir::core

#include "core/deadline_heap.h"

namespace weir::core {

Request* DeadlineHeap::Meld(Request* a, Request* b) {
  if (a == nullptr) return b;
  if (b == nullptr) return a;
  if (b->deadline < a->deadline) {
    Request* t = a;
    a = b;
    b = t;
  }
  b->heap_next_ = a->heap_child_;
  if (a->heap_child_ != nullptr) a->heap_child_->heap_prev_ = b;
  a->heap_child_ = b;
  b->heap_prev_ = a;  // of a first child: its parent
  return a;
}

// Two passes: pairs from left to right, then all into one from right to left.
Request* DeadlineHeap::MergeSiblings(Request* first) {
  Request* pairs = nullptr;
  while (first != nullptr) {
    Request* a = first;
    Request* b = a->heap_next_;
    first = b != nullptr ? b->heap_next_ : nullptr;
    a->heap_next_ = a->heap_prev_ = nullptr;
    if (b != nullptr) b->heap_next_ = b->heap_prev_ = nullptr;
    Request* melded = Meld(a, b);
    melded->heap_next_ = pairs;
    pairs = melded;
  }
  Request* root = nullptr;
  while (pairs != nullptr) {
    Request* next = pairs->heap_next_;
    pairs->heap_next_ = nullptr;
    root = Meld(root, pairs);
    pairs = next;
  }
  return root;
}

void DeadlineHeap::Push(Request* request) {
  request->heap_child_ = request->heap_next_ = request->heap_prev_ = nullptr;
  request->in_deadlines_ = true;
  root_ = Meld(root_, request);
}

void DeadlineHeap::Remove(Request* request) {
  if (!request->in_deadlines_) return;
  request->in_deadlines_ = false;
  Request* below = MergeSiblings(request->heap_child_);
  if (request == root_) {
    root_ = below;
    return;
  }
  if (request->heap_prev_->heap_child_ == request) {
    request->heap_prev_->heap_child_ = request->heap_next_;
  } else {
    request->heap_prev_->heap_next_ = request->heap_next_;
  }
  if (request->heap_next_ != nullptr) request->heap_next_->heap_prev_ = request->heap_prev_;
  root_ = Meld(root_, below);
}

}  // namespace weir::core

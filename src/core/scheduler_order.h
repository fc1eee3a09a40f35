// The inline steps of the hot path: keys of a node and its place among its siblings. Private.
#pragma once

#include <algorithm>

#include "core/scheduler_impl.h"

namespace weir::core {

inline void Scheduler::Impl::ComputeKeys(Node* node, int d) {
  int64_t due_time = kNoKey;
  int64_t deadline = kNoKey;
  for (uint8_t mask = node->min_mask; mask != 0; mask &= static_cast<uint8_t>(mask - 1)) {
    const Reservation& r = node->ReservationOf(__builtin_ctz(mask));
    due_time = std::min(due_time, r.tag);
    deadline = std::min(deadline, r.tag + r.quantum);
  }
  if (!node->leaf) {
    const ChildHeaps& heaps = *node->heaps;
    if (!heaps.due[d].empty()) {
      due_time = kDueNow;
      deadline = std::min(deadline, node->clock_offset + heaps.due[d].top_key());
    } else if (!heaps.waiting[d].empty()) {
      due_time = std::min(due_time, node->clock_offset + heaps.waiting[d].top_key());
    }
  }
  node->due_time[d] = due_time;
  node->deadline[d] = deadline;
}

inline int64_t Scheduler::Impl::NextDueBelow(const Node& node, int d) {
  const IndexedHeap<Node>& waiting = node.heaps->waiting[d];
  return waiting.empty() ? kNoKey : node.clock_offset + waiting.top_key();
}

inline void Scheduler::Impl::PlaceReservation(Node* node, int d, int64_t clock) {
  ComputeKeys(node, d);
  ChildHeaps& heaps = *node->parent->heaps;
  int64_t wake = kNoKey;
  bool due = false;
  if ((node->available >> d & 1) != 0) {
    due = node->due_time[d] <= clock;
    wake = !due ? node->due_time[d] : node->leaf ? kNoKey : NextDueBelow(*node, d);
  }
  const uint8_t was = node->place[d];
  node->place[d] = static_cast<uint8_t>((due ? kInDue : 0) | (wake < kNoKey ? kInWaiting : 0));
  if (due) {
    if ((was & kInDue) != 0) {
      heaps.due[d].Update(node, node->deadline[d], kDueSlot + d);
    } else {
      heaps.due[d].Push(node, node->deadline[d], kDueSlot + d);
    }
  } else if ((was & kInDue) != 0) {
    heaps.due[d].Erase(node, kDueSlot + d);
  }
  if (wake < kNoKey) {
    if ((was & kInWaiting) != 0) {
      heaps.waiting[d].Update(node, wake, kWaitingSlot + d);
    } else {
      heaps.waiting[d].Push(node, wake, kWaitingSlot + d);
    }
  } else if ((was & kInWaiting) != 0) {
    heaps.waiting[d].Erase(node, kWaitingSlot + d);
  }
}

inline bool Scheduler::Impl::StillDue(Node* node, int d, int64_t clock) {
  if (node->leaf) return node->due_time[d] <= clock;
  for (uint8_t mask = node->min_mask; mask != 0; mask &= static_cast<uint8_t>(mask - 1)) {
    if (node->ReservationOf(__builtin_ctz(mask)).tag <= clock) return true;
  }
  clock -= node->clock_offset;
  IndexedHeap<Node>& due = node->heaps->due[d];
  while (!due.empty()) {
    if (StillDue(due.top(), d, clock)) return true;
    PlaceReservation(due.top(), d, clock);
  }
  return false;
}

inline uint8_t Scheduler::Impl::QueuedBelow(const Node& parent) {
  const ChildHeaps& heaps = *parent.heaps;
  uint8_t queued = 0;
  for (int d = 0; d < 2; ++d) {
    if (!heaps.weighted[d].empty() || !heaps.leftover[d].empty()) {
      queued |= static_cast<uint8_t>(1u << d);
    }
  }
  return queued;
}

inline void Scheduler::Impl::Reorder(Node* node, uint8_t available, int64_t parent_clock) {
  const uint8_t before = node->available;
  node->available = available;
  for (int d = 0; d < 2; ++d) {
    const bool was = (before >> d & 1) != 0;
    const bool is = (available >> d & 1) != 0;
    if (!was && !is && node->place[d] == 0) continue;
    IndexedHeap<Node>& heap = OrderHeap(node, d);
    if (was && !is) {
      heap.Erase(node, kWeightSlot + d);
    } else if (!was && is) {
      heap.Push(node, node->start, kWeightSlot + d);
    } else if (is) {
      heap.Update(node, node->start, kWeightSlot + d);
    }
    PlaceReservation(node, d, parent_clock);
  }
  node->parent->queued = QueuedBelow(*node->parent);
}

inline int64_t Scheduler::Impl::ClosedUntil(const Node& node, int d, int64_t now,
                                            uint8_t* by) const {
  int64_t until = now;
  for (unsigned mask = node.bucket_mask & kBucketsOf[d]; mask != 0; mask &= mask - 1) {
    const int i = __builtin_ctz(mask);
    const int64_t open_at = node.BucketAt(i).OpenAt();
    if (open_at > until) {
      until = open_at;
      *by = static_cast<uint8_t>(i);
    }
  }
  return until;
}

// Brings `blocked` and the node's timer up to date with its buckets.
inline void Scheduler::Impl::Reblock(Node* node, int64_t now) {
  if (node->bucket_mask == 0 && node->blocked == 0) return;
  int64_t opens = kFarFuture * 2;
  uint8_t blocked = 0;
  NodeDetails& details = *node->details;
  for (int d = 0; d < 2; ++d) {
    const uint8_t bit = static_cast<uint8_t>(1u << d);
    uint8_t by = node->blocked_by[d];
    const int64_t until = ClosedUntil(*node, d, now, &by);
    if ((node->blocked & bit) != 0 && (until <= now || by != node->blocked_by[d])) {
      if ((node->queued & bit) != 0) {
        details.blocked_ns[node->blocked_by[d]] += now - details.blocked_since[d];
      }
      details.blocked_since[d] = now;
    }
    if (until > now) {
      if ((node->blocked & bit) == 0) details.blocked_since[d] = now;
      node->blocked_by[d] = by;
      blocked |= bit;
      opens = std::min(opens, until);
    }
  }
  node->blocked = blocked;
  if (blocked != 0) {
    if (node->timer_set) {
      timers.Update(node, opens, kTimerSlot);
    } else {
      timers.Push(node, opens, kTimerSlot);
      node->timer_set = true;
    }
  } else if (node->timer_set) {
    timers.Erase(node, kTimerSlot);
    node->timer_set = false;
  }
}

inline int64_t Scheduler::Impl::Settle(Node* parent, int64_t clock, uint8_t mask, bool released) {
  ChildHeaps& heaps = *parent->heaps;
  for (int d = 0; d < 2; ++d) {
    if (!heaps.waiting[d].empty() && heaps.waiting[d].top_key() <= clock) {
      WakeDue(parent, d, clock, mask);
    }
  }
  // A parent without its own reservation takes part in the clock above it: if it held its children
  // back by a smaller bound, it would starve whenever the level above is over-committed.
  if (parent->parent != nullptr && parent->min_mask == 0 && !released) return clock;
  return HoldClock(parent, clock, mask);
}

}  // namespace weir::core

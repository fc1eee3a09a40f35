// Recomputes the whole structure by brute force. For tests.
#include <algorithm>

#include "core/scheduler_order.h"

namespace weir::core {

namespace {

void CheckHeap(const IndexedHeap<Node>& heap, int slot) {
  for (uint32_t i = 0; i < heap.size(); ++i) {
    WEIR_CHECK(heap.node_at(i)->heap_pos[slot] == i);
    if (i != 0) WEIR_CHECK(WrapDiff(heap.key_at((i - 1) / 4), heap.key_at(i)) <= 0);
  }
}

void CheckFifo(const RequestFifo& fifo) {
  uint64_t size = 0;
  int64_t cost = 0;
  TimePoint last{};
  for (const Request* r = fifo.head; r != nullptr; r = RequestFifo::Next(r)) {
    ++size;
    cost += r->cost;
    WEIR_CHECK(size == 1 || r->enqueued_at >= last);
    last = r->enqueued_at;
  }
  WEIR_CHECK(size == fifo.size && cost == fifo.cost);
}

}  // namespace

void Scheduler::Impl::CheckNode(const Node& node, int64_t now) const {
  WEIR_CHECK(node.available == (node.queued & static_cast<uint8_t>(~node.blocked)));
  for (int d = 0; d < 2; ++d) {
    uint8_t by = 0;
    const bool closed = ClosedUntil(node, d, now, &by) > now;
    WEIR_CHECK(closed == ((node.blocked >> d & 1) != 0));
    WEIR_CHECK(!closed || node.timer_set);
    if ((node.available >> d & 1) == 0) WEIR_CHECK(node.place[d] == 0);
  }
  if (node.leaf) {
    for (int d = 0; d < 2; ++d) {
      CheckFifo(node.Fifo(d));
      WEIR_CHECK(((node.queued >> d & 1) != 0) == (node.Fifo(d).size != 0));
    }
    return;
  }
  uint8_t queued = 0;
  ServedCounters served = node.details->departed;
  AddServed(&served, node, -1);
  size_t weighted[2] = {0, 0}, leftover[2] = {0, 0};
  for (const Node* child : node.details->children) {
    WEIR_CHECK(child->parent == &node && child->level == node.level + 1);
    CheckNode(*child, now);
    queued |= child->available;
    AddServed(&served, *child);
    for (int d = 0; d < 2; ++d) {
      const bool in = (child->available >> d & 1) != 0;
      weighted[d] += in && child->weight != 0 ? 1 : 0;
      leftover[d] += in && child->weight == 0 ? 1 : 0;
      if (!in) continue;
      const auto& heap = child->weight != 0 ? node.heaps->weighted[d] : node.heaps->leftover[d];
      WEIR_CHECK(heap.key_at(child->heap_pos[kWeightSlot + d]) == child->start);
      const bool reserved = child->place[d] != 0;
      int64_t due = kNoKey;
      for (int k = 0; k < kDimensions; ++k) {
        if ((child->min_mask >> k & 1) != 0) {
          due = std::min(due, child->ReservationOf(k).tag);
        }
      }
      const bool below =
          !child->leaf && !(child->heaps->due[d].empty() && child->heaps->waiting[d].empty());
      WEIR_CHECK(reserved == (due < kNoKey || below));
      // Whatever becomes due below must be looked at no later than that.
      if (!child->leaf && !child->heaps->waiting[d].empty()) {
        WEIR_CHECK((child->place[d] & kInWaiting) != 0);
        WEIR_CHECK(node.heaps->waiting[d].key_at(child->heap_pos[kWaitingSlot + d]) <=
                   NextDueBelow(*child, d));
      }
    }
  }
  WEIR_CHECK(queued == node.queued);
  WEIR_CHECK(served == ServedCounters{});  // what left + the children - own
  for (int d = 0; d < 2; ++d) {
    WEIR_CHECK(weighted[d] == node.heaps->weighted[d].size());
    WEIR_CHECK(leftover[d] == node.heaps->leftover[d].size());
    CheckHeap(node.heaps->weighted[d], kWeightSlot + d);
    CheckHeap(node.heaps->leftover[d], kWeightSlot + d);
    CheckHeap(node.heaps->waiting[d], kWaitingSlot + d);
    CheckHeap(node.heaps->due[d], kDueSlot + d);
  }
}

void Scheduler::CheckStructure(TimePoint now) {
  Impl& s = *impl_;
  s.RunTimers(ToNanos(now));
  CheckHeap(s.timers, kTimerSlot);
  s.CheckNode(*s.root, ToNanos(now));
}

}  // namespace weir::core

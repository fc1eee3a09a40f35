// Reservation clocks: who is due, and what happens when reservations cannot all be kept.
#include "core/scheduler_order.h"

namespace weir::core {

// Moves the children whose time has come from waiting to due.
void Scheduler::Impl::WakeDue(Node* parent, int d, int64_t clock, uint8_t mask) {
  IndexedHeap<Node>& waiting = parent->heaps->waiting[d];
  while (!waiting.empty() && waiting.top_key() <= clock) {
    Node* child = waiting.top();
    if (!child->leaf) {
      Settle(child, clock - child->clock_offset, mask & child->available, false);
    }
    PlaceReservation(child, d, clock);
    WEIR_CHECK((child->place[d] & kInWaiting) == 0 ||
               waiting.key_at(child->heap_pos[kWaitingSlot + d]) > clock);
  }
}

// If the earliest deadline is later than the bound, the reservations do not fit: slow the clock of
// all children alike, so that only relative lag decides and shares stay in proportion to MIN.
int64_t Scheduler::Impl::HoldClock(Node* parent, int64_t clock, uint8_t mask) {
  ChildHeaps& heaps = *parent->heaps;
  const int64_t bound = HoldOf(parent);
  int64_t earliest = kNoKey;
  const int64_t last_open[2] = {heaps.last_open[0], heaps.last_open[1]};
  for (int d = 0; d < 2; ++d) {
    if ((mask >> d & 1) == 0) continue;
    // Children that have only this direction grew old while a limit above closed it.
    if (clock - last_open[d] > bound && last_open[d ^ 1] > last_open[d]) {
      ForgiveDirection(parent, d, clock);
    }
    heaps.last_open[d] = clock;
  }
  for (int d = 0; d < 2; ++d) {
    if ((mask >> d & 1) == 0 || heaps.due[d].empty()) continue;
    if (heaps.due[d].top_key() < clock - bound &&
        OnlyThisDirectionIsLate(*parent, d, clock, bound)) {
      ForgiveDirection(parent, d, clock);
      if (heaps.due[d].empty()) continue;
    }
    earliest = std::min(earliest, heaps.due[d].top_key());
  }
  if (earliest >= kNoKey || clock <= earliest + bound) return clock;
  parent->clock_offset += clock - (earliest + bound);
  clock = earliest + bound;
  for (int64_t& open : heaps.last_open) open = std::min(open, clock);
  return clock;
}

bool Scheduler::Impl::OnlyThisDirectionIsLate(const Node& parent, int d, int64_t clock,
                                              int64_t limit) const {
  const ChildHeaps& heaps = *parent.heaps;
  const IndexedHeap<Node>& other_due = heaps.due[d ^ 1];
  const bool other_reserved = !heaps.waiting[d ^ 1].empty() || !other_due.empty();
  return other_reserved && (other_due.empty() || other_due.top_key() >= clock - limit / 2);
}

// Forgives the late children of one direction one by one. The clock must not do it: it would take
// time from the children of the other direction, which are not late.
void Scheduler::Impl::ForgiveDirection(Node* parent, int d, int64_t clock) {
  const int64_t bound = HoldOf(parent);
  IndexedHeap<Node>& due = parent->heaps->due[d];
  while (!due.empty() && due.top_key() < clock - bound) {
    Node* child = due.top();
    for (int k = 0; k < kDimensions; ++k) {
      if ((child->min_mask >> k & 1) == 0) continue;
      Reservation& r = child->ReservationOf(k);
      r.tag = std::max(r.tag, clock - bound / 2 - r.quantum);
    }
    if (!child->leaf) ForgiveDirection(child, d, clock - child->clock_offset);
    for (int e = 0; e < 2; ++e) {
      if ((child->available >> e & 1) != 0) PlaceReservation(child, e, clock);
    }
    if ((child->place[d] & kInDue) != 0 && child->deadline[d] < clock - bound) {
      WEIR_CHECK(!child->leaf);
      child->clock_offset += clock - bound - child->deadline[d];
      PlaceReservation(child, d, clock);
      PlaceReservation(child, d ^ 1, clock);
      return;
    }
  }
}

void Scheduler::Impl::Wake(Node* node, int64_t parent_clock, int64_t now) {
  const int64_t v = VirtualTimeOf(node);
  const int64_t lead = WrapDiff(node->start, v);
  if (lead < 0 || lead > int64_t{1} << 61 || now - node->asleep_since > kForgetStart) {
    node->start = v;
    node->start_remainder = 0;
  }
  if (node->min_mask == 0) return;
  // Credit is bounded; yet whoever comes back while reservations are late, since they do not all
  // fit, must not queue behind that lateness.
  const int64_t lateness = LatenessBeside(node, parent_clock);
  for (int k = 0; k < kDimensions; ++k) {
    if ((node->min_mask >> k & 1) == 0) continue;
    Reservation& r = node->ReservationOf(k);
    const int64_t credit = lateness > kWakeCredit ? lateness + r.quantum : kWakeCredit;
    if (r.tag < parent_clock - credit) {
      r.tag = parent_clock - credit;
      r.remainder = 0;
    }
  }
}

// How late the latest reservation is with which this node's competes: at its parent, and above that
// as long as the parents have no reservation of their own.
int64_t Scheduler::Impl::LatenessBeside(const Node* node, int64_t clock) {
  int64_t lateness = 0;
  for (const Node* above = node->parent; above != nullptr; above = above->parent) {
    for (const IndexedHeap<Node>& due : above->heaps->due) {
      if (!due.empty()) lateness = std::max(lateness, clock - due.top_key());
    }
    if (above->min_mask != 0) break;
    clock += above->clock_offset;
  }
  return lateness;
}

void Scheduler::Impl::FixUp(Node* node, int64_t now, bool whole) {
  int64_t clock = ClockOf(node->parent, now);
  for (; node->parent != nullptr; node = node->parent) {
    Node* parent = node->parent;
    const uint8_t available = node->queued & static_cast<uint8_t>(~node->blocked);
    if (node->available == 0 && available != 0) Wake(node, clock, now);
    if (node->available != 0 && available == 0) node->asleep_since = now;
    const int64_t next_due[2] = {NextDueBelow(*parent, 0), NextDueBelow(*parent, 1)};
    Reorder(node, available, clock);
    // The parent's place depends on its availability and keys only.
    bool same = (parent->queued & static_cast<uint8_t>(~parent->blocked)) == parent->available;
    for (int d = 0; d < 2; ++d) {
      const int64_t due_time = parent->due_time[d], deadline = parent->deadline[d];
      ComputeKeys(parent, d);
      same = same && due_time == parent->due_time[d] && deadline == parent->deadline[d] &&
             next_due[d] <= NextDueBelow(*parent, d);
    }
    if (same && !whole) return;
    clock += parent->clock_offset;
  }
  node->available = node->queued & static_cast<uint8_t>(~node->blocked);
}

void Scheduler::Impl::RunTimers(int64_t now) {
  while (!timers.empty() && timers.top_key() <= now) {
    Node* node = timers.top();
    Reblock(node, now);
    if (!node->leaf) Settle(node, ClockOf(node, now), PathMask(node), true);
    FixUp(node, now);
  }
}

}  // namespace weir::core

// The data path: enqueue, dispatch, complete.
#include "core/scheduler.h"

#include <algorithm>

#include "core/scheduler_ahead.h"
#include "core/scheduler_order.h"

namespace weir::core {

namespace {

// A request beyond these is refused: sums stay far from overflow.
constexpr int64_t kMaxCost = int64_t{1} << 40;
constexpr int64_t kMaxBytes = int64_t{1} << 40;

}  // namespace

// --- Enqueue -----------------------------------------------------------------------------------

Result<void> Scheduler::Enqueue(Request* request, TimePoint now) {
  Impl& s = *impl_;
  Node* leaf = s.Find(request->group);
  if (leaf == nullptr) return Fail(ErrorCode::kNotFound, "enqueue: no such group");
  if (!leaf->leaf) {
    return Fail(ErrorCode::kFailedPrecondition,
                "enqueue: the group has groups below it; name one of those");
  }
  if (request->cost <= 0 || request->cost > kMaxCost || request->raw <= 0 ||
      request->raw > kMaxCost || request->bytes < 0 || request->bytes > kMaxBytes) {
    return Fail(ErrorCode::kInvalidArgument, "enqueue: cost, raw operations or bytes out of range");
  }
  WEIR_CHECK(request->state_ == Request::State::kIdle);
  const int64_t t = ToNanos(now);
  request->state_ = Request::State::kQueued;
  request->leaf_ = leaf;
  request->enqueued_at = now;
  if (request->deadline < kNever) s.deadlines.Push(request);
  if (request->sync) ++leaf->sync_queued;
  s.NoteSize(request->cost, t);
  if (request->cost > kOp || request->bytes > kUnitBytes) s.NoteReservedSize(leaf, *request);

  RequestFifo& fifo = leaf->Fifo(request->direction);
  fifo.PushBack(request);
  if (fifo.size == 1) {
    leaf->queued |= BitOf(request->direction);
    if ((leaf->queued & static_cast<uint8_t>(~leaf->blocked)) != leaf->available) s.FixUp(leaf, t);
  }
  return {};
}

// The largest recent cost, over one to two windows, bounds how late a reservation can be.
void Scheduler::Impl::NoteSize(int64_t cost, int64_t now) {
  if (now - largest_since >= kLargestWindow) {
    largest_before = now - largest_since >= 2 * kLargestWindow ? 0 : largest_window;
    largest_window = 0;
    largest_since = now;
  }
  largest_window = std::max(largest_window, cost);
  const int64_t recent = std::max(std::max(largest_window, largest_before), kOp);
  if (recent == largest) return;
  largest = recent;
  depth.SetLargest(largest);
  UpdateHold();
}

void Scheduler::Impl::UpdateHold() {
  const int64_t capacity = std::max<int64_t>(1, options.capacity_per_s);
  const int64_t in_device = depth.depth() + depth.headroom() + largest;
  const int64_t in_device_ns = NanosAt(in_device, capacity);
  // More than any lateness that is legal, at every level: the credit of a group that wakes, and the
  // device. More for a parent than for its children, so that what is late inside a tenant never
  // outranks tenants that are late.
  const int64_t hold = std::max({kMinHold, kWakeCredit + 2 * in_device_ns, 4 * in_device_ns});
  for (int level = 0; level <= kMaxDepth; ++level) {
    hold_at[level] = hold + hold / 8 * std::max(0, deepest_parent - level);
  }
  burst_ns = std::max(kDefaultBurst, in_device_ns);
  largest_ns = NanosAt(largest, capacity);
}

// --- Dispatch ----------------------------------------------------------------------------------

Request* Scheduler::Dispatch(TimePoint now) {
  Impl& s = *impl_;
  const int64_t t = ToNanos(now);
  s.RunTimers(t);
  // Beyond D only what is due may pass, and of that only H.
  const bool due_only = s.in_flight >= s.depth.depth();
  if (due_only && s.headroom_in_flight >= s.depth.headroom()) return nullptr;
  if (s.expedited.head != nullptr) return s.DispatchExpedited(t, due_only);
  if (s.root->available == 0) return nullptr;

  Impl::Path path;
  Node* leaf = s.Descend(due_only, t, &path);
  if (leaf == nullptr) return nullptr;
  const Direction direction = Impl::ChooseDirection(leaf, path.mask, t);
  Request* request = leaf->Fifo(direction).head;
  s.TakeFromFifo(request);
  request->phase = Phase::kWeight;
  for (int i = 0; i < path.length; ++i) {
    if (path.phase[i] == Phase::kReservation) {
      request->phase = Phase::kReservation;
      break;
    }
    if (path.phase[i] == Phase::kLeftover) request->phase = Phase::kLeftover;
  }
  s.ChargePath(request, path, t);
  s.Started(request, due_only, t);
  PrefetchBehindNext(s.root);
  return request;
}

Node* Scheduler::Impl::Descend(bool due_only, int64_t now, Path* path) {
  Node* node = root;
  uint8_t mask = root->available;
  int64_t clock = now - root->clock_offset;
  int level = 0;
  while (!node->leaf) {
    clock = Settle(node, clock, mask, false);
    Phase phase = Phase::kWeight;
    Node* child = PickChild(node, clock, mask, due_only && level == 0, &phase);
    if (child == nullptr) return nullptr;
    PrefetchLines(child, 1, kLinesOfRead);
    path->phase[level] = phase;
    path->clock[level] = clock;
    ++level;
    mask &= child->available;
    WEIR_CHECK(mask != 0);
    clock -= child->clock_offset;
    node = child;
  }
  path->length = level;
  path->mask = mask;
  return node;
}

namespace {

// The direction in `mask` whose heap has the smallest key, or -1.
int SmallestOf(const IndexedHeap<Node>* heaps, uint8_t mask) {
  int best = -1;
  for (int d = 0; d < 2; ++d) {
    if ((mask >> d & 1) == 0 || heaps[d].empty()) continue;
    if (best < 0 || WrapDiff(heaps[d].top_key(), heaps[best].top_key()) < 0) best = d;
  }
  return best;
}

}  // namespace

// The due child with the earliest deadline, else the weighted child with the smallest virtual
// start, else the weight-0 child with the smallest.
Node* Scheduler::Impl::PickChild(Node* parent, int64_t clock, uint8_t mask, bool due_only,
                                 Phase* phase) {
  ChildHeaps& heaps = *parent->heaps;
  for (int d = SmallestOf(heaps.due, mask); d >= 0; d = SmallestOf(heaps.due, mask)) {
    Node* child = heaps.due[d].top();
    if (StillDue(child, d, clock)) {
      *phase = Phase::kReservation;
      return child;
    }
    PlaceReservation(child, d, clock);  // the clock was held back meanwhile: not due after all
  }
  if (due_only) return nullptr;
  int d = SmallestOf(heaps.weighted, mask);
  if (d >= 0) {
    *phase = Phase::kWeight;
    return heaps.weighted[d].top();
  }
  d = SmallestOf(heaps.leftover, mask);
  WEIR_CHECK(d >= 0);
  *phase = Phase::kLeftover;
  return heaps.leftover[d].top();
}

// Reads go first. A write goes after kReadsPerWrite reads; every second time once it is older than
// kWriteAge; and four times out of five while somebody waits in fsync.
Direction Scheduler::Impl::ChooseDirection(Node* leaf, uint8_t mask, int64_t now) {
  if (mask == kReadBit) {
    leaf->writes_in_a_row = 0;
    if ((leaf->queued & kWriteBit) != 0) ++leaf->reads_in_a_row;
    return Direction::kRead;
  }
  if (mask == kWriteBit) {
    leaf->reads_in_a_row = 0;
    if ((leaf->queued & kReadBit) != 0) ++leaf->writes_in_a_row;
    return Direction::kWrite;
  }
  const bool aged = now - ToNanos(leaf->writes.head->enqueued_at) > kWriteAge;
  const bool write = leaf->sync_queued != 0 ? leaf->writes_in_a_row < kWritesPerRead
                                            : leaf->reads_in_a_row >= (aged ? 1 : kReadsPerWrite);
  if (write) {
    leaf->reads_in_a_row = 0;
    ++leaf->writes_in_a_row;
    return Direction::kWrite;
  }
  leaf->writes_in_a_row = 0;
  ++leaf->reads_in_a_row;
  return Direction::kRead;
}

void Scheduler::Impl::TakeFromFifo(Request* request) {
  Node* leaf = request->leaf_;
  RequestFifo& fifo = leaf->Fifo(request->direction);
  fifo.Remove(request);
  deadlines.Remove(request);
  if (request->sync) --leaf->sync_queued;
  if (fifo.size == 0) leaf->queued &= static_cast<uint8_t>(~BitOf(request->direction));
}

void Scheduler::Impl::Started(Request* request, bool in_headroom, int64_t now) {
  request->state_ = Request::State::kInFlight;
  request->dispatched_at = FromNanos(now);
  request->in_headroom_ = in_headroom;
  in_flight += request->cost;
  if (in_headroom) headroom_in_flight += request->cost;
  ++requests_in_flight;
  Node* leaf = request->leaf_;
  ++leaf->in_flight;
  if (leaf->histograms != nullptr) {
    leaf->histograms->wait.RecordNanos(now - ToNanos(request->enqueued_at));
  }
}

// --- Charging ----------------------------------------------------------------------------------

void Scheduler::Impl::ChargePath(Request* request, const Path& path, int64_t now) {
  const int d = static_cast<int>(request->direction);
  int level = path.length;
  for (Node* node = request->leaf_;; node = node->parent) {
    std::array<int64_t, kDimensions>& served = node->Served(d);
    served[0] += request->cost;
    served[1] += request->raw;
    served[2] += request->bytes;
    if (node->bucket_mask != 0) ChargeLimits(node, *request, now);
    const Phase phase = level > 0 ? path.phase[level - 1] : request->phase;
    PhaseCount& count = node->CountOf(phase);
    ++count.requests;
    count.norm += request->cost;
    if (level == 0) break;  // the root
    --level;
    ChargeReservation(node, *request, path.clock[level]);
    ChargeWeight(node, request->cost, phase, now);
    const uint8_t available = node->queued & static_cast<uint8_t>(~node->blocked);
    if (available == 0 && node->available != 0) node->asleep_since = now;
    Reorder(node, available, path.clock[level]);
    if (node->leaf) PrefetchNextOf(*node->parent->heaps);
  }
  root->available = root->queued & static_cast<uint8_t>(~root->blocked);
}

void Scheduler::Impl::ChargeLimits(Node* node, const Request& request, int64_t now) {
  const int64_t amounts[3] = {request.cost, request.raw, request.bytes};
  bool closed = false;
  for (unsigned mask = node->bucket_mask & kBucketsOf[static_cast<int>(request.direction)];
       mask != 0; mask &= mask - 1) {
    const int i = __builtin_ctz(mask);
    Bucket& bucket = node->BucketAt(i);
    bucket.Charge(amounts[i / kScopes], now, burst_ns);
    closed = closed || bucket.OpenAt() > now;
  }
  if (closed || node->blocked != 0) Reblock(node, now);
}

// Every service counts in every reservation, whatever it was picked by. Debt is bounded, so that
// service taken alone on an idle device does not cost the guarantee afterwards.
void Scheduler::Impl::ChargeReservation(Node* node, const Request& request, int64_t parent_clock) {
  for (uint8_t mask = node->min_mask; mask != 0; mask &= static_cast<uint8_t>(mask - 1)) {
    const int k = __builtin_ctz(mask);
    Reservation& r = node->ReservationOf(k);
    const int64_t amount = Priced(request, k);
    const int64_t step = ScaledNanos(amount, r.rate, &r.remainder);
    // The largest recent request is forgotten no faster than the tag moves on: a deadline that
    // moved back would look like lateness, and hold the clock back for everybody.
    r.largest = std::max(amount, r.largest - std::min(r.largest / kForgetLargest, amount));
    r.quantum = std::max({step, r.unit, r.quantum - std::min(r.quantum / kForgetLargest, step)});
    const int64_t bound = parent_clock + kDebt + kDebtRequests * r.quantum + largest_ns;
    r.tag = std::min(r.tag, bound) + step;
  }
}

// A request is due by the tag plus the time of its own size. If large requests were due as early
// as small ones, many small reservations that wake together with large requests would starve a
// group that is owed more.
void Scheduler::Impl::NoteReservedSize(Node* leaf, const Request& request) {
  for (Node* node = leaf; node->parent != nullptr; node = node->parent) {
    for (uint8_t mask = node->min_mask; mask != 0; mask &= static_cast<uint8_t>(mask - 1)) {
      const int k = __builtin_ctz(mask);
      Reservation& r = node->ReservationOf(k);
      const int64_t amount = Priced(request, k);
      if (amount <= r.largest) continue;
      r.largest = amount;
      r.quantum = std::max(r.quantum, NanosAt(amount, r.rate));
    }
  }
}

// How far service by reservation may push a node's virtual start ahead of its parent's virtual
// time. Without a bound, removing a reservation would starve its owner; with a tight one, the
// reservation of a child would not count against its parent's weighted share.
int64_t Scheduler::Impl::Lead(const Node& node, int64_t step) const {
  int64_t lead = kLeadRequests * (step + 1);
  if (node.weight != 0) {
    lead = std::max(lead, kLeadSteps * node.parent->heaps->recent_step);
    lead = std::max(lead, kLeadAdvances * node.parent->heaps->recent_advance);
  }
  return lead;
}

void Scheduler::Impl::ChargeWeight(Node* node, int64_t cost, Phase phase, int64_t now) {
  ChildHeaps* parent = node->parent->heaps.get();
  const int64_t numerator = cost * kVirtualScale + node->start_remainder;
  const int64_t step = numerator / node->divisor;
  const int64_t remainder = numerator - step * node->divisor;
  int64_t& v = VirtualTimeOf(node);
  // A node that was held back re-enters at the parent's virtual time: no credit from that.
  const int64_t start = WrapDiff(node->start, v) > 0 ? node->start : v;
  node->start = WrapAdd(start, step);
  node->start_remainder = remainder;
  switch (phase) {
    case Phase::kReservation: {
      const int64_t limit = WrapAdd(v, Lead(*node, step));
      if (WrapDiff(node->start, limit) > 0) {
        node->start = WrapDiff(start, limit) > 0 ? start : limit;
        node->start_remainder = 0;
      }
      break;
    }
    case Phase::kWeight: {
      parent->recent_step =
          std::max(WrapDiff(start, v), parent->recent_step - parent->recent_step / 8);
      v = start;
      const int64_t elapsed = now - parent->advance_since;
      if (elapsed >= burst_ns) {
        parent->recent_advance = static_cast<int64_t>(
            static_cast<__int128>(WrapDiff(start, parent->advance_from)) * burst_ns / elapsed);
        parent->advance_from = start;
        parent->advance_since = now;
      }
      break;
    }
    case Phase::kLeftover:
      v = start;
      break;
    case Phase::kExpedited:
      break;
  }
}

// --- Complete, cancel, expedite, expire --------------------------------------------------------

void Scheduler::Complete(Request* request, TimePoint now, int64_t actual_cost) {
  Impl& s = *impl_;
  WEIR_CHECK(request->state_ == Request::State::kInFlight);
  Node* leaf = request->leaf_;
  const bool changed = s.depth.OnComplete(request->cost, s.in_flight, s.requests_in_flight, now);
  s.in_flight -= request->cost;
  if (request->in_headroom_) s.headroom_in_flight -= request->cost;
  --s.requests_in_flight;
  request->state_ = Request::State::kIdle;
  if (changed) s.UpdateHold();
  --leaf->in_flight;
  ++leaf->completed;
  if (leaf->histograms != nullptr) leaf->histograms->service.Record(now - request->dispatched_at);
  if (actual_cost > 0 && actual_cost != request->cost && !leaf->removed) {
    s.CorrectCost(request, std::min(actual_cost, kMaxCost) - request->cost, ToNanos(now));
  }
  if (leaf->removed) s.FreeIfUnused(leaf);
}

// Charges or refunds the difference between the predicted and the actual cost, on all accounts of
// the path, so that errors are carried both ways.
void Scheduler::Impl::CorrectCost(Request* request, int64_t delta, int64_t now) {
  const int d = static_cast<int>(request->direction);
  const int64_t size = delta < 0 ? -delta : delta;
  int64_t clock = ClockOf(request->leaf_->parent, now);
  // It got children meanwhile, none of which served this.
  if (!request->leaf_->leaf) request->leaf_->details->departed[0][static_cast<size_t>(d)] += delta;
  for (Node* node = request->leaf_; node != nullptr; node = node->parent) {
    node->Served(d)[0] += delta;
    for (unsigned mask = node->bucket_mask & kBucketsOf[d] & 0b111; mask != 0; mask &= mask - 1) {
      Bucket& bucket = node->BucketAt(__builtin_ctz(mask));
      if (delta > 0) {
        bucket.Charge(size, now, burst_ns);
      } else {
        bucket.Refund(size);
      }
    }
    if ((node->min_mask & 1) != 0) {
      // A refund makes nobody later than the hold bound: the clock would stop for all others.
      Reservation& r = node->norm_reservation;
      const int64_t ns = NanosAt(size, r.rate);
      const int64_t latest = std::min(r.tag, clock - HoldOf(node->parent) - r.quantum);
      r.tag = delta > 0 ? r.tag + ns : std::max(r.tag - ns, latest);
    }
    if (node->parent != nullptr) clock += node->parent->clock_offset;
    const int64_t step = size * kVirtualScale / node->divisor;
    node->start = WrapAdd(node->start, delta < 0 ? -step : step);
    Reblock(node, now);
  }
  FixUp(request->leaf_, now, true);
}

// Takes a queued request out of the scheduler, uncharged.
void Scheduler::Impl::Withdraw(Request* request, int64_t now) {
  if (request->state_ == Request::State::kExpedited) {
    expedited.Remove(request);
    deadlines.Remove(request);
    --request->leaf_->details->pins;
  } else {
    TakeFromFifo(request);
    FixUp(request->leaf_, now);
  }
  request->state_ = Request::State::kIdle;
}

bool Scheduler::Cancel(Request* request, TimePoint now) {
  if (request->state_ != Request::State::kQueued && request->state_ != Request::State::kExpedited) {
    return false;
  }
  ++request->leaf_->details->cancelled;
  Node* leaf = request->leaf_;
  impl_->Withdraw(request, ToNanos(now));
  if (leaf->removed) impl_->FreeIfUnused(leaf);
  return true;
}

bool Scheduler::Expedite(Request* request, TimePoint now) {
  if (request->state_ != Request::State::kQueued) return false;
  Node* leaf = request->leaf_;
  const bool had_deadline = request->deadline < kNever;
  impl_->Withdraw(request, ToNanos(now));
  request->state_ = Request::State::kExpedited;
  impl_->expedited.PushBack(request);
  ++leaf->details->pins;  // stays named by the request even if it is removed
  if (had_deadline) impl_->deadlines.Push(request);
  return true;
}

Request* Scheduler::Impl::DispatchExpedited(int64_t now, bool in_headroom) {
  Request* request = expedited.head;
  expedited.Remove(request);
  deadlines.Remove(request);
  Node* leaf = request->leaf_;
  --leaf->details->pins;
  request->phase = Phase::kExpedited;
  if (leaf->removed) {  // nobody left to charge
    Started(request, in_headroom, now);
    return request;
  }
  if (!leaf->leaf) {  // it got children meanwhile, none of which serves this
    ServedCounters& departed = leaf->details->departed;
    const auto d = static_cast<size_t>(request->direction);
    departed[0][d] += request->cost;
    departed[1][d] += request->raw;
    departed[2][d] += request->bytes;
  }
  Path path;
  path.length = leaf->level;
  int64_t clock = ClockOf(leaf->parent, now);
  Node* node = leaf->parent;
  for (int i = path.length - 1; i >= 0; --i, node = node->parent) {
    path.phase[i] = Phase::kExpedited;
    path.clock[i] = clock;
    clock += node->clock_offset;
  }
  ChargePath(request, path, now);
  Started(request, in_headroom, now);
  return request;
}

Request* Scheduler::PopExpired(TimePoint now) {
  Impl& s = *impl_;
  Request* request = s.deadlines.top();
  if (request == nullptr || request->deadline > now) return nullptr;
  Node* leaf = request->leaf_;
  ++leaf->details->expired;
  for (Node* node = leaf; node != nullptr; node = node->parent) {
    if ((node->blocked & BitOf(request->direction)) != 0) {
      ++leaf->details->throttle_timeouts;
      break;
    }
  }
  s.Withdraw(request, ToNanos(now));
  if (leaf->removed) s.FreeIfUnused(leaf);
  return request;
}

TimePoint Scheduler::NextWakeup(TimePoint now) const {
  const Impl& s = *impl_;
  int64_t next = kFarFuture;
  if (!s.timers.empty()) next = std::min(next, s.timers.top_key());
  // Between D and D + H a node that becomes due can go.
  if (s.in_flight >= s.depth.depth() && s.headroom_in_flight < s.depth.headroom()) {
    const ChildHeaps& heaps = *s.root->heaps;
    for (int d = 0; d < 2; ++d) {
      if ((s.root->available >> d & 1) == 0) continue;
      if (!heaps.due[d].empty()) next = std::min(next, ToNanos(now));
      if (!heaps.waiting[d].empty()) {
        next = std::min(next, heaps.waiting[d].top_key() + s.root->clock_offset);
      }
    }
  }
  if (s.deadlines.top() != nullptr) next = std::min(next, ToNanos(s.deadlines.top()->deadline));
  if (next >= kFarFuture) return kNever;
  return std::max(now, FromNanos(next));
}

bool Scheduler::HasEligible(TimePoint now) {
  impl_->RunTimers(ToNanos(now));
  return impl_->in_flight < impl_->depth.depth() &&
         (impl_->root->available != 0 || impl_->expedited.head != nullptr);
}

int64_t Scheduler::cost_in_flight() const { return impl_->in_flight; }
uint64_t Scheduler::requests_in_flight() const { return impl_->requests_in_flight; }
int64_t Scheduler::depth() const { return impl_->depth.depth(); }
int64_t Scheduler::headroom() const { return impl_->depth.headroom(); }

void Scheduler::SetCapacity(int64_t capacity_per_s) {
  impl_->options.capacity_per_s = std::max<int64_t>(1, capacity_per_s);
  impl_->UpdateHold();
}

void Scheduler::SetDepth(int64_t depth) {
  impl_->depth.Fix(std::max<int64_t>(1, depth));
  impl_->UpdateHold();
}

}  // namespace weir::core

// Changes of the tree and of its parameters, while it runs.
#include <algorithm>
#include <memory>
#include <string>

#include "core/scheduler_order.h"

namespace weir::core {

namespace {

int64_t ClampRate(int64_t rate) { return std::min(rate, kMaxRate); }

// Levels below `node`; 0 for a leaf.
int HeightOf(const Node& node) {
  int height = 0;
  for (const Node* child : node.details->children) height = std::max(height, 1 + HeightOf(*child));
  return height;
}

void SetLevels(Node* node, uint8_t level) {
  node->level = level;
  for (Node* child : node->details->children) SetLevels(child, static_cast<uint8_t>(level + 1));
}

bool IsBelowOrSame(const Node* node, const Node* ancestor) {
  for (; node != nullptr; node = node->parent) {
    if (node == ancestor) return true;
  }
  return false;
}

size_t BucketLines(uint16_t mask) {
  return static_cast<size_t>(__builtin_popcount(mask)) * (sizeof(Bucket) / kLineBytes);
}

bool HasQueued(const Node& node) { return node.reads.size + node.writes.size != 0; }

void TakeAll(Node* leaf, std::vector<Request*>* out) {
  for (int d = 0; d < 2; ++d) {
    for (Request* r = leaf->Fifo(d).head; r != nullptr; r = RequestFifo::Next(r)) out->push_back(r);
  }
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Scheduler::~Scheduler() = default;

Scheduler::Impl::Impl(const SchedulerOptions& o) : options(o), depth(o.depth) {
  root = NewNode();
  MakeParent(root);
  UpdateHold();
}

Scheduler::Impl::~Impl() {
  for (Node* node : nodes) {
    if (node != nullptr) std::destroy_at(node);
  }
}

Node* Scheduler::Impl::NewNode() {
  uint32_t index = static_cast<uint32_t>(nodes.size());
  if (free_nodes.empty()) {
    nodes.push_back(nullptr);
    generations.push_back(0);
    free_nodes.reserve(nodes.capacity());
  } else {
    index = free_nodes.back();
    free_nodes.pop_back();
  }
  Node* node = ::new (node_memory.Take(sizeof(Node) / kLineBytes)) Node;
  nodes[index] = node;
  node->details->index = index;
  node->details->generation = ++generations[index];
  ++live_nodes;
  timers.Reserve(nodes.size());
  return node;
}

// A removed node lives on until its last request in flight is back and no removed child needs it.
void Scheduler::Impl::FreeIfUnused(Node* node) {
  while (node != nullptr && node->removed && node->in_flight == 0 && node->details->pins == 0) {
    Node* parent = node->parent;
    parent->completed += node->completed;
    parent->details->cancelled += node->details->cancelled;
    parent->details->expired += node->details->expired;
    parent->details->throttle_timeouts += node->details->throttle_timeouts;
    if (node->histograms != nullptr) {
      if (parent->histograms == nullptr) parent->histograms = std::make_unique<LeafHistograms>();
      parent->histograms->wait.Merge(node->histograms->wait);
      parent->histograms->service.Merge(node->histograms->service);
    }
    --parent->details->pins;
    --live_nodes;
    free_nodes.push_back(node->details->index);
    nodes[node->details->index] = nullptr;
    ResizeBuckets(node, 0);
    std::destroy_at(node);
    node_memory.GiveBack(node, sizeof(Node) / kLineBytes);
    node = parent;
  }
}

void Scheduler::Impl::MakeParent(Node* node) {
  if (node->heaps == nullptr) node->heaps = std::make_unique<ChildHeaps>();
  if (!node->leaf) return;
  node->leaf = false;
  AddServed(&node->details->departed, *node);
}

// Links `node`, which nothing knows of yet or which Detach took out, below `parent`.
void Scheduler::Impl::Attach(Node* node, Node* parent) {
  MakeParent(parent);
  node->parent = parent;
  SetLevels(node, static_cast<uint8_t>(parent->level + 1));
  if (const int deepest = parent->level + HeightOf(*node); deepest > deepest_parent) {
    deepest_parent = deepest;
    UpdateHold();
  }
  parent->details->children.push_back(node);
  for (int d = 0; d < 2; ++d) {
    parent->heaps->weighted[d].Reserve(parent->details->children.size());
    parent->heaps->leftover[d].Reserve(parent->details->children.size());
    parent->heaps->waiting[d].Reserve(parent->details->children.size());
    parent->heaps->due[d].Reserve(parent->details->children.size());
  }
}

// Takes `node` out of its parent's heaps and children.
void Scheduler::Impl::Detach(Node* node, int64_t now) {
  const uint8_t queued = node->queued;
  node->queued = 0;
  FixUp(node, now);
  node->queued = queued;
  std::vector<Node*>& siblings = node->parent->details->children;
  siblings.erase(std::find(siblings.begin(), siblings.end(), node));
}

GroupId Scheduler::root() const { return impl_->root->id(); }

Result<GroupId> Scheduler::AddGroup(GroupId parent_id, const ResourceParams& params,
                                    TimePoint now) {
  Impl& s = *impl_;
  if (Result<void> valid = Impl::Validate(params); !valid) return tl::unexpected(valid.error());
  Node* parent = s.Find(parent_id);
  if (parent == nullptr) return Fail(ErrorCode::kNotFound, "add group: no such parent");
  if (parent->level >= kMaxDepth) {
    return Fail(ErrorCode::kResourceExhausted,
                "add group: the tree is at most " + std::to_string(kMaxDepth) + " levels deep");
  }
  if (s.live_nodes >= kMaxGroups) {
    return Fail(ErrorCode::kResourceExhausted,
                "add group: there are already " + std::to_string(kMaxGroups) + " groups");
  }
  if (parent->leaf && HasQueued(*parent)) {
    return Fail(ErrorCode::kFailedPrecondition,
                "add group: requests wait in the parent; take them out first");
  }
  Node* node = s.NewNode();
  if (s.options.histograms) node->histograms = std::make_unique<LeafHistograms>();
  s.Attach(node, parent);
  node->start = parent->heaps->virtual_time;
  s.ApplyParams(node, params, ToNanos(now));
  return node->id();
}

Result<void> Scheduler::RemoveGroup(GroupId group, TimePoint now, std::vector<Request*>* orphans) {
  Impl& s = *impl_;
  Node* node = s.Find(group);
  if (node == nullptr) return Fail(ErrorCode::kNotFound, "remove group: no such group");
  if (node == s.root) {
    return Fail(ErrorCode::kFailedPrecondition, "remove group: the root stays");
  }
  if (!node->details->children.empty()) {
    return Fail(ErrorCode::kFailedPrecondition,
                "remove group: it has groups below it; remove those first");
  }
  if (Result<void> taken = node->leaf ? TakeQueued(group, now, orphans) : Result<void>{}; !taken) {
    return taken;
  }
  s.Detach(node, ToNanos(now));
  if (node->timer_set) {
    s.timers.Erase(node, kTimerSlot);
    node->timer_set = false;
  }
  node->removed = true;
  Node* parent = node->parent;
  AddServed(&parent->details->departed, *node);
  ++parent->details->pins;
  if (parent->details->children.empty() && parent != s.root) {
    parent->leaf = true;
    parent->details->departed = {};
    if (s.options.histograms && parent->histograms == nullptr) {
      parent->histograms = std::make_unique<LeafHistograms>();
    }
  }
  s.FreeIfUnused(node);
  return {};
}

Result<void> Scheduler::TakeQueued(GroupId group, TimePoint now, std::vector<Request*>* out) {
  Impl& s = *impl_;
  Node* node = s.Find(group);
  if (node == nullptr) return Fail(ErrorCode::kNotFound, "take queued: no such group");
  const size_t before = out->size();
  TakeAll(node, out);
  for (size_t i = before; i < out->size(); ++i) {
    s.TakeFromFifo((*out)[i]);
    (*out)[i]->state_ = Request::State::kIdle;
  }
  if (out->size() != before) s.FixUp(node, ToNanos(now));
  return {};
}

Result<void> Scheduler::MoveGroup(GroupId group, GroupId new_parent, TimePoint now) {
  Impl& s = *impl_;
  Node* node = s.Find(group);
  Node* to = s.Find(new_parent);
  if (node == nullptr || to == nullptr)
    return Fail(ErrorCode::kNotFound, "move group: no such group");
  if (node == s.root || IsBelowOrSame(to, node)) {
    return Fail(ErrorCode::kFailedPrecondition, "move group: into itself or below itself");
  }
  if (to->leaf && HasQueued(*to)) {
    return Fail(ErrorCode::kFailedPrecondition,
                "move group: requests wait in the new parent; take them out first");
  }
  if (to->level + 1 + HeightOf(*node) > kMaxDepth) {
    return Fail(ErrorCode::kResourceExhausted,
                "move group: the tree is at most " + std::to_string(kMaxDepth) + " levels deep");
  }
  Node* from = node->parent;
  if (from == to) return {};
  const int64_t t = ToNanos(now);
  const int64_t old_clock = s.ClockOf(from, t);
  const int64_t lead = WrapDiff(node->start, Impl::VirtualTimeOf(node));
  s.Detach(node, t);
  AddServed(&from->details->departed, *node);
  if (from->details->children.empty() && from != s.root) {
    from->leaf = true;
    from->details->departed = {};
    if (s.options.histograms && from->histograms == nullptr) {
      from->histograms = std::make_unique<LeafHistograms>();
    }
  }
  s.Attach(node, to);
  AddServed(&to->details->departed, *node, -1);
  // Lag and lead are kept in the coordinates of the new parent.
  const int64_t shift = s.ClockOf(to, t) - old_clock;
  for (int k = 0; k < kDimensions; ++k) {
    if ((node->min_mask >> k & 1) != 0) node->ReservationOf(k).tag += shift;
  }
  node->clock_offset += shift;  // the clock of its children goes on
  node->start = WrapAdd(Impl::VirtualTimeOf(node), std::max<int64_t>(0, lead));
  node->asleep_since = t;
  s.FixUp(node, t, true);
  return {};
}

Result<void> Scheduler::Impl::Validate(const ResourceParams& params) {
  static const char* const kNames[] = {"norm", "raw", "bytes"};
  for (size_t k = 0; k < kDimensions; ++k) {
    if (params.min[k] < 0) {
      return Fail(ErrorCode::kInvalidArgument, std::string("MIN (") + kNames[k] + ") is negative");
    }
    for (size_t scope = 0; scope < kScopes; ++scope) {
      if (params.max[k][scope] <= 0) {
        return Fail(ErrorCode::kInvalidArgument, std::string("MAX (") + kNames[k] +
                                                     ") must be above 0: nothing could ever pass");
      }
      if (params.burst[k][scope] < -1) {
        return Fail(ErrorCode::kInvalidArgument,
                    std::string("burst (") + kNames[k] + ") is negative");
      }
    }
    if (params.min[k] > params.max[k][static_cast<size_t>(Scope::kBoth)]) {
      return Fail(ErrorCode::kInvalidArgument,
                  std::string("MIN (") + kNames[k] + ", " + std::to_string(params.min[k]) +
                      ") exceeds MAX (" + std::to_string(params.max[k][2]) + ")");
    }
  }
  if (params.weight < 0 || params.weight > kMaxWeight) {
    return Fail(ErrorCode::kInvalidArgument, "weight " + std::to_string(params.weight) +
                                                 " is not within 0.." + std::to_string(kMaxWeight));
  }
  return {};
}

Result<void> Scheduler::SetParams(GroupId group, const ResourceParams& params, TimePoint now) {
  Node* node = impl_->Find(group);
  if (node == nullptr) return Fail(ErrorCode::kNotFound, "set parameters: no such group");
  if (Result<void> valid = Impl::Validate(params); !valid) return valid;
  impl_->ApplyParams(node, params, ToNanos(now));
  return {};
}

Result<ResourceParams> Scheduler::Params(GroupId group) const {
  const Node* node = impl_->Find(group);
  if (node == nullptr) return Fail(ErrorCode::kNotFound, "parameters: no such group");
  return node->details->params;
}

void Scheduler::Impl::ApplyParams(Node* node, const ResourceParams& params, int64_t now) {
  if (node->parent != nullptr) {
    SetWeight(node, params.weight);
    for (int k = 0; k < kDimensions; ++k) {
      SetReservation(node, k, ClampRate(params.min[static_cast<size_t>(k)]), now);
    }
  }
  for (int i = 0; i < kDimensions * kScopes; ++i) {
    const size_t k = static_cast<size_t>(i / kScopes), scope = static_cast<size_t>(i % kScopes);
    SetLimit(node, i, params.max[k][scope], params.burst[k][scope], now);
  }
  node->details->params = params;
  Reblock(node, now);
  if (!node->leaf) Settle(node, ClockOf(node, now), PathMask(node), true);
  FixUp(node, now, true);
}

// What a node owes or is owed in virtual time stays the same in cost.
void Scheduler::Impl::SetWeight(Node* node, int64_t weight) {
  if (weight == node->weight) return;
  for (int d = 0; d < 2; ++d) {
    if ((node->available >> d & 1) != 0) OrderHeap(node, d).Erase(node, kWeightSlot + d);
  }
  const int64_t lead = WrapDiff(node->start, VirtualTimeOf(node));
  const bool same_class = (weight != 0) == (node->weight != 0);
  const int64_t old_divisor = node->divisor;
  node->weight = weight;
  node->divisor = std::max<int64_t>(1, weight);
  node->start_remainder = 0;
  const int64_t v = VirtualTimeOf(node);
  if (same_class && lead > 0) {
    const __int128 scaled = static_cast<__int128>(lead) * old_divisor / node->divisor;
    node->start =
        WrapAdd(v, scaled > (int64_t{1} << 60) ? int64_t{1} << 60 : static_cast<int64_t>(scaled));
  } else if (!same_class) {
    node->start = v;
  }
  for (int d = 0; d < 2; ++d) {
    if ((node->available >> d & 1) != 0) {
      OrderHeap(node, d).Push(node, node->start, kWeightSlot + d);
    }
  }
}

void Scheduler::Impl::SetReservation(Node* node, int k, int64_t rate, int64_t now) {
  if (k != 0 && node->other_reservations == nullptr) {
    if (rate == 0) return;
    node->other_reservations = std::make_unique<std::array<Reservation, 2>>();
  }
  Reservation& r = node->ReservationOf(k);
  const int64_t old_rate = r.rate;
  if (rate == old_rate) return;
  if (rate < old_rate) {
    // Service by reservation went ahead of the weighted share; that must not count for what is
    // served by weight from here on.
    for (Node* x = node; x->parent != nullptr; x = x->parent) {
      const int64_t limit = WrapAdd(VirtualTimeOf(x), 2 * (kOp * kVirtualScale / x->divisor + 1));
      if (WrapDiff(x->start, limit) > 0) {
        x->start = limit;
        x->start_remainder = 0;
      }
    }
  }
  r.remainder = 0;
  r.rate = rate;
  if (rate == 0) {
    node->min_mask &= static_cast<uint8_t>(~(1u << k));
    return;
  }
  const int64_t clock = ClockOf(node->parent, now);
  if (old_rate == 0) r.largest = 0;
  r.unit = NanosAt(k == static_cast<int>(Dimension::kBytes) ? kUnitBytes : kOp, rate);
  r.quantum = std::max(r.unit, NanosAt(r.largest, rate));
  if (old_rate == 0) {
    r.tag = clock;
  } else {
    const __int128 lag = static_cast<__int128>(clock - r.tag) * old_rate / rate;
    const __int128 most_debt = static_cast<__int128>(r.unit) * 64 + kDebt;
    r.tag = clock - static_cast<int64_t>(std::clamp<__int128>(lag, -most_debt, kWakeCredit));
  }
  node->min_mask |= static_cast<uint8_t>(1u << k);
}

// Buckets are packed: one for each bit of bucket_mask.
void Scheduler::Impl::ResizeBuckets(Node* node, uint16_t mask) {
  Bucket* packed = nullptr;
  if (mask != 0) {
    packed = static_cast<Bucket*>(bucket_memory.Take(BucketLines(mask)));
    Bucket* to = packed;
    for (int i = 0; i < kDimensions * kScopes; ++i) {
      if ((mask >> i & 1) == 0) continue;
      ::new (to++) Bucket((node->bucket_mask >> i & 1) != 0 ? node->BucketAt(i) : Bucket{});
    }
  }
  if (node->bucket_mask != 0) bucket_memory.GiveBack(node->buckets, BucketLines(node->bucket_mask));
  node->buckets = packed;
  node->bucket_mask = mask;
}

void Scheduler::Impl::SetLimit(Node* node, int i, int64_t rate, int64_t burst, int64_t now) {
  const uint16_t bit = static_cast<uint16_t>(1u << i);
  const bool is_set = (node->bucket_mask & bit) != 0;
  if (rate >= kUnlimited) {
    if (is_set) ResizeBuckets(node, node->bucket_mask & static_cast<uint16_t>(~bit));
    return;
  }
  const size_t k = static_cast<size_t>(i / kScopes), scope = static_cast<size_t>(i % kScopes);
  const ResourceParams& before = node->details->params;
  if (is_set && before.max[k][scope] == rate && before.burst[k][scope] == burst) return;
  if (!is_set) ResizeBuckets(node, node->bucket_mask | bit);
  node->BucketAt(i).SetRate(ClampRate(rate), burst, now, burst_ns);
}

}  // namespace weir::core

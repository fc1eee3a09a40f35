// Looking in: counters, explanations, predictions.
#include <algorithm>

#include "core/scheduler_order.h"

namespace weir::core {

namespace {

void AddBelow(const Node& node, GroupStats* stats) {
  stats->completed += node.completed;
  stats->cancelled += node.details->cancelled;
  stats->expired += node.details->expired;
  stats->throttle_timeouts += node.details->throttle_timeouts;
  stats->in_flight += node.in_flight;
  for (size_t d = 0; d < kDirections; ++d) {
    stats->queued[d] += node.Fifo(static_cast<int>(d)).size;
    stats->queued_cost[d] += node.Fifo(static_cast<int>(d)).cost;
  }
  if (node.histograms != nullptr) {
    stats->wait.Merge(node.histograms->wait);
    stats->service.Merge(node.histograms->service);
  }
  for (const Node* child : node.details->children) AddBelow(*child, stats);
}

Dimension DimensionOf(int bucket) { return static_cast<Dimension>(bucket / kScopes); }
Scope ScopeOf(int bucket) { return static_cast<Scope>(bucket % kScopes); }

}  // namespace

Result<GroupStats> Scheduler::Stats(GroupId group, TimePoint now) const {
  const Node* node = impl_->Find(group);
  if (node == nullptr) return Fail(ErrorCode::kNotFound, "stats: no such group");
  GroupStats stats;
  AddServed(&stats.served, *node);
  if (!node->leaf) stats.departed = node->details->departed;
  for (size_t i = 0; i < kPhases; ++i) {
    const PhaseCount& count = node->CountOf(static_cast<Phase>(i));
    stats.requests_by_phase[i] = count.requests;
    stats.norm_by_phase[i] = count.norm;
    stats.requests += count.requests;
  }
  AddBelow(*node, &stats);
  for (int i = 0; i < kDimensions * kScopes; ++i) {
    stats.blocked_ns[static_cast<size_t>(i / kScopes)][static_cast<size_t>(i % kScopes)] =
        node->details->blocked_ns[static_cast<size_t>(i)];
  }
  for (int d = 0; d < 2; ++d) {
    if ((node->blocked & node->queued & (1u << d)) == 0) continue;
    stats.blocked = true;
    const size_t i = node->blocked_by[d];
    stats.blocked_ns[i / kScopes][i % kScopes] += ToNanos(now) - node->details->blocked_since[d];
  }
  return stats;
}

std::vector<GroupId> Scheduler::Children(GroupId group) const {
  std::vector<GroupId> ids;
  if (const Node* node = impl_->Find(group)) {
    for (const Node* child : node->details->children) ids.push_back(child->id());
  }
  return ids;
}

Explanation Scheduler::Explain(const Request& request, TimePoint now) const {
  Explanation e;
  if (request.state_ != Request::State::kQueued && request.state_ != Request::State::kExpedited) {
    return e;
  }
  const Node* leaf = request.leaf_;
  const int d = static_cast<int>(request.direction);
  e.node = leaf->id();
  e.since = request.enqueued_at;
  if (request.state_ == Request::State::kExpedited) {
    e.why = Explanation::Why::kDeviceBusy;
    return e;
  }
  for (const Request* r = leaf->Fifo(d).head; r != &request; r = RequestFifo::Next(r)) ++e.ahead;
  // Of all limits on the path, the one that opens last.
  const int64_t t = ToNanos(now);
  int64_t latest = t;
  for (const Node* node = leaf; node != nullptr; node = node->parent) {
    uint8_t by = 0;
    const int64_t until = impl_->ClosedUntil(*node, d, t, &by);
    if (until <= latest) continue;
    latest = until;
    e.why = Explanation::Why::kLimit;
    e.node = node->id();
    e.dimension = DimensionOf(by);
    e.scope = ScopeOf(by);
    e.since = (node->blocked >> d & 1) != 0 ? FromNanos(node->details->blocked_since[d]) : now;
    e.until = FromNanos(until);
  }
  if (e.why == Explanation::Why::kLimit) return e;
  if (e.ahead != 0) {
    e.why = Explanation::Why::kBehindOwnQueue;
  } else if (impl_->in_flight >= impl_->depth.depth()) {
    e.why = Explanation::Why::kDeviceBusy;
  } else {
    e.why = Explanation::Why::kBehindSiblings;
  }
  return e;
}

// Each bucket on the path must first drain what it holds, then what this group's FIFO sends ahead.
Duration Scheduler::PredictWait(GroupId group, Direction direction, int64_t cost, int64_t raw,
                                int64_t bytes, TimePoint now) const {
  (void)cost, (void)raw, (void)bytes;  // a request passes whatever its size once a bucket is open
  const Node* leaf = impl_->Find(group);
  if (leaf == nullptr) return Duration(0);
  const int d = static_cast<int>(direction);
  const RequestFifo& ahead = leaf->Fifo(d);
  const int64_t amounts[3] = {ahead.cost, ahead.raw, ahead.bytes};
  const int64_t t = ToNanos(now);
  int64_t wait = 0;
  for (const Node* node = leaf; node != nullptr; node = node->parent) {
    for (unsigned mask = node->bucket_mask & kBucketsOf[d]; mask != 0; mask &= mask - 1) {
      const int i = __builtin_ctz(mask);
      const Bucket& bucket = node->BucketAt(i);
      const int64_t level = std::max<int64_t>(0, bucket.tat - t);
      wait = std::max(wait, level + NanosAt(amounts[i / kScopes], bucket.rate) - bucket.burst_ns);
    }
  }
  return Duration(wait);
}

}  // namespace weir::core

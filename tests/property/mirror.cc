#include "mirror.h"

#include <algorithm>

namespace weir::property {

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kFar = INT64_MAX / 4;

int64_t Narrow(__int128 value) { return value > kFar ? kFar : static_cast<int64_t>(value); }

}  // namespace

void Limit::DrainTo(int64_t now_ns) {
  Add(-static_cast<__int128>(rate) * (now_ns - at_ns));
  if (most_level == 0) slack = 0;
  at_ns = now_ns;
}

void Limit::Add(__int128 amount) {
  least_level = std::max<__int128>(0, least_level + amount);
  most_level = std::max<__int128>(0, most_level + amount);
}

void Limit::ChangeTo(int64_t new_rate, int64_t new_burst_low, int64_t new_burst_high) {
  const auto units = [](int64_t burst) { return static_cast<__int128>(burst) * kSecond; };
  if (rate != 0) {
    slack += rate + new_rate;
    const __int128 least_credit = std::min(units(burst_low) - most_level, units(new_burst_low));
    const __int128 most_credit = std::min(units(burst_high) - least_level, units(new_burst_high));
    least_level = std::max<__int128>(0, units(new_burst_low) - most_credit);
    most_level = std::max<__int128>(0, units(new_burst_high) - least_credit);
  }
  rate = new_rate;
  burst_low = new_burst_low;
  burst_high = new_burst_high;
}

int64_t Limit::SurelyOpenAt() const {
  const __int128 excess = most_level + slack - static_cast<__int128>(burst_low) * kSecond;
  if (excess <= 0) return at_ns;
  return Narrow(at_ns + excess / rate + 2);
}

Mirror::Mirror(core::GroupId root, AutomaticBurst automatic, OnExcess on_excess)
    : automatic_(automatic), on_excess_(std::move(on_excess)) {
  MirrorNode node;
  node.id = root;
  nodes_.push_back(node);
}

int Mirror::Add(int parent, core::GroupId id, const ResourceParams& params, int64_t now_ns) {
  MirrorNode added;
  added.index = static_cast<int>(nodes_.size());
  added.parent = parent;
  added.id = id;
  added.closed_on_path = node(parent).closed_on_path;
  nodes_.push_back(added);
  node(parent).children.push_back(added.index);
  ApplyLimits(&nodes_.back(), params, now_ns);
  for (Observer* o : observers_) o->Reconfigured(nodes_.back(), now_ns);
  return added.index;
}

void Mirror::Remove(int index, int64_t now_ns) {
  MirrorNode& gone = node(index);
  for (int d = 0; d < 2; ++d) {
    gone.queued[static_cast<size_t>(d)] = 0;
    gone.queued_cost[static_cast<size_t>(d)] = 0;
  }
  UpdateReady(index, now_ns);
  gone.removed = true;
  std::vector<int>& siblings = node(gone.parent).children;
  siblings.erase(std::find(siblings.begin(), siblings.end(), index));
  ++node(gone.parent).pins;
  for (Observer* o : observers_) o->Reconfigured(gone, now_ns);
  DepartIfDone(index);
}

void Mirror::DepartIfDone(int index) {
  while (node(index).removed && node(index).in_flight == 0 && node(index).pins == 0) {
    const MirrorNode& gone = node(index);
    MirrorNode& parent = node(gone.parent);
    parent.completed += gone.completed;
    parent.cancelled += gone.cancelled;
    parent.expired += gone.expired;
    --parent.pins;
    index = gone.parent;
  }
}

void Mirror::Completed(int leaf) {
  --node(leaf).in_flight;
  ++node(leaf).completed;
  DepartIfDone(leaf);
}

void Mirror::Move(int index, int new_parent, int64_t now_ns) {
  MirrorNode& moved = node(index);
  const std::array<bool, 2> ready = moved.ready;
  const int closed_before = node(moved.parent).closed_on_path;
  // Take it out as if it had nothing to serve, put it in as if that had just arrived.
  for (size_t d = 0; d < 2; ++d) {
    if (ready[d]) --node(moved.parent).ready_children[d];
  }
  std::vector<int>& siblings = node(moved.parent).children;
  siblings.erase(std::find(siblings.begin(), siblings.end(), index));
  UpdateReady(moved.parent, now_ns);
  moved.parent = new_parent;
  node(new_parent).children.push_back(index);
  for (size_t d = 0; d < 2; ++d) {
    if (ready[d]) ++node(new_parent).ready_children[d];
  }
  AddClosedBelow(&moved, node(new_parent).closed_on_path - closed_before, now_ns);
  UpdateReady(new_parent, now_ns);
  for (Observer* o : observers_) o->Reconfigured(moved, now_ns);
}

void Mirror::SetParams(int index, const ResourceParams& params, int64_t now_ns) {
  ApplyLimits(&node(index), params, now_ns);
  for (Observer* o : observers_) o->Reconfigured(node(index), now_ns);
}

void Mirror::ApplyLimits(MirrorNode* changed, const ResourceParams& params, int64_t now_ns) {
  const ResourceParams before = changed->params;
  changed->params = params;
  for (int i = 0; i < kBuckets; ++i) {
    const size_t k = static_cast<size_t>(i / kScopes), scope = static_cast<size_t>(i % kScopes);
    Limit& limit = changed->limits[static_cast<size_t>(i)];
    const int64_t rate = params.max[k][scope];
    if (rate == kUnlimited) {
      limit = Limit{};
      continue;
    }
    if (limit.rate == 0) limit.at_ns = now_ns;
    limit.DrainTo(now_ns);
    const int64_t new_rate = std::min(rate, kMaxRate);
    const int64_t burst = params.burst[k][scope];
    if (new_rate == limit.rate && burst == before.burst[k][scope]) continue;
    const auto units = [&](int64_t ns) {
      return Narrow(static_cast<__int128>(new_rate) * ns / kSecond);
    };
    limit.ChangeTo(
        new_rate, burst >= 0 ? burst : units(automatic_.least_ns),
        burst >= 0 ? burst : 1 + std::max(units(automatic_.most_ns), automatic_.largest[k]));
  }
  UpdateClosed(changed, now_ns);
}

void Mirror::Enqueued(int leaf, Direction direction, int64_t cost, int64_t now_ns) {
  const size_t d = static_cast<size_t>(direction);
  ++node(leaf).queued[d];
  node(leaf).queued_cost[d] += cost;
  UpdateReady(leaf, now_ns);
}

void Mirror::Withdrawn(int leaf, Direction direction, int64_t cost, int64_t now_ns) {
  const size_t d = static_cast<size_t>(direction);
  --node(leaf).queued[d];
  node(leaf).queued_cost[d] -= cost;
  UpdateReady(leaf, now_ns);
}

void Mirror::Dispatched(int leaf, Direction direction, const Amounts& amounts, bool bypass,
                        int64_t now_ns) {
  const int d = static_cast<int>(direction);
  if (!bypass) {
    --node(leaf).queued[static_cast<size_t>(d)];
    node(leaf).queued_cost[static_cast<size_t>(d)] -= amounts[0];
  }
  for (int index = leaf; index >= 0; index = node(index).parent) {
    MirrorNode& x = node(index);
    ++x.dispatched;
    for (size_t k = 0; k < kDimensions; ++k) x.served[k][static_cast<size_t>(d)] += amounts[k];
    for (Observer* o : observers_) o->Served(x, amounts, now_ns);
    for (int i = 0; i < kBuckets; ++i) {
      Limit& limit = x.limits[static_cast<size_t>(i)];
      if (limit.rate == 0 || !BucketCounts(i, d)) continue;
      limit.DrainTo(now_ns);
      const __int128 excess = limit.least_level -
                              static_cast<__int128>(limit.burst_high) * kSecond - limit.slack -
                              limit.rate;
      if (!bypass && excess > 0) on_excess_(x, i, static_cast<double>(excess) / 1e9);
      limit.Add(static_cast<__int128>(amounts[static_cast<size_t>(i / kScopes)]) * kSecond);
    }
    UpdateClosed(&x, now_ns);
  }
  UpdateReady(leaf, now_ns);
}

void Mirror::Corrected(int leaf, Direction direction, int64_t delta, int64_t now_ns) {
  const int d = static_cast<int>(direction);
  for (int index = leaf; index >= 0; index = node(index).parent) {
    MirrorNode& x = node(index);
    x.served[0][static_cast<size_t>(d)] += delta;
    for (int i = 0; i < kScopes; ++i) {
      Limit& limit = x.limits[static_cast<size_t>(i)];
      if (limit.rate == 0 || !BucketCounts(i, d)) continue;
      limit.DrainTo(now_ns);
      limit.Add(static_cast<__int128>(delta) * kSecond);
      limit.slack += limit.rate;
    }
    UpdateClosed(&x, now_ns);
  }
}

void Mirror::AdvanceTo(int64_t now_ns) {
  while (!openings_.empty() && openings_.top().at_ns <= now_ns) {
    const Opening opening = openings_.top();
    openings_.pop();
    if (node(opening.node).opens_at_ns == opening.at_ns) {
      UpdateClosed(&node(opening.node), opening.at_ns);
    }
  }
}

void Mirror::Touch(int64_t now_ns) {
  for (const MirrorNode& x : nodes_) {
    if (x.removed) continue;
    for (Observer* o : observers_) o->BeforeChange(x, now_ns);
    for (Observer* o : observers_) o->AfterChange(x, now_ns);
  }
}

void Mirror::UpdateClosed(MirrorNode* changed, int64_t now_ns) {
  int64_t opens = kFar;
  int change = 0;
  for (int d = 0; d < 2; ++d) {
    bool closed = false;
    for (int i = 0; i < kBuckets; ++i) {
      const Limit& limit = changed->limits[static_cast<size_t>(i)];
      if (limit.rate == 0 || !BucketCounts(i, d)) continue;
      const int64_t at = limit.SurelyOpenAt();
      if (at <= now_ns) continue;
      closed = true;
      opens = std::min(opens, at);
    }
    bool& was = changed->closed[static_cast<size_t>(d)];
    change += (closed ? 1 : 0) - (was ? 1 : 0);
    was = closed;
  }
  if (opens >= kFar) opens = INT64_MAX;
  if (opens != changed->opens_at_ns && opens != INT64_MAX) openings_.push({opens, changed->index});
  changed->opens_at_ns = opens;
  if (change != 0) AddClosedBelow(changed, change, now_ns);
  UpdateReady(changed->index, now_ns);
}

void Mirror::AddClosedBelow(MirrorNode* top, int change, int64_t now_ns) {
  if (change == 0) return;
  for (Observer* o : observers_) o->BeforeChange(*top, now_ns);
  top->closed_on_path += change;
  for (Observer* o : observers_) o->AfterChange(*top, now_ns);
  for (const int child : top->children) AddClosedBelow(&node(child), change, now_ns);
}

void Mirror::UpdateReady(int index, int64_t now_ns) {
  while (index >= 0) {
    MirrorNode& x = node(index);
    std::array<bool, 2> ready{};
    for (size_t d = 0; d < 2; ++d) {
      ready[d] = (x.leaf() ? x.queued[d] > 0 : x.ready_children[d] > 0) && !x.closed[d];
    }
    if (ready == x.ready) return;
    for (Observer* o : observers_) o->BeforeChange(x, now_ns);
    if (x.parent >= 0) {
      for (size_t d = 0; d < 2; ++d) {
        node(x.parent).ready_children[d] += (ready[d] ? 1 : 0) - (x.ready[d] ? 1 : 0);
      }
    }
    x.ready = ready;
    for (Observer* o : observers_) o->AfterChange(x, now_ns);
    index = x.parent;
  }
}

std::vector<int> Mirror::Leaves() const {
  std::vector<int> leaves;
  for (const MirrorNode& x : nodes_) {
    if (!x.removed && x.leaf() && x.parent >= 0) leaves.push_back(x.index);
  }
  return leaves;
}

}  // namespace weir::property

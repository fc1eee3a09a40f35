#include "datapath/uring/pass_through.h"

namespace weir::uring {

namespace {

int At(Direction direction) { return static_cast<int>(direction); }
int At(core::Phase phase) { return static_cast<int>(phase); }

}  // namespace

PassThrough::Group* PassThrough::Find(core::GroupId id) {
  if (id.index >= groups_.size()) return nullptr;
  Group& group = groups_[id.index];
  return group.id == id ? &group : nullptr;
}

template <typename F>
void PassThrough::ForPath(core::GroupId id, F f) {
  const Group* leaf = Find(id);
  if (leaf == nullptr) return;
  for (uint32_t at = id.index; at != UINT32_MAX; at = groups_[at].parent) f(groups_[at].stats);
}

void PassThrough::AddRoot(core::GroupId root) {
  groups_.resize(root.index + 1);
  groups_[root.index].id = root;
}

void PassThrough::Add(core::GroupId group, core::GroupId parent) {
  if (groups_.size() <= group.index) groups_.resize(group.index + 1);
  groups_[group.index] = Group{};
  groups_[group.index].id = group;
  groups_[group.index].parent = parent.index;
  ++groups_[parent.index].children;
}

void PassThrough::Move(core::GroupId group, core::GroupId parent) {
  Group& moved = groups_[group.index];
  --groups_[moved.parent].children;
  moved.parent = parent.index;
  ++groups_[parent.index].children;
}

void PassThrough::Remove(core::GroupId group, std::vector<core::Request*>* orphans) {
  for (Piece* piece = front_; piece != nullptr;) {
    Piece* next = piece->next_waiting;
    if (piece->request.group == group) {
      Leave(piece);
      orphans->push_back(&piece->request);
    }
    piece = next;
  }
  const uint64_t in_flight = groups_[group.index].stats.in_flight;
  ForPath(group, [&](core::GroupStats& stats) { stats.in_flight -= in_flight; });
  --groups_[groups_[group.index].parent].children;
  groups_[group.index].id = core::GroupId{};
}

Result<void> PassThrough::Enqueue(Piece* piece, TimePoint now) {
  core::Request& request = piece->request;
  const Group* group = Find(request.group);
  if (group == nullptr) {
    return Fail(ErrorCode::kNotFound, "cannot submit: there is no such group");
  }
  if (group->children != 0) {
    return Fail(ErrorCode::kFailedPrecondition,
                "cannot submit: the group has groups below it; submit to one of those");
  }
  request.enqueued_at = now;
  piece->next_waiting = nullptr;
  piece->prev_waiting = back_;
  (back_ == nullptr ? front_ : back_->next_waiting) = piece;
  back_ = piece;
  ForPath(request.group, [&](core::GroupStats& stats) {
    ++stats.queued[At(request.direction)];
    stats.queued_cost[At(request.direction)] += request.cost;
  });
  return {};
}

void PassThrough::Unlink(Piece* piece) {
  (piece->prev_waiting == nullptr ? front_ : piece->prev_waiting->next_waiting) =
      piece->next_waiting;
  (piece->next_waiting == nullptr ? back_ : piece->next_waiting->prev_waiting) =
      piece->prev_waiting;
}

void PassThrough::Leave(Piece* piece) {
  Unlink(piece);
  const core::Request& request = piece->request;
  ForPath(request.group, [&](core::GroupStats& stats) {
    --stats.queued[At(request.direction)];
    stats.queued_cost[At(request.direction)] -= request.cost;
  });
}

Piece* PassThrough::Dispatch(TimePoint now) {
  Piece* piece = front_;
  if (piece == nullptr) return nullptr;
  Unlink(piece);
  core::Request& request = piece->request;
  request.dispatched_at = now;
  request.phase = core::Phase::kWeight;
  cost_in_flight_ += request.cost;
  const int64_t amounts[kDimensions] = {request.cost, request.raw, request.bytes};
  ForPath(request.group, [&](core::GroupStats& stats) {
    const int direction = At(request.direction);
    --stats.queued[direction];
    stats.queued_cost[direction] -= request.cost;
    for (int d = 0; d < kDimensions; ++d) stats.served[d][direction] += amounts[d];
    ++stats.requests_by_phase[At(request.phase)];
    stats.norm_by_phase[At(request.phase)] += request.cost;
    ++stats.requests;
    ++stats.in_flight;
    stats.wait.Record(now - request.enqueued_at);
  });
  return piece;
}

void PassThrough::Complete(Piece* piece, TimePoint now) {
  const core::Request& request = piece->request;
  cost_in_flight_ -= request.cost;
  ForPath(request.group, [&](core::GroupStats& stats) {
    ++stats.completed;
    --stats.in_flight;
    stats.service.Record(now - request.dispatched_at);
  });
}

bool PassThrough::Cancel(Piece* piece) {
  if (piece->in_flight) return false;
  Leave(piece);
  ForPath(piece->request.group, [](core::GroupStats& stats) { ++stats.cancelled; });
  return true;
}

Piece* PassThrough::PopExpired(TimePoint now) {
  Piece* piece = front_;
  if (piece == nullptr || piece->request.deadline > now) return nullptr;
  Leave(piece);
  ForPath(piece->request.group, [](core::GroupStats& stats) { ++stats.expired; });
  return piece;
}

void PassThrough::TakeQueued(std::vector<core::Request*>* out) {
  while (front_ != nullptr) {
    out->push_back(&front_->request);
    Leave(front_);
  }
}

const core::GroupStats* PassThrough::Stats(core::GroupId id) const {
  const bool known = id.index < groups_.size() && groups_[id.index].id == id;
  return known ? &groups_[id.index].stats : nullptr;
}

}  // namespace weir::uring

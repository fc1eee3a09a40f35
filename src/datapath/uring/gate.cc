#include "datapath/uring/gate.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::uring {

namespace {

const char* KindName(GroupChange::Kind kind) {
  switch (kind) {
    case GroupChange::Kind::kAdd:
      return "add a group";
    case GroupChange::Kind::kSetParams:
      return "set parameters";
    case GroupChange::Kind::kMove:
      return "move a group";
    case GroupChange::Kind::kRemove:
      return "remove a group";
  }
  return "unknown";
}

bool Contains(const std::vector<core::GroupId>& groups, core::GroupId group) {
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

// Says which element of a set was wrong.
tl::unexpected<Error> InChange(const std::vector<GroupChange>& changes, size_t index, Error error) {
  if (changes.size() > 1) {
    error.message = fmt::format("change {} of the set ({}): {}", index,
                                KindName(changes[index].kind), error.message);
  }
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace

Gate::Gate(const EngineOptions& options)
    : isolation_(options.isolation), scheduler_(options.scheduler) {
  const core::GroupId root = scheduler_.root();
  parents_.resize(root.index + 1);
  plain_.AddRoot(root);
}

Duration Gate::PredictWait(const Op& op, int64_t cost, int64_t raw, TimePoint now) const {
  if (!isolation_) return Duration(0);
  return scheduler_.PredictWait(op.io.group, op.direction(), cost, raw, op.io.bytes, now);
}

void Gate::TakeAllQueued(TimePoint now, std::vector<core::Request*>* out) {
  if (!isolation_) return plain_.TakeQueued(out);
  std::vector<core::GroupId> todo{scheduler_.root()};
  while (!todo.empty()) {
    const core::GroupId group = todo.back();
    todo.pop_back();
    const std::vector<core::GroupId> children = scheduler_.Children(group);
    if (children.empty()) static_cast<void>(scheduler_.TakeQueued(group, now, out));
    todo.insert(todo.end(), children.begin(), children.end());
  }
}

Result<core::GroupStats> Gate::Stats(core::GroupId group, TimePoint now) const {
  if (isolation_) return scheduler_.Stats(group, now);
  const core::GroupStats* stats = plain_.Stats(group);
  if (stats == nullptr) return Fail(ErrorCode::kNotFound, "no statistics: there is no such group");
  return *stats;
}

Result<core::GroupId> Gate::Add(core::GroupId parent, const ResourceParams& params, TimePoint now) {
  Result<core::GroupId> added = scheduler_.AddGroup(parent, params, now);
  if (!added) return added;
  if (parents_.size() <= added->index) parents_.resize(added->index + 1);
  parents_[added->index] = parent;
  plain_.Add(*added, parent);
  return added;
}

Result<void> Gate::Move(core::GroupId group, core::GroupId parent, TimePoint now) {
  Result<void> moved = scheduler_.MoveGroup(group, parent, now);
  if (!moved) return moved;
  parents_[group.index] = parent;
  plain_.Move(group, parent);
  return moved;
}

Result<core::GroupId> Gate::ApplyOne(const GroupChange& change,
                                     const std::vector<core::GroupId>& done, TimePoint now,
                                     std::vector<Undo>* undo) {
  if (change.kind == GroupChange::Kind::kSetParams) {
    Result<ResourceParams> old = scheduler_.Params(change.group);
    if (!old) return tl::unexpected(old.error());
    Result<void> set = scheduler_.SetParams(change.group, change.params, now);
    if (!set) return tl::unexpected(set.error());
    undo->push_back(Undo{change.kind, change.group, {}, *old});
    return change.group;
  }
  core::GroupId parent = change.parent;
  if (change.parent_change >= 0) {
    if (static_cast<size_t>(change.parent_change) >= done.size()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("parent_change is {}, which is not an earlier element",
                              change.parent_change));
    }
    parent = done[static_cast<size_t>(change.parent_change)];
  }
  if (change.kind == GroupChange::Kind::kAdd) {
    Result<core::GroupId> added = Add(parent, change.params, now);
    if (added) undo->push_back(Undo{change.kind, *added, {}, {}});
    return added;
  }
  const core::GroupId old_parent =
      change.group.index < parents_.size() ? parents_[change.group.index] : core::GroupId{};
  Result<void> moved = Move(change.group, parent, now);
  if (!moved) return tl::unexpected(moved.error());
  undo->push_back(Undo{change.kind, change.group, old_parent, {}});
  return change.group;
}

void Gate::RollBack(const std::vector<Undo>& undo, TimePoint now) {
  for (auto step = undo.rbegin(); step != undo.rend(); ++step) {
    switch (step->kind) {
      case GroupChange::Kind::kAdd: {
        // Nothing can be queued in a group that was added at this instant.
        std::vector<core::Request*> none;
        Remove(GroupChange{.kind = GroupChange::Kind::kRemove, .group = step->group}, now, &none);
        break;
      }
      case GroupChange::Kind::kSetParams:
        static_cast<void>(scheduler_.SetParams(step->group, step->old_params, now));
        break;
      case GroupChange::Kind::kMove:
        static_cast<void>(Move(step->group, step->old_parent, now));
        break;
      case GroupChange::Kind::kRemove:
        break;
    }
  }
}

Result<void> Gate::CheckRemoval(const GroupChange& change,
                                const std::vector<core::GroupId>& removed_before,
                                const std::vector<core::GroupId>& removed_at_all) const {
  if (!scheduler_.Params(change.group) || Contains(removed_before, change.group)) {
    return Fail(ErrorCode::kNotFound, "there is no such group");
  }
  if (change.group == scheduler_.root()) {
    return Fail(ErrorCode::kFailedPrecondition, "the root cannot be removed");
  }
  for (const core::GroupId child : scheduler_.Children(change.group)) {
    if (!Contains(removed_before, child)) {
      return Fail(ErrorCode::kFailedPrecondition,
                  "the group has groups below it; remove or move those first");
    }
  }
  if (!change.queued_to) return {};
  if (!scheduler_.Params(*change.queued_to) || Contains(removed_at_all, *change.queued_to)) {
    return Fail(ErrorCode::kNotFound,
                "the group that is to take over the queued requests does not exist");
  }
  if (!scheduler_.Children(*change.queued_to).empty()) {
    return Fail(ErrorCode::kFailedPrecondition,
                "the group that is to take over the queued requests has groups below it");
  }
  return {};
}

void Gate::Remove(const GroupChange& change, TimePoint now, std::vector<core::Request*>* orphans) {
  std::vector<core::Request*> queued;
  plain_.Remove(change.group, &queued);
  static_cast<void>(scheduler_.RemoveGroup(change.group, now, &queued));
  for (core::Request* request : queued) {
    if (change.queued_to) {
      request->group = *change.queued_to;
      PieceOf(request)->op->io.group = *change.queued_to;  // for the pieces to come
      if (Enqueue(PieceOf(request), now)) continue;
    }
    orphans->push_back(request);
  }
}

Result<std::vector<core::GroupId>> Gate::Apply(const std::vector<GroupChange>& changes,
                                               TimePoint now,
                                               std::vector<core::Request*>* orphans) {
  std::vector<core::GroupId> done;
  std::vector<Undo> undo;
  std::vector<core::GroupId> to_remove;
  for (size_t i = 0; i < changes.size(); ++i) {
    if (changes[i].kind == GroupChange::Kind::kRemove) {
      to_remove.push_back(changes[i].group);
      done.push_back(changes[i].group);
      continue;
    }
    Result<core::GroupId> group = ApplyOne(changes[i], done, now, &undo);
    if (!group) {
      RollBack(undo, now);
      return InChange(changes, i, std::move(group.error()));
    }
    done.push_back(*group);
  }
  std::vector<core::GroupId> removed;
  for (size_t i = 0; i < changes.size(); ++i) {
    if (changes[i].kind != GroupChange::Kind::kRemove) continue;
    Result<void> possible = CheckRemoval(changes[i], removed, to_remove);
    if (!possible) {
      RollBack(undo, now);
      return InChange(changes, i, std::move(possible.error()));
    }
    removed.push_back(changes[i].group);
  }
  for (const GroupChange& change : changes) {
    if (change.kind == GroupChange::Kind::kRemove) Remove(change, now, orphans);
  }
  return done;
}

}  // namespace weir::uring

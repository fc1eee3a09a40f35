// Decides when a piece goes to the device: the scheduler, or order of arrival when isolation is
// off; and changes the tree. Internal. Threads: the owner.
#pragma once

#include <optional>
#include <vector>

#include "core/scheduler.h"
#include "datapath/uring/op.h"
#include "datapath/uring/pass_through.h"

namespace weir::uring {

class Gate {
 public:
  explicit Gate(const EngineOptions& options);

  // --- Data path: as core::Scheduler's functions of these names.
  [[nodiscard]] Result<void> Enqueue(Piece* piece, TimePoint now) {
    return isolation_ ? scheduler_.Enqueue(&piece->request, now) : plain_.Enqueue(piece, now);
  }
  [[nodiscard]] Piece* Dispatch(TimePoint now) {
    return isolation_ ? PieceOrNull(scheduler_.Dispatch(now)) : plain_.Dispatch(now);
  }
  void Complete(Piece* piece, TimePoint now) {
    isolation_ ? scheduler_.Complete(&piece->request, now) : plain_.Complete(piece, now);
  }
  bool Cancel(Piece* piece, TimePoint now) {
    return isolation_ ? scheduler_.Cancel(&piece->request, now) : plain_.Cancel(piece);
  }
  [[nodiscard]] Piece* PopExpired(TimePoint now) {
    return isolation_ ? PieceOrNull(scheduler_.PopExpired(now)) : plain_.PopExpired(now);
  }
  [[nodiscard]] TimePoint NextWakeup(TimePoint now) const {
    return isolation_ ? scheduler_.NextWakeup(now) : kNever;
  }
  [[nodiscard]] Duration PredictWait(const Op& op, int64_t cost, int64_t raw, TimePoint now) const;
  // True while the bound on the cost in flight is used up.
  [[nodiscard]] bool DeviceFull() const {
    return isolation_ && scheduler_.cost_in_flight() >= scheduler_.depth();
  }
  // Takes every queued request of every group.
  void TakeAllQueued(TimePoint now, std::vector<core::Request*>* out);

  // --- The tree.

  // As Engine::Apply. Requests that were queued in a removed group and go nowhere are appended to
  // `orphans`.
  [[nodiscard]] Result<std::vector<core::GroupId>> Apply(const std::vector<GroupChange>& changes,
                                                         TimePoint now,
                                                         std::vector<core::Request*>* orphans);
  [[nodiscard]] Result<core::GroupStats> Stats(core::GroupId group, TimePoint now) const;
  [[nodiscard]] int64_t cost_in_flight() const {
    return isolation_ ? scheduler_.cost_in_flight() : plain_.cost_in_flight();
  }
  [[nodiscard]] core::Scheduler* scheduler() { return &scheduler_; }

 private:
  struct Undo {
    GroupChange::Kind kind;
    core::GroupId group;
    core::GroupId old_parent;
    ResourceParams old_params;
  };

  static Piece* PieceOrNull(core::Request* request) {
    return request == nullptr ? nullptr : PieceOf(request);
  }
  [[nodiscard]] Result<core::GroupId> ApplyOne(const GroupChange& change,
                                               const std::vector<core::GroupId>& done,
                                               TimePoint now, std::vector<Undo>* undo);
  void RollBack(const std::vector<Undo>& undo, TimePoint now);
  [[nodiscard]] Result<void> CheckRemoval(const GroupChange& change,
                                          const std::vector<core::GroupId>& removed_before,
                                          const std::vector<core::GroupId>& removed_at_all) const;
  void Remove(const GroupChange& change, TimePoint now, std::vector<core::Request*>* orphans);
  [[nodiscard]] Result<core::GroupId> Add(core::GroupId parent, const ResourceParams& params,
                                          TimePoint now);
  [[nodiscard]] Result<void> Move(core::GroupId group, core::GroupId parent, TimePoint now);

  const bool isolation_;
  core::Scheduler scheduler_;  // holds the tree in either case
  PassThrough plain_;
  std::vector<core::GroupId> parents_;  // by GroupId::index
};

}  // namespace weir::uring

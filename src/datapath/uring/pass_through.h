// What takes the scheduler's place when isolation is off: order of arrival, and counting. Internal.
// Threads: the owner.
#pragma once

#include <vector>

#include "base/result.h"
#include "datapath/uring/op.h"

namespace weir::uring {

class PassThrough {
 public:
  // The tree, as core::Scheduler has built it.
  void AddRoot(core::GroupId root);
  void Add(core::GroupId group, core::GroupId parent);
  void Move(core::GroupId group, core::GroupId parent);
  // Queued requests of the group are appended to `orphans`.
  void Remove(core::GroupId group, std::vector<core::Request*>* orphans);

  // As core::Scheduler's functions of these names.
  [[nodiscard]] Result<void> Enqueue(Piece* piece, TimePoint now);
  [[nodiscard]] Piece* Dispatch(TimePoint now);
  void Complete(Piece* piece, TimePoint now);
  bool Cancel(Piece* piece);
  [[nodiscard]] Piece* PopExpired(TimePoint now);  // looks at the front only
  void TakeQueued(std::vector<core::Request*>* out);
  [[nodiscard]] const core::GroupStats* Stats(core::GroupId group) const;
  [[nodiscard]] int64_t cost_in_flight() const { return cost_in_flight_; }

 private:
  struct Group {
    core::GroupId id;
    uint32_t parent = UINT32_MAX;
    uint32_t children = 0;
    core::GroupStats stats;
  };
  [[nodiscard]] Group* Find(core::GroupId id);
  // Calls f(stats) for the group and all above; nothing if it was removed.
  template <typename F>
  void ForPath(core::GroupId id, F f);
  void Unlink(Piece* piece);
  void Leave(Piece* piece);  // the queue, undispatched

  std::vector<Group> groups_;  // by GroupId::index
  Piece* front_ = nullptr;
  Piece* back_ = nullptr;
  int64_t cost_in_flight_ = 0;
};

}  // namespace weir::uring

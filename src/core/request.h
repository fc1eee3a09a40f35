// A request as the scheduler sees it: intrusive, owned by the caller, never allocated here.
#pragma once

#include <cstdint>

#include "base/resource_params.h"
#include "base/time.h"

namespace weir::core {

// Names a node of the tree. A removed node's id is never mistaken for a later one's.
struct GroupId {
  uint32_t index = UINT32_MAX;
  uint32_t generation = 0;
  friend bool operator==(const GroupId&, const GroupId&) = default;
};

// By which promise a request was served.
enum class Phase : uint8_t { kReservation = 0, kWeight = 1, kLeftover = 2, kExpedited = 3 };
inline constexpr int kPhases = 4;

class Scheduler;
struct Node;

// The caller fills the first part before Enqueue and keeps the object alive and unmoved until
// Dispatch has returned it and Complete has taken it back, or Cancel or PopExpired gave it back.
struct Request {
  GroupId group;  // a leaf
  Direction direction = Direction::kRead;
  bool sync = false;             // somebody waits in fsync for this: lifts the leaf's writes
  Phase phase = Phase::kWeight;  // set at dispatch: by which promise it was served

 private:
  friend class Scheduler;
  friend struct RequestFifo;
  friend class DeadlineHeap;
  enum class State : uint8_t { kIdle, kQueued, kExpedited, kInFlight };
  State state_ = State::kIdle;
  bool in_deadlines_ = false;
  bool in_headroom_ = false;

 public:
  int64_t cost = kOp;           // normalised, in 1/65536 op; > 0
  int64_t raw = kOp;            // raw ops, in 1/65536 op (merged requests: kOp each); > 0
  int64_t bytes = 0;            // >= 0
  TimePoint deadline = kNever;  // PopExpired gives the request back from here on
  TimePoint enqueued_at{};      // set at enqueue
  TimePoint dispatched_at{};    // set at dispatch
  void* context = nullptr;      // the caller's

 private:
  Request* next_ = nullptr;
  Request* prev_ = nullptr;
  Node* leaf_ = nullptr;
  Request* heap_child_ = nullptr;  // pairing heap of deadlines
  Request* heap_next_ = nullptr;
  Request* heap_prev_ = nullptr;
};

}  // namespace weir::core

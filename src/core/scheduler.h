// The hierarchical I/O scheduler: reservation, limit and weight at every node of a tree.
//
// PURE: no clock, threads, files or randomness; every call is given `now`, which must not run
// backwards. Threads: one owner; all calls on one thread at a time.
// Cost: Enqueue, Dispatch, Complete and Cancel are O(depth * log children) and never allocate.
//
// Sources: mClock (Gulati et al., OSDI 2010) for reservation and limit tags; SFQ(D) (Jin et al.,
// SIGMETRICS 2004) for start-time fair queueing over a device of depth D; GCRA (ITU-T I.371) for
// limits. docs/scheduler.md has the algorithm, its bounds and the mathematics.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/resource_params.h"
#include "base/result.h"
#include "base/time.h"
#include "core/depth_controller.h"
#include "core/request.h"

namespace weir::core {

// Named maxima.
inline constexpr int kMaxDepth = 8;  // levels below the root
inline constexpr uint32_t kMaxGroups = 100'000;

struct SchedulerOptions {
  // What the device serves, in 1/65536 normalised op per second. Only bounds that are expressed
  // in device time depend on it (how long reservations may be late before over-commit is assumed).
  int64_t capacity_per_s = 10'000 * kOp;
  DepthOptions depth;
  // Reservations in raw ops and in bytes are priced, so that they cannot take more device time
  // than was admitted: a raw op of `raw_op_price` normalised cost, and a byte of
  // kOp / bytes_per_op normalised cost, count once; dearer ones count in proportion.
  int64_t raw_op_price = kOp;
  int64_t bytes_per_op = 16 * 1024;
  bool histograms = true;  // wait and service time for each leaf (2.6 kB each)
};

// Why a queued request has not been dispatched.
struct Explanation {
  enum class Why : uint8_t {
    kNotQueued,       // unknown, in flight or done
    kLimit,           // `node` is over `dimension`/`scope` until `until`
    kDeviceBusy,      // the bound on the cost in flight is reached
    kBehindSiblings,  // eligible; others are owed more at `node`'s parent
    kBehindOwnQueue,  // requests of the same group and direction are ahead
  };
  Why why = Why::kNotQueued;
  GroupId node;
  Dimension dimension = Dimension::kNorm;
  Scope scope = Scope::kBoth;
  TimePoint since{};   // since when `node` is blocked, or the request waits
  TimePoint until{};   // kLimit: when the bucket opens again
  uint64_t ahead = 0;  // requests of the same FIFO in front
};

// Totals since the node was added (never reset). Sums of a parent equal those of its children
// plus `departed`; counters of inner nodes are their own, kept at dispatch.
struct GroupStats {
  std::array<std::array<int64_t, kDirections>, kDimensions> served{};  // units of ResourceParams
  // served - (sum of the children's served): what children that left had, less what arrivals
  // brought.
  std::array<std::array<int64_t, kDirections>, kDimensions> departed{};
  std::array<uint64_t, kPhases> requests_by_phase{};
  std::array<int64_t, kPhases> norm_by_phase{};
  uint64_t requests = 0;   // dispatched
  uint64_t completed = 0;  // and given back; this node and below
  uint64_t cancelled = 0;
  uint64_t expired = 0;  // deadline passed while queued ("throttle timeout" when a limit blocked)
  uint64_t throttle_timeouts = 0;
  std::array<uint64_t, kDirections> queued{};      // now
  std::array<int64_t, kDirections> queued_cost{};  // now, 1/65536 norm op
  uint64_t in_flight = 0;                          // now
  // Time in which this node's own limit held back waiting requests, by dimension and scope.
  std::array<std::array<int64_t, kScopes>, kDimensions> blocked_ns{};
  bool blocked = false;     // now, by its own limit, in some direction
  CoarseHistogram wait;     // enqueue -> dispatch, this node and below
  CoarseHistogram service;  // dispatch -> complete
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // --- The tree. Control path: may allocate. All take effect at the next Dispatch.

  [[nodiscard]] GroupId root() const;

  // A new leaf under `parent`. Errors: kNotFound; kResourceExhausted (kMaxDepth, kMaxGroups);
  // kFailedPrecondition (`parent` is a leaf with queued requests: TakeQueued first, then Enqueue
  // them to a child); kInvalidArgument (as SetParams). Nothing changes on error.
  [[nodiscard]] Result<GroupId> AddGroup(GroupId parent, const ResourceParams& params,
                                         TimePoint now);

  // Removes a node without children. Queued requests are appended to `orphans`, in order; those in
  // flight complete as usual. Errors: kNotFound; kFailedPrecondition (children, or the root).
  [[nodiscard]] Result<void> RemoveGroup(GroupId group, TimePoint now,
                                         std::vector<Request*>* orphans);

  // Moves a node with all below it. Debt and credit move along. Errors: kNotFound;
  // kFailedPrecondition (into itself or below, or `new_parent` has queued requests);
  // kResourceExhausted (depth).
  [[nodiscard]] Result<void> MoveGroup(GroupId group, GroupId new_parent, TimePoint now);

  // Any or all parameters at once, exactly: debt is kept in units. Errors: kNotFound;
  // kInvalidArgument (negative or zero limit, MIN above MAX, weight out of [0, kMaxWeight]);
  // nothing changes then. Rates above kMaxRate count as kMaxRate.
  [[nodiscard]] Result<void> SetParams(GroupId group, const ResourceParams& params, TimePoint now);
  [[nodiscard]] Result<ResourceParams> Params(GroupId group) const;

  // Takes all queued requests out of a leaf, uncharged, appended to `out` in order of each FIFO.
  [[nodiscard]] Result<void> TakeQueued(GroupId group, TimePoint now, std::vector<Request*>* out);

  // --- The data path. No allocation.

  // Errors: kNotFound (no such group), kFailedPrecondition (not a leaf), kInvalidArgument (cost,
  // raw or bytes out of range). The request is untouched then.
  [[nodiscard]] Result<void> Enqueue(Request* request, TimePoint now);

  // The next request to send to the device, or nullptr: none is eligible, or the device is full.
  // Call again until nullptr after each Enqueue, Complete or change, and at NextWakeup().
  [[nodiscard]] Request* Dispatch(TimePoint now);

  // Gives back what Dispatch returned. `actual_cost` > 0 corrects the charged cost, both ways.
  void Complete(Request* request, TimePoint now, int64_t actual_cost = 0);

  // True if the request was still queued: it is out, nothing was charged.
  bool Cancel(Request* request, TimePoint now);

  // Lets a queued request pass ahead of limits and of all others, since somebody else waits for
  // it (a journal, a lock). Its group is charged in full and pays the debt later.
  bool Expedite(Request* request, TimePoint now);

  // A queued request whose deadline is <= now, taken out and uncharged; nullptr if none.
  [[nodiscard]] Request* PopExpired(TimePoint now);

  // When Dispatch or PopExpired may have something to give although nothing else happens; kNever
  // if only an Enqueue, Complete or change can bring that about.
  [[nodiscard]] TimePoint NextWakeup(TimePoint now) const;

  // A lower bound, from the limits on the path and what is queued ahead in the group's FIFO, of
  // the wait of a request enqueued now. 0 if no limit would hold it back.
  [[nodiscard]] Duration PredictWait(GroupId group, Direction direction, int64_t cost, int64_t raw,
                                     int64_t bytes, TimePoint now) const;

  // --- Looking in.

  [[nodiscard]] Explanation Explain(const Request& request, TimePoint now) const;
  [[nodiscard]] Result<GroupStats> Stats(GroupId group, TimePoint now) const;
  [[nodiscard]] std::vector<GroupId> Children(GroupId group) const;
  [[nodiscard]] int64_t cost_in_flight() const;
  [[nodiscard]] uint64_t requests_in_flight() const;
  [[nodiscard]] int64_t depth() const;     // D: the bound on the cost in flight, 1/65536 op
  [[nodiscard]] int64_t headroom() const;  // H: what due requests may use beyond D
  void SetCapacity(int64_t capacity_per_s);
  void SetDepth(int64_t depth);  // fixes D; ends automatic control
  // True while an eligible request waits and the device is not full (Dispatch would give one).
  [[nodiscard]] bool HasEligible(TimePoint now);

  // Recomputes the whole structure by brute force and aborts on any difference. O(nodes); tests.
  void CheckStructure(TimePoint now);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::core

// The scheduler's state and steps. Private; split over scheduler*.cc by task.
//
// Clocks. Each parent p has a reservation clock for its children: now, less the offsets of all
// nodes from the root to p. An offset grows when reservations below cannot be kept (over-commit):
// slowing the clock forgives all children alike, so order and ratio stay exact.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/check.h"
#include "core/deadline_heap.h"
#include "core/line_arena.h"
#include "core/node.h"
#include "core/scheduler.h"

namespace weir::core {

// --- Constants; docs/scheduler.md, "Constants", says how each was found.
inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kVirtualScale = 1 << 10;  // virtual time of a cost unit at weight 1
inline constexpr int64_t kDebt = 1 * kMs;          // B
inline constexpr int kDebtRequests = 2;
inline constexpr int kForgetLargest = 256;        // requests after which 63 % is forgotten
inline constexpr int64_t kUnitBytes = 16 * 1024;  // one unit of a reservation in bytes
inline constexpr int64_t kWakeCredit = 4 * kMs;   // g
inline constexpr int64_t kMinHold = 6 * kMs;      // G at least
inline constexpr int kLeadRequests = 8;
inline constexpr int kLeadSteps = 4;
inline constexpr int kLeadAdvances = 8;
inline constexpr int64_t kWriteAge = 5 * kMs;
inline constexpr int kReadsPerWrite = 4;
inline constexpr int kWritesPerRead = 4;               // while somebody waits in fsync
inline constexpr int64_t kForgetStart = 60'000 * kMs;  // asleep longer: S is re-based, not compared
inline constexpr int64_t kLargestWindow = 1'000 * kMs;
inline constexpr int64_t kDefaultBurst = 10 * kMs;

// Buckets that a request of a direction passes: its own scope and "both", in every dimension.
inline constexpr uint16_t kBucketsOf[2] = {0b101101101, 0b110110110};

struct Scheduler::Impl {
  explicit Impl(const SchedulerOptions& options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // --- Names (scheduler_tree.cc).
  [[nodiscard]] Node* Find(GroupId id) const {
    if (id.index >= nodes.size()) return nullptr;
    Node* node = nodes[id.index];
    return node != nullptr && generations[id.index] == id.generation && !node->removed ? node
                                                                                       : nullptr;
  }
  Node* NewNode();
  void FreeIfUnused(Node* node);

  // --- Clocks and reservation keys (scheduler_clock.cc).
  [[nodiscard]] int64_t ClockOf(const Node* parent, int64_t now) const {
    int64_t clock = now;
    for (; parent != nullptr; parent = parent->parent) clock -= parent->clock_offset;
    return clock;
  }
  // G of a parent: shrinks with the level, so that an over-commit inside a tenant never outranks
  // tenants that are late.
  [[nodiscard]] int64_t HoldOf(const Node* parent) const { return hold_at[parent->level]; }
  // Advances the clock of parent's children to `clock`: wakes what became due, and holds the clock
  // back when reservations are late. Returns the clock after that.
  int64_t Settle(Node* parent, int64_t clock, uint8_t mask, bool released);
  void WakeDue(Node* parent, int d, int64_t clock, uint8_t mask);
  int64_t HoldClock(Node* parent, int64_t clock, uint8_t mask);
  void ForgiveDirection(Node* parent, int d, int64_t clock);
  [[nodiscard]] bool OnlyThisDirectionIsLate(const Node& parent, int d, int64_t clock,
                                             int64_t limit) const;
  static void ComputeKeys(Node* node, int d);
  // When the next child of an inner node becomes due, in the coordinates of the node's parent.
  [[nodiscard]] static int64_t NextDueBelow(const Node& node, int d);
  // Whether a node that was due still is, although the clock may have been held back meanwhile.
  [[nodiscard]] static bool StillDue(Node* node, int d, int64_t clock);
  // Computes the keys and puts the node where they belong among its parent's reservations.
  static void PlaceReservation(Node* node, int d, int64_t clock);
  [[nodiscard]] uint8_t PathMask(const Node* node) const {
    uint8_t mask = kBothBits;
    for (; node != nullptr; node = node->parent) mask &= static_cast<uint8_t>(~node->blocked);
    return mask;
  }

  // --- Limits.
  [[nodiscard]] int64_t ClosedUntil(const Node& node, int d, int64_t now, uint8_t* by) const;
  void Reblock(Node* node, int64_t now);
  void RunTimers(int64_t now);

  // --- Availability and order among siblings.
  IndexedHeap<Node>& OrderHeap(Node* node, int d) {
    ChildHeaps& heaps = *node->parent->heaps;
    return node->weight != 0 ? heaps.weighted[d] : heaps.leftover[d];
  }
  static int64_t& VirtualTimeOf(Node* node) {
    return node->weight != 0 ? node->parent->heaps->virtual_time
                             : node->parent->heaps->leftover_virtual_time;
  }
  // Sets available, and moves the node within its parent's heaps.
  void Reorder(Node* node, uint8_t available, int64_t parent_clock);
  static uint8_t QueuedBelow(const Node& parent);
  [[nodiscard]] static int64_t LatenessBeside(const Node* node, int64_t clock);
  void Wake(Node* node, int64_t parent_clock, int64_t now);
  // After a change at `node`: mends availability and keys from here up to the root.
  // `whole`: all the way, even where nothing seems to change (virtual starts were set by hand).
  void FixUp(Node* node, int64_t now, bool whole = false);

  // --- Data path (scheduler.cc).
  static Direction ChooseDirection(Node* leaf, uint8_t mask, int64_t now);
  void TakeFromFifo(Request* request);
  void Withdraw(Request* request, int64_t now);
  struct Path {
    int length = 0;
    uint8_t mask = 0;              // open directions of the leaf
    Phase phase[kMaxDepth + 1];    // how the node of level i + 1 was picked
    int64_t clock[kMaxDepth + 1];  // of the parent at level i
  };
  Node* Descend(bool due_only, int64_t now, Path* path);
  Node* PickChild(Node* parent, int64_t clock, uint8_t mask, bool due_only, Phase* phase);
  void ChargePath(Request* request, const Path& path, int64_t now);
  void NoteReservedSize(Node* leaf, const Request& request);
  void ChargeReservation(Node* node, const Request& request, int64_t parent_clock);
  void ChargeWeight(Node* node, int64_t cost, Phase phase, int64_t now);
  [[nodiscard]] int64_t Lead(const Node& node, int64_t step) const;
  void ChargeLimits(Node* node, const Request& request, int64_t now);
  void Started(Request* request, bool in_headroom, int64_t now);
  Request* DispatchExpedited(int64_t now, bool in_headroom);
  void CorrectCost(Request* request, int64_t delta, int64_t now);
  // What a request counts for in a reservation of dimension `k`.
  [[nodiscard]] int64_t Priced(const Request& request, int k) const {
    if (k == 1) return std::max(request.raw, PricedRaw(request.cost));
    if (k == 2) return std::max(request.bytes, PricedBytes(request.cost));
    return request.cost;
  }
  // What a cost counts for in a reservation of raw ops and of bytes (see SchedulerOptions).
  [[nodiscard]] int64_t PricedRaw(int64_t cost) const {
    return static_cast<int64_t>(static_cast<__int128>(cost) * kOp / options.raw_op_price);
  }
  [[nodiscard]] int64_t PricedBytes(int64_t cost) const {
    return static_cast<int64_t>(static_cast<__int128>(cost) * options.bytes_per_op / kOp);
  }

  // --- Bounds that depend on depth and request sizes.
  void NoteSize(int64_t cost, int64_t now);
  void UpdateHold();

  // --- Changes (scheduler_tree.cc).
  static Result<void> Validate(const ResourceParams& params);
  void ApplyParams(Node* node, const ResourceParams& params, int64_t now);
  void SetReservation(Node* node, int k, int64_t rate, int64_t now);
  void SetLimit(Node* node, int bucket, int64_t rate, int64_t burst, int64_t now);
  void ResizeBuckets(Node* node, uint16_t mask);
  void SetWeight(Node* node, int64_t weight);
  void MakeParent(Node* node);
  void Attach(Node* node, Node* parent);
  void Detach(Node* node, int64_t now);

  // --- Checks (scheduler_check.cc).
  void CheckNode(const Node& node, int64_t now) const;

  SchedulerOptions options;
  DepthController depth;
  LineArena node_memory;
  LineArena bucket_memory;
  std::vector<Node*> nodes;  // by index; nullptr = free
  std::vector<uint32_t> free_nodes;
  std::vector<uint32_t> generations;
  Node* root = nullptr;
  IndexedHeap<Node> timers;  // by the time a limit opens
  DeadlineHeap deadlines;
  RequestFifo expedited;

  int64_t in_flight = 0;           // cost
  int64_t headroom_in_flight = 0;  // of it, dispatched beyond D
  uint64_t requests_in_flight = 0;
  int64_t hold_at[kMaxDepth + 1] = {};  // G by level
  int deepest_parent = 0;               // level, of all parents so far
  int64_t largest = kOp;                // recent largest cost
  int64_t largest_window = 0, largest_before = 0, largest_since = 0;
  int64_t largest_ns = 0;            // device time of the largest
  int64_t burst_ns = kDefaultBurst;  // of limits without a configured burst
  uint32_t live_nodes = 0;
};

}  // namespace weir::core

// A node of the tree and its parts. Private to the scheduler.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/histogram.h"
#include "core/bucket.h"
#include "core/heap.h"
#include "core/line_arena.h"
#include "core/request.h"

namespace weir::core {

// Bits of a direction mask: who can be served in which direction.
inline constexpr uint8_t kReadBit = 1;
inline constexpr uint8_t kWriteBit = 2;
inline constexpr uint8_t kBothBits = 3;
constexpr uint8_t BitOf(Direction d) { return static_cast<uint8_t>(1u << static_cast<int>(d)); }

// Slots of Node::heap_pos.
inline constexpr int kWeightSlot = 0;   // + direction
inline constexpr int kDueSlot = 2;      // + direction
inline constexpr int kWaitingSlot = 4;  // + direction
inline constexpr int kTimerSlot = 6;
inline constexpr int kHeapSlots = 7;

// No reservation: in no reservation heap.
inline constexpr int64_t kNoKey = kFarFuture;
// An inner node that has a due child is due whatever the time.
inline constexpr int64_t kDueNow = -kFarFuture;

struct RequestFifo {
  Request* head = nullptr;
  Request* tail = nullptr;
  uint64_t size = 0;
  int64_t cost = 0, raw = 0, bytes = 0;  // sums

  void PushBack(Request* r) {
    r->next_ = nullptr;
    r->prev_ = tail;
    (tail != nullptr ? tail->next_ : head) = r;
    tail = r;
    ++size;
    cost += r->cost;
    raw += r->raw;
    bytes += r->bytes;
  }
  void Remove(Request* r) {
    (r->prev_ != nullptr ? r->prev_->next_ : head) = r->next_;
    (r->next_ != nullptr ? r->next_->prev_ : tail) = r->prev_;
    r->next_ = r->prev_ = nullptr;
    --size;
    cost -= r->cost;
    raw -= r->raw;
    bytes -= r->bytes;
  }
  static Request* Next(const Request* r) { return r->next_; }
};

// A reservation in one dimension, as a tag in the parent's clock: lag = (clock - tag) * rate. The
// tag of a waiting node stands still, so its lag grows by itself.
struct Reservation {
  int64_t tag = 0;
  int64_t rate = 0;       // units per second
  int64_t remainder = 0;  // of the tag's division
  int64_t quantum = 0;    // time of the largest recent request: deadline = tag + quantum
  int64_t unit = 0;       // time of one unit (1 op, 16 KiB), the least quantum
  int64_t largest = 0;    // units of the largest recent request, slowly decaying
};

// Bits of Node::place. An inner node may be in both heaps: due by one child, while another, whose
// deadline may be earlier, becomes due at a known time.
inline constexpr uint8_t kInWaiting = 1;
inline constexpr uint8_t kInDue = 2;

// What a node keeps for its children. All heaps by direction: a parent can skip a child that has
// only the direction a limit blocks.
struct ChildHeaps {
  IndexedHeap<struct Node> weighted[2];  // by virtual start
  IndexedHeap<struct Node> leftover[2];  // weight 0, by virtual start
  IndexedHeap<struct Node> waiting[2];   // by the time when they, or something below, become due
  IndexedHeap<struct Node> due[2];       // due reservations, by deadline

  int64_t virtual_time = 0;           // V of the weighted children
  int64_t leftover_virtual_time = 0;  // V of the weight-0 children
  int64_t recent_step = 0;            // of V, decaying maximum
  int64_t recent_advance = 0;         // of V in 10 ms
  int64_t advance_from = 0;
  int64_t advance_since = 0;
  int64_t last_open[2] = {0, 0};  // clock when the direction was last open down to here
};

// By dimension and direction.
using ServedCounters = std::array<std::array<int64_t, kDirections>, kDimensions>;

struct PhaseCount {
  int64_t norm = 0;
  uint64_t requests = 0;
};

struct LeafHistograms {
  CoarseHistogram wait;
  CoarseHistogram service;
};

// What is seldom touched.
struct NodeDetails {
  int64_t blocked_since[2] = {0, 0};
  std::array<int64_t, kDimensions * kScopes> blocked_ns{};
  ServedCounters departed{};
  uint64_t cancelled = 0, expired = 0, throttle_timeouts = 0;
  uint32_t index = 0;
  uint32_t generation = 0;
  uint32_t pins = 0;  // removed children, and expedited requests, that still need this node
  std::vector<Node*> children;
  ResourceParams params;
};

// The lines of a node that a read touches: the first. A write touches all.
inline constexpr size_t kLinesOfRead = 5;

// Seven cache lines. At ten thousand groups a dispatch costs what the lines and pages cost that it
// misses.
struct alignas(64) Node {
  // Line 0: who can be served, and the place in the weighted order.
  Node* parent = nullptr;
  uint8_t available = 0;      // directions that can be served: queued & ~blocked
  uint8_t queued = 0;         // directions with requests here or below
  uint8_t blocked = 0;        // directions closed by this node's own limits
  uint8_t min_mask = 0;       // dimensions with a reservation
  uint8_t place[2] = {0, 0};  // kInWaiting, kInDue
  bool leaf = true;
  uint8_t level = 0;         // 0 = root
  uint16_t bucket_mask = 0;  // dimension * 3 + scope
  bool timer_set = false;
  bool removed = false;
  uint8_t blocked_by[2] = {0, 0};  // bucket index
  int64_t start = 0;               // S: virtual start of the next request
  int64_t start_remainder = 0;
  int32_t weight = 1;
  int32_t divisor = 1;                // max(weight, 1)
  int64_t clock_offset = 0;           // clock(this) = clock(parent) - offset
  std::unique_ptr<ChildHeaps> heaps;  // inner nodes

  // Line 1: reservation keys, in the parent's clock; positions in heaps.
  int64_t due_time[2] = {kNoKey, kNoKey};
  int64_t deadline[2] = {kNoKey, kNoKey};
  uint32_t heap_pos[kHeapSlots] = {};
  uint32_t sync_queued = 0;  // of a leaf

  // Line 2.
  Reservation norm_reservation;
  Bucket* buckets = nullptr;  // one for each bit of bucket_mask, in its order
  std::unique_ptr<LeafHistograms> histograms;

  // Line 3: the requests of a leaf.
  RequestFifo reads;
  uint64_t completed = 0;
  uint32_t in_flight = 0;
  uint16_t reads_in_a_row = 0;   // passed while writes waited
  uint16_t writes_in_a_row = 0;  // and the reverse

  // Line 4: counters, with those of reads.
  std::array<int64_t, kDimensions> served_reads{};
  std::array<PhaseCount, 2> by_promise{};  // reservation, weight
  int64_t asleep_since = 0;

  // Line 5: the writes of a leaf, and what is seldom touched.
  RequestFifo writes;
  std::unique_ptr<NodeDetails> details = std::make_unique<NodeDetails>();
  std::unique_ptr<std::array<Reservation, 2>> other_reservations;  // raw, bytes

  // Line 6: counters, with those of writes.
  std::array<int64_t, kDimensions> served_writes{};
  std::array<PhaseCount, 2> by_chance{};  // leftover, expedited
  int64_t unused = 0;

  [[nodiscard]] GroupId id() const { return GroupId{details->index, details->generation}; }
  [[nodiscard]] RequestFifo& Fifo(int d) { return d == 0 ? reads : writes; }
  [[nodiscard]] const RequestFifo& Fifo(int d) const { return d == 0 ? reads : writes; }
  [[nodiscard]] RequestFifo& Fifo(Direction d) { return Fifo(static_cast<int>(d)); }
  // By dimension.
  [[nodiscard]] std::array<int64_t, kDimensions>& Served(int d) {
    return d == 0 ? served_reads : served_writes;
  }
  [[nodiscard]] const std::array<int64_t, kDimensions>& Served(int d) const {
    return d == 0 ? served_reads : served_writes;
  }
  [[nodiscard]] PhaseCount& CountOf(Phase phase) {
    const auto i = static_cast<size_t>(phase);
    return i < 2 ? by_promise[i] : by_chance[i - 2];
  }
  [[nodiscard]] const PhaseCount& CountOf(Phase phase) const {
    const auto i = static_cast<size_t>(phase);
    return i < 2 ? by_promise[i] : by_chance[i - 2];
  }
  [[nodiscard]] Reservation& ReservationOf(int k) {
    return k == 0 ? norm_reservation : (*other_reservations)[static_cast<size_t>(k - 1)];
  }
  [[nodiscard]] const Reservation& ReservationOf(int k) const {
    return k == 0 ? norm_reservation : (*other_reservations)[static_cast<size_t>(k - 1)];
  }
  // Requires: bit `i` of bucket_mask.
  [[nodiscard]] Bucket& BucketAt(int i) const {
    return buckets[static_cast<size_t>(__builtin_popcount(bucket_mask & ((1u << i) - 1)))];
  }
};
static_assert(sizeof(Node) == 7 * kLineBytes);

// Adds what `node` served to *to, or takes it off.
inline void AddServed(ServedCounters* to, const Node& node, int sign = 1) {
  for (int d = 0; d < kDirections; ++d) {
    for (size_t k = 0; k < kDimensions; ++k) {
      (*to)[k][static_cast<size_t>(d)] += sign * node.Served(d)[k];
    }
  }
}

}  // namespace weir::core

// What the scheduler promises, kept a second time and independently of it: the tree, its limits in
// exact units, who has requests waiting, and who could be served now.
//
// The meters of the invariants watch it through Observer.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "base/resource_params.h"
#include "core/request.h"

namespace weir::property {

inline constexpr int kBuckets = kDimensions * kScopes;

// Amounts of one request, in the units of ResourceParams, by Dimension.
using Amounts = std::array<int64_t, kDimensions>;

// A limit as an exact leaky bucket.
struct Limit {
  int64_t rate = 0;  // 0 = none
  // What the bucket may hold when a request passes. An automatic burst is known only within bounds.
  int64_t burst_low = 0;
  int64_t burst_high = 0;
  // What it holds, units * 1e9; two bounds, since a change keeps what may still pass at once, and
  // that depends on the burst.
  __int128 least_level = 0;
  __int128 most_level = 0;
  int64_t at_ns = 0;   // time of the levels
  __int128 slack = 0;  // as a level: what live changes and refunds may have lost in rounding

  void DrainTo(int64_t now_ns);
  void Add(__int128 amount);
  // What may still pass at once, or is owed, stays the same number of units, clipped to the burst.
  void ChangeTo(int64_t new_rate, int64_t new_burst_low, int64_t new_burst_high);
  // From when on the bucket is open beyond any rounding.
  [[nodiscard]] int64_t SurelyOpenAt() const;
};

struct MirrorNode {
  int index = 0;
  int parent = -1;
  core::GroupId id;
  ResourceParams params;
  std::vector<int> children;
  bool removed = false;

  std::array<Limit, kBuckets> limits;
  std::array<int64_t, 2> queued{};      // leaf: requests waiting, by direction
  std::array<int, 2> ready_children{};  // inner node
  std::array<bool, 2> closed{};         // by its own limits
  std::array<bool, 2> ready{};          // something here or below could pass up to here
  int closed_on_path = 0;               // closed (node, direction) pairs from the root to here
  int64_t opens_at_ns = INT64_MAX;      // when the first of its closed directions opens

  // Counters, to be reconciled with GroupStats.
  std::array<std::array<int64_t, 2>, kDimensions> served{};
  uint64_t dispatched = 0;
  uint64_t completed = 0, cancelled = 0, expired = 0;  // without those of the nodes below
  int64_t in_flight = 0;                               // as a leaf
  int pins = 0;  // expedited requests; removed children that still have requests somewhere
  std::array<int64_t, 2> queued_cost{};

  [[nodiscard]] bool leaf() const { return children.empty(); }
  // Waiting, and no limit of its own or above is in force in any direction.
  [[nodiscard]] bool unhindered() const { return (ready[0] || ready[1]) && closed_on_path == 0; }
};

class Mirror;

// What meters are told. Nodes are given by index; times in ns.
class Observer {
 public:
  virtual ~Observer() = default;
  // `node`'s ready or closed_on_path is about to change (still the old values).
  virtual void BeforeChange(const MirrorNode& node, int64_t now_ns) { (void)node, (void)now_ns; }
  virtual void AfterChange(const MirrorNode& node, int64_t now_ns) { (void)node, (void)now_ns; }
  // A request was dispatched from below or at `node`; called from the leaf to the root.
  virtual void Served(const MirrorNode& node, const Amounts& amounts, int64_t now_ns) {
    (void)node, (void)amounts, (void)now_ns;
  }
  // Parameters, or the place in the tree, of `node` changed.
  virtual void Reconfigured(const MirrorNode& node, int64_t now_ns) { (void)node, (void)now_ns; }
};

class Mirror {
 public:
  // Automatic bursts hold between `least` and `most` ns of rate, plus one own largest request.
  struct AutomaticBurst {
    int64_t least_ns = 10'000'000;
    int64_t most_ns = 10'000'000;
    Amounts largest{};
  };
  // What is passed by a limit although it was not open: node, bucket, excess in units.
  using OnExcess = std::function<void(const MirrorNode&, int bucket, double excess)>;

  Mirror(core::GroupId root, AutomaticBurst automatic, OnExcess on_excess);

  void AddObserver(Observer* observer) { observers_.push_back(observer); }

  int Add(int parent, core::GroupId id, const ResourceParams& params, int64_t now_ns);
  void Remove(int node, int64_t now_ns);
  void Move(int node, int new_parent, int64_t now_ns);
  void SetParams(int node, const ResourceParams& params, int64_t now_ns);

  void Enqueued(int leaf, Direction direction, int64_t cost, int64_t now_ns);
  void Withdrawn(int leaf, Direction direction, int64_t cost, int64_t now_ns);
  // `bypass`: expedited, no limit had to be open; and it was withdrawn before.
  void Dispatched(int leaf, Direction direction, const Amounts& amounts, bool bypass,
                  int64_t now_ns);
  void Corrected(int leaf, Direction direction, int64_t delta, int64_t now_ns);

  // Opens the limits whose time has come.
  void AdvanceTo(int64_t now_ns);
  // A request of a leaf, removed or not, came back from the device.
  void Completed(int leaf);
  // Hands the counters of a removed node to its parent once no request names it any more.
  void DepartIfDone(int index);
  // Tells observers a last time, so that meters that integrate are up to date.
  void Touch(int64_t now_ns);

  [[nodiscard]] const MirrorNode& node(int index) const {
    return nodes_[static_cast<size_t>(index)];
  }
  [[nodiscard]] MirrorNode& node(int index) { return nodes_[static_cast<size_t>(index)]; }
  [[nodiscard]] size_t size() const { return nodes_.size(); }
  [[nodiscard]] const MirrorNode& root() const { return nodes_[0]; }
  [[nodiscard]] std::vector<int> Leaves() const;

 private:
  struct Opening {
    int64_t at_ns;
    int node;
    bool operator<(const Opening& other) const { return at_ns > other.at_ns; }
  };
  void ApplyLimits(MirrorNode* node, const ResourceParams& params, int64_t now_ns);
  void UpdateClosed(MirrorNode* node, int64_t now_ns);
  void AddClosedBelow(MirrorNode* node, int change, int64_t now_ns);
  // Recomputes ready of `node` and, where it changes, of those above.
  void UpdateReady(int index, int64_t now_ns);

  std::vector<MirrorNode> nodes_;
  std::priority_queue<Opening> openings_;
  std::vector<Observer*> observers_;
  AutomaticBurst automatic_;
  OnExcess on_excess_;
};

// True if bucket `i` counts requests of direction `d`.
constexpr bool BucketCounts(int i, int d) {
  return i % kScopes == static_cast<int>(Scope::kBoth) || i % kScopes == d;
}

}  // namespace weir::property

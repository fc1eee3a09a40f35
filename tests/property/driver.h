// Runs the scheduler in virtual time against a virtual device, with loads, and keeps the Mirror up
// to date. Deterministic: the same calls and seed give the same run. Independent of src/sim.
//
// Groups are named by the index of their mirror node, which is never used twice; 0 is the root.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "base/random.h"
#include "core/scheduler.h"
#include "mirror.h"
#include "virtual_device.h"

namespace weir::property {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kSecond = 1'000 * kMs;
inline constexpr int64_t kForever = INT64_MAX / 4;

constexpr int64_t Ops(double ops) { return static_cast<int64_t>(ops * kOp); }

// 16 KiB = 1 op; at least 1/8.
int64_t CostOf(int64_t bytes);

struct Load {
  enum class Kind : uint8_t {
    kSaturating,  // keeps `outstanding` requests waiting in the scheduler
    kClosed,      // `outstanding` clients: request, wait, think
    kOpen,        // `rate_per_s` requests, exponentially spaced
  };
  Kind kind = Kind::kSaturating;
  int group = 0;
  int outstanding = 32;
  double rate_per_s = 0;
  int64_t think_ns = 0;  // mean; varies by half both ways
  // Mean lengths of the phases of an on-off load; off_ns = 0: always on. Not for kOpen.
  int64_t on_ns = 0, off_ns = 0;
  double write_share = 0;
  int64_t start_ns = 0, stop_ns = kForever;
  // Sizes in bytes, log-uniform within, at CostOf(); bytes_max = 0: all are of `cost`, at 16 KiB an
  // op.
  int64_t bytes_min = 0, bytes_max = 0;
  int64_t cost = kOp;
  int64_t patience_ns = 0;  // each request's deadline, after its arrival; 0 = none
};

struct DriverOptions {
  DeviceOptions device;
  uint64_t seed = 1;
  int64_t depth = 16 * kOp;    // D; 0 = automatic
  int64_t largest_cost = kOp;  // of any request of the run
  double cost_error = 0;       // requests turn out dearer or cheaper by up to this share
  double cost_share = 1;       // and cost this share of what was charged
};

class Driver {
 public:
  explicit Driver(const DriverOptions& options);

  // --- The tree. An error of the scheduler aborts: the callers know what is allowed.
  int Add(int parent, const ResourceParams& params);
  int AddWeighted(int parent, int64_t weight);
  void Remove(int group);  // its loads end, what waits is dropped
  void Move(int group, int new_parent);
  void Set(int group, const ResourceParams& params);
  void SetWeight(int group, int64_t weight);
  void SetMin(int group, Dimension dimension, int64_t rate);
  void SetMax(int group, Dimension dimension, Scope scope, int64_t rate, int64_t burst = -1);
  [[nodiscard]] const ResourceParams& Params(int group) const { return mirror_.node(group).params; }

  // --- Load and time.
  int Start(const Load& load);  // returns its index
  void StopLoad(int load) { loads_[static_cast<size_t>(load)].load.stop_ns = now_; }
  void StopAllLoads();
  // One request now, of the load's kind.
  core::Request* Issue(const Load& load);
  void At(int64_t ns, std::function<void()> action);
  void RunUntil(int64_t ns);
  // Runs until nothing waits or is in flight, at most until `ns`.
  void Drain(int64_t ns);

  bool Cancel(core::Request* request);
  bool Expedite(core::Request* request);
  // A request that waits now (not expedited), or nullptr.
  [[nodiscard]] core::Request* AnyQueued(Random* random);

  // --- Looking in.
  [[nodiscard]] int64_t now() const { return now_; }
  [[nodiscard]] core::Scheduler& scheduler() { return *scheduler_; }
  [[nodiscard]] Mirror& mirror() { return mirror_; }
  [[nodiscard]] const DriverOptions& options() const { return options_; }
  [[nodiscard]] core::GroupStats Stats(int group);
  // Normalised operations dispatched from the group and below since the start.
  [[nodiscard]] double Served(int group) const;
  [[nodiscard]] size_t waiting() const { return queued_.size() + expedited_; }

  // Called for every dispatched request, before it goes to the device, and for every completed one.
  std::function<void(const core::Request&, int leaf)> on_dispatch;
  std::function<void(const core::Request&, int leaf)> on_complete;
  // A promise was broken: invariant number (0 = other) and what happened. Default: abort.
  std::function<void(int invariant, const std::string& what)> on_violation;

 private:
  struct Pending {
    core::Request request;
    int leaf = 0;
    int load = -1;  // -1: issued by hand
    uint64_t sequence = 0;
    bool expedited = false;
    bool dispatched = false;
    size_t slot = 0;  // in queued_
  };
  struct LoadState {
    Load load;
    bool on = true;
    int waiting = 0;      // in the scheduler
    int outstanding = 0;  // in the scheduler or the device, or thinking
  };
  enum class EventKind : uint8_t { kPump, kComplete, kStart, kArrival, kThought, kToggle, kAction };
  struct Event {
    int64_t at_ns;
    uint64_t order;
    EventKind kind;
    size_t argument;
    Pending* pending;
    bool operator<(const Event& other) const {
      return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
    }
  };

  void Schedule(int64_t at_ns, EventKind kind, size_t argument, Pending* pending = nullptr);
  void Handle(const Event& event);
  Pending* NewPending();
  void Unlist(Pending* pending);
  Pending* IssueFor(const Load& load, int load_index);
  void TopUp(size_t load);
  [[nodiscard]] bool Active(const LoadState& state) const;
  void Left(Pending* pending);  // dispatched, cancelled, expired or dropped
  void Finished(Pending* pending);
  void Pump();
  void Dispatched(Pending* pending);
  void CheckAfterPump();
  void AdvanceTo(int64_t ns);
  void PumpSoon();
  void Violation(int invariant, const std::string& what);

  DriverOptions options_;
  Random random_;
  VirtualDevice device_;
  std::unique_ptr<core::Scheduler> scheduler_;
  Mirror mirror_;
  std::deque<LoadState> loads_;
  std::deque<Pending> pool_;
  std::vector<Pending*> free_;
  std::vector<Pending*> queued_;
  size_t expedited_ = 0;
  std::vector<std::function<void()>> actions_;
  std::priority_queue<Event> events_;
  std::vector<std::array<uint64_t, 2>> last_sequence_;  // by leaf and direction
  uint64_t next_order_ = 0;
  uint64_t next_sequence_ = 0;
  int64_t now_ = 0;
  int64_t wake_at_ = -1;
  bool pump_soon_ = false;
};

}  // namespace weir::property

// A scheduler, a virtual device and loads in virtual time: what `weir sim` runs, and what tests
// drive directly, with trees, costs and changes of their own.
//
// PURE: the seed alone decides what happens. Threads: one. Callbacks may call everything except
// RunUntil().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "base/random.h"
#include "core/scheduler.h"
#include "sim/virtual_device.h"

namespace weir::sim {

struct WorldOptions {
  core::SchedulerOptions scheduler;
  DeviceOptions device;
  // Completions are seen at once, except that whoever reaps them is away for the first
  // `reaper_away` of every `reaper_period`. 0 = never away.
  Duration reaper_period{0}, reaper_away{0};
  // Complete() is told what the device really took (see World::true_cost).
  bool report_actual_cost = false;
};

// Options for a device of `capacity` normalised op/s with `parallelism` slots, and a fixed bound on
// the cost in flight of `depth` op (0: twice the parallelism), as most tests want it.
[[nodiscard]] WorldOptions FixedDepthWorld(double capacity, int parallelism, int64_t depth = 0);

struct LoadSpec {
  core::GroupId group;

  // Closed loop: `outstanding` requests, each followed by the next after `think`: uniform within
  // +- think_spread (0..1) of it, or exponential with that mean when `think_random`. Open loop when
  // rate > 0: Poisson arrivals, or equally spaced ones when `even`.
  int outstanding = 1;
  Duration think{0};
  double think_spread = 0;
  bool think_random = false;
  double rate = 0;  // per second
  bool even = false;

  Duration start{0};
  Duration stop = Duration::max();     // no new requests from here on
  Duration burst_on{0}, burst_off{0};  // active, silent, active, ...; 0 = always active
  bool burst_random = false;           // exponential with these means
  Duration deadline{0};                // of each request; 0 = none
  // Do not queue a request whose predicted wait reaches its deadline; it counts as rejected. Either
  // way a closed loop tries again kRetryAfterFailure after a request that failed, and thinking.
  bool fail_fast = false;

  // What a request is: cost uniform in [cost, max(cost, cost_max)], bytes_per_op bytes for each op
  // of cost, one raw op, a write with probability write_share ...
  int64_t cost = kOp;
  int64_t cost_max = 0;
  int64_t bytes_per_op = 16 * 1024;
  double write_share = 0;
  bool sync = false;
  // ... or whatever this sets: direction, cost, raw, bytes, sync.
  std::function<void(Random*, core::Request*)> shape;
};

inline constexpr Duration kRetryAfterFailure = std::chrono::milliseconds(10);

class World {
 public:
  using LoadId = int;
  static constexpr LoadId kNoLoad = -1;

  World(const WorldOptions& options, uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] core::Scheduler& scheduler() { return scheduler_; }
  [[nodiscard]] const core::Scheduler& scheduler() const { return scheduler_; }
  [[nodiscard]] VirtualDevice& device() { return device_; }
  [[nodiscard]] Random& random() { return random_; }
  [[nodiscard]] TimePoint now() const { return now_; }
  [[nodiscard]] Duration elapsed() const { return now_.time_since_epoch(); }

  // The tree. As the scheduler's calls of the same name, at now(); errors abort, since they are
  // mistakes of the caller. Requests queued in a removed group are dropped, its loads stop.
  core::GroupId AddGroup(core::GroupId parent, const ResourceParams& params);
  void SetParams(core::GroupId group, const ResourceParams& params);
  void MoveGroup(core::GroupId group, core::GroupId parent);
  void RemoveGroup(core::GroupId group);
  [[nodiscard]] core::GroupId Parent(core::GroupId group) const;
  [[nodiscard]] ResourceParams Params(core::GroupId group) const;
  [[nodiscard]] core::GroupStats Stats(core::GroupId group) const;

  LoadId AddLoad(const LoadSpec& spec);
  void StopLoad(LoadId load);
  // Requests beyond what the load sends by itself; no reaction to their completion.
  void Issue(LoadId load, int count = 1);
  // One request with everything set by the caller. The pointer is good until it completes, expires
  // or is dropped. nullptr: the group is gone.
  core::Request* Submit(const core::Request& request);

  // After direct calls to scheduler() from outside RunUntil(): dispatch at now().
  void Kick();

  // Runs `action` at that time (now, if it has passed).
  void At(Duration time, std::function<void()> action);
  void RunUntil(Duration time);

  // Hooks; all are called in the order they were added.
  using RequestHook = std::function<void(const core::Request&)>;
  void OnDispatch(RequestHook hook) { on_dispatch_.push_back(std::move(hook)); }
  void OnComplete(RequestHook hook) { on_complete_.push_back(std::move(hook)); }
  void OnExpire(RequestHook hook) { on_expire_.push_back(std::move(hook)); }
  // Before requests are dispatched, after everything that happens at one point in time.
  void OnStep(std::function<void()> hook) { on_step_.push_back(std::move(hook)); }
  // After requests were dispatched: Dispatch() has just said that there are none to give.
  void OnIdle(std::function<void()> hook) { on_idle_.push_back(std::move(hook)); }

  // What the device really has to do for a request; its charged cost unless set.
  std::function<int64_t(const core::Request&, Random*)> true_cost;

  // The load a request belongs to, and its number within it, from 1; kNoLoad for Submit().
  [[nodiscard]] static LoadId LoadOf(const core::Request& request);
  [[nodiscard]] static uint64_t SequenceOf(const core::Request& request);

  [[nodiscard]] uint64_t rejected(LoadId load) const;
  [[nodiscard]] uint64_t issued(LoadId load) const;
  [[nodiscard]] int load_count() const { return static_cast<int>(loads_.size()); }

 private:
  struct SimRequest;
  struct Load;
  enum class EventKind : uint8_t {
    kWake,
    kCompletion,
    kLoadStart,
    kArrival,
    kThinkDone,
    kBurstOn,
    kBurstOff,
    kCall
  };
  struct Event {
    int64_t at;
    uint64_t order;  // events of one time happen in the order they were scheduled
    EventKind kind;
    int32_t index;  // load or call
    SimRequest* request;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  void Schedule(int64_t at, EventKind kind, int32_t index, SimRequest* request);
  void Handle(const Event& event);
  void HandleCompletion(SimRequest* request);
  void Pump();
  void Expire();
  void ScheduleWakeup();
  void SendToDevice(core::Request* request);
  void StartLoad(Load* load);
  void Arrive(Load* load);
  void Refill(Load* load);
  bool IssueOne(Load* load, bool answered);
  void AfterRequest(int32_t load_index);
  void GiveBack(SimRequest* request, Duration pause);
  [[nodiscard]] bool Sending(const Load& load) const;
  [[nodiscard]] int64_t BurstLength(const Load& load, Duration mean);
  [[nodiscard]] int64_t SeenAt(int64_t done) const;
  SimRequest* Take();
  void Release(SimRequest* request);

  WorldOptions options_;
  core::Scheduler scheduler_;
  VirtualDevice device_;
  Random random_;
  TimePoint now_{};
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t next_order_ = 0;
  int64_t wake_at_ = INT64_MAX;
  std::vector<std::unique_ptr<Load>> loads_;
  std::vector<std::function<void()>> calls_;
  std::deque<SimRequest> requests_;
  std::vector<SimRequest*> free_;
  std::vector<core::GroupId> parents_;  // by group index
  std::vector<RequestHook> on_dispatch_, on_complete_, on_expire_;
  std::vector<std::function<void()>> on_step_, on_idle_;
};

}  // namespace weir::sim

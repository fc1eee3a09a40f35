#include "sim/world.h"

#include <algorithm>

#include "base/check.h"

namespace weir::sim {

struct World::SimRequest {
  core::Request request;
  int32_t load = kNoLoad;
  uint64_t sequence = 0;
  int64_t true_cost = 0;  // what the device really did
  bool answered = false;  // its load reacts to its completion
};

struct World::Load {
  LoadSpec spec;
  int32_t index = 0;
  uint64_t issued = 0;
  uint64_t rejected = 0;
  int busy = 0;  // of `outstanding`: with a request, or thinking
  bool started = false;
  bool active = true;  // in bursts: now
  bool stopped = false;
  bool arrival_pending = false;
};

WorldOptions FixedDepthWorld(double capacity, int parallelism, int64_t depth) {
  WorldOptions options;
  options.device.parallelism = parallelism;
  options.device.reference_time =
      Duration(static_cast<int64_t>(static_cast<double>(parallelism) * 1e9 / capacity));
  options.scheduler.capacity_per_s = static_cast<int64_t>(capacity * static_cast<double>(kOp));
  options.scheduler.depth.automatic = false;
  options.scheduler.depth.initial = (depth > 0 ? depth : 2 * parallelism) * kOp;
  return options;
}

World::World(const WorldOptions& options, uint64_t seed)
    : options_(options), scheduler_(options.scheduler), device_(options.device), random_(seed) {}

World::~World() = default;

// --- The tree

core::GroupId World::AddGroup(core::GroupId parent, const ResourceParams& params) {
  const Result<core::GroupId> group = scheduler_.AddGroup(parent, params, now_);
  WEIR_CHECK(group.has_value());
  if (parents_.size() <= group->index) parents_.resize(group->index + 1);
  parents_[group->index] = parent;
  Kick();
  return *group;
}

void World::SetParams(core::GroupId group, const ResourceParams& params) {
  WEIR_CHECK(scheduler_.SetParams(group, params, now_).has_value());
  Kick();
}

void World::MoveGroup(core::GroupId group, core::GroupId parent) {
  WEIR_CHECK(scheduler_.MoveGroup(group, parent, now_).has_value());
  parents_[group.index] = parent;
  Kick();
}

void World::RemoveGroup(core::GroupId group) {
  std::vector<core::Request*> orphans;
  WEIR_CHECK(scheduler_.RemoveGroup(group, now_, &orphans).has_value());
  for (core::Request* orphan : orphans) Release(static_cast<SimRequest*>(orphan->context));
  for (const std::unique_ptr<Load>& load : loads_) {
    if (load->spec.group == group) load->stopped = true;
  }
  Kick();
}

core::GroupId World::Parent(core::GroupId group) const {
  return group.index < parents_.size() ? parents_[group.index] : core::GroupId{};
}

ResourceParams World::Params(core::GroupId group) const {
  const Result<ResourceParams> params = scheduler_.Params(group);
  WEIR_CHECK(params.has_value());
  return *params;
}

core::GroupStats World::Stats(core::GroupId group) const {
  Result<core::GroupStats> stats = scheduler_.Stats(group, now_);
  WEIR_CHECK(stats.has_value());
  return *std::move(stats);
}

// --- Loads

World::LoadId World::AddLoad(const LoadSpec& spec) {
  auto load = std::make_unique<Load>();
  load->spec = spec;
  load->index = static_cast<int32_t>(loads_.size());
  loads_.push_back(std::move(load));
  Schedule(spec.start.count(), EventKind::kLoadStart, loads_.back()->index, nullptr);
  return loads_.back()->index;
}

void World::StopLoad(LoadId load) { loads_[static_cast<size_t>(load)]->stopped = true; }

void World::Issue(LoadId load, int count) {
  for (int i = 0; i < count; ++i) {
    if (!IssueOne(loads_[static_cast<size_t>(load)].get(), false)) break;
  }
  Kick();
}

core::Request* World::Submit(const core::Request& request) {
  SimRequest* r = Take();
  r->request = request;
  r->request.context = r;
  if (!scheduler_.Enqueue(&r->request, now_)) {
    Release(r);
    return nullptr;
  }
  Kick();
  return &r->request;
}

void World::Kick() { Schedule(ToNanos(now_), EventKind::kWake, 0, nullptr); }

uint64_t World::rejected(LoadId load) const { return loads_[static_cast<size_t>(load)]->rejected; }
uint64_t World::issued(LoadId load) const { return loads_[static_cast<size_t>(load)]->issued; }

World::LoadId World::LoadOf(const core::Request& request) {
  return static_cast<const SimRequest*>(request.context)->load;
}

uint64_t World::SequenceOf(const core::Request& request) {
  return static_cast<const SimRequest*>(request.context)->sequence;
}

bool World::Sending(const Load& load) const {
  return load.started && load.active && !load.stopped && elapsed() < load.spec.stop;
}

int64_t World::BurstLength(const Load& load, Duration mean) {
  if (!load.spec.burst_random) return mean.count();
  return std::max<int64_t>(
      1, static_cast<int64_t>(random_.Exponential(static_cast<double>(mean.count()))));
}

void World::StartLoad(Load* load) {
  load->started = true;
  load->active = true;
  if (load->spec.burst_on.count() > 0) {
    Schedule(ToNanos(now_) + BurstLength(*load, load->spec.burst_on), EventKind::kBurstOff,
             load->index, nullptr);
  }
  Refill(load);
}

// Brings a load that may send (again) to its full number of requests.
void World::Refill(Load* load) {
  if (load->spec.rate > 0) {
    if (load->arrival_pending || !Sending(*load)) return;
    load->arrival_pending = true;
    const double gap = load->spec.even ? 0 : random_.Exponential(1e9 / load->spec.rate);
    Schedule(ToNanos(now_) + static_cast<int64_t>(gap), EventKind::kArrival, load->index, nullptr);
    return;
  }
  while (Sending(*load) && load->busy < load->spec.outstanding) AfterRequest(load->index);
}

void World::Arrive(Load* load) {
  load->arrival_pending = false;
  if (!Sending(*load)) return;
  IssueOne(load, false);
  load->arrival_pending = true;
  const double mean = 1e9 / load->spec.rate;
  const double gap = load->spec.even ? mean : random_.Exponential(mean);
  Schedule(ToNanos(now_) + std::max<int64_t>(1, static_cast<int64_t>(gap)), EventKind::kArrival,
           load->index, nullptr);
}

// One of a closed loop's outstanding requests is free: send the next one.
void World::AfterRequest(int32_t load_index) {
  Load& load = *loads_[static_cast<size_t>(load_index)];
  if (!Sending(load)) return;
  ++load.busy;
  if (IssueOne(&load, true)) return;
  Schedule(ToNanos(now_ + kRetryAfterFailure), EventKind::kThinkDone, load_index, nullptr);
}

// False if the group is gone or the predicted wait is too long.
bool World::IssueOne(Load* load, bool answered) {
  const LoadSpec& spec = load->spec;
  SimRequest* r = Take();
  core::Request& request = r->request;
  request.group = spec.group;
  request.context = r;
  request.cost = spec.cost_max > spec.cost ? random_.Range(spec.cost, spec.cost_max) : spec.cost;
  request.bytes =
      static_cast<int64_t>(static_cast<double>(request.cost) *
                           static_cast<double>(spec.bytes_per_op) / static_cast<double>(kOp));
  request.direction = spec.write_share > 0 && random_.Chance(spec.write_share) ? Direction::kWrite
                                                                               : Direction::kRead;
  request.sync = spec.sync;
  if (spec.shape) spec.shape(&random_, &request);
  if (spec.deadline.count() > 0) request.deadline = now_ + spec.deadline;
  r->load = load->index;
  r->answered = answered;
  if (spec.fail_fast && spec.deadline.count() > 0 &&
      scheduler_.PredictWait(spec.group, request.direction, request.cost, request.raw,
                             request.bytes, now_) >= spec.deadline) {
    ++load->rejected;
    Release(r);
    return false;
  }
  r->sequence = ++load->issued;
  if (!scheduler_.Enqueue(&request, now_)) {
    load->stopped = true;
    Release(r);
    return false;
  }
  return true;
}

// --- Events

void World::Schedule(int64_t at, EventKind kind, int32_t index, SimRequest* request) {
  events_.push({std::max(at, ToNanos(now_)), next_order_++, kind, index, request});
}

void World::At(Duration time, std::function<void()> action) {
  calls_.push_back(std::move(action));
  Schedule(time.count(), EventKind::kCall, static_cast<int32_t>(calls_.size() - 1), nullptr);
}

void World::RunUntil(Duration time) {
  while (!events_.empty() && events_.top().at <= time.count()) {
    now_ = FromNanos(events_.top().at);
    // Everything that happens at one time is seen together.
    while (!events_.empty() && events_.top().at == ToNanos(now_)) {
      const Event event = events_.top();
      events_.pop();
      Handle(event);
    }
    Pump();
  }
  now_ = std::max(now_, TimePoint(time));
}

void World::Handle(const Event& event) {
  Load* load = event.index >= 0 && static_cast<size_t>(event.index) < loads_.size()
                   ? loads_[static_cast<size_t>(event.index)].get()
                   : nullptr;
  switch (event.kind) {
    case EventKind::kWake:
      if (event.at >= wake_at_) wake_at_ = INT64_MAX;
      break;
    case EventKind::kCompletion:
      HandleCompletion(event.request);
      break;
    case EventKind::kLoadStart:
      StartLoad(load);
      break;
    case EventKind::kArrival:
      Arrive(load);
      break;
    case EventKind::kThinkDone:
      --load->busy;
      AfterRequest(event.index);
      break;
    case EventKind::kBurstOff:
      load->active = false;
      Schedule(event.at + BurstLength(*load, load->spec.burst_off), EventKind::kBurstOn,
               event.index, nullptr);
      break;
    case EventKind::kBurstOn:
      StartLoad(load);
      break;
    case EventKind::kCall: {
      const std::function<void()> action = std::move(calls_[static_cast<size_t>(event.index)]);
      action();
      break;
    }
  }
}

void World::HandleCompletion(SimRequest* r) {
  scheduler_.Complete(&r->request, now_, options_.report_actual_cost ? r->true_cost : 0);
  for (const RequestHook& hook : on_complete_) hook(r->request);
  GiveBack(r, Duration(0));
}

// Its load goes on: with the next request, after the pause, and after thinking if it thinks.
void World::GiveBack(SimRequest* r, Duration pause) {
  const int32_t index = r->answered ? r->load : kNoLoad;
  Release(r);
  if (index == kNoLoad) return;
  Load& load = *loads_[static_cast<size_t>(index)];
  --load.busy;
  if (load.spec.think.count() <= 0 && pause.count() <= 0) {
    AfterRequest(index);
    return;
  }
  if (!Sending(load)) return;
  ++load.busy;
  auto think = static_cast<double>(load.spec.think.count());
  if (load.spec.think_random) {
    think = random_.Exponential(think);
  } else if (load.spec.think_spread > 0) {
    think *= 1 + load.spec.think_spread * (2 * random_.Uniform() - 1);
  }
  Schedule(ToNanos(now_ + pause) + static_cast<int64_t>(think), EventKind::kThinkDone, index,
           nullptr);
}

// --- Between the scheduler and the device

void World::Pump() {
  for (const auto& hook : on_step_) hook();
  Expire();
  while (core::Request* request = scheduler_.Dispatch(now_)) {
    for (const RequestHook& hook : on_dispatch_) hook(*request);
    SendToDevice(request);
  }
  for (const auto& hook : on_idle_) hook();
  ScheduleWakeup();
}

void World::Expire() {
  while (core::Request* request = scheduler_.PopExpired(now_)) {
    for (const RequestHook& hook : on_expire_) hook(*request);
    // At once, a deadline shorter than the queue would make requests without end.
    GiveBack(static_cast<SimRequest*>(request->context), kRetryAfterFailure);
  }
}

void World::SendToDevice(core::Request* request) {
  auto* r = static_cast<SimRequest*>(request->context);
  r->true_cost = true_cost ? true_cost(*request, &random_) : request->cost;
  const TimePoint done = device_.Submit(r->true_cost, request->direction, now_, &random_);
  Schedule(SeenAt(ToNanos(done)), EventKind::kCompletion, r->load, r);
}

// When the reaper sees a completion.
int64_t World::SeenAt(int64_t done) const {
  const int64_t period = options_.reaper_period.count();
  if (period <= 0) return done;
  return std::max(done, done / period * period + options_.reaper_away.count());
}

void World::ScheduleWakeup() {
  const TimePoint next = scheduler_.NextWakeup(now_);
  if (next >= kNever) return;
  const int64_t at = std::max(ToNanos(next), ToNanos(now_) + 1);
  if (at >= wake_at_) return;
  wake_at_ = at;
  Schedule(at, EventKind::kWake, 0, nullptr);
}

World::SimRequest* World::Take() {
  if (free_.empty()) {
    requests_.emplace_back();
    return &requests_.back();
  }
  SimRequest* r = free_.back();
  free_.pop_back();
  *r = SimRequest{};
  return r;
}

void World::Release(SimRequest* request) { free_.push_back(request); }

}  // namespace weir::sim

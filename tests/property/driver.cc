#include "driver.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/check.h"

namespace weir::property {

namespace {

constexpr int kMostWaitingOfOpenLoad = 4'000;

core::SchedulerOptions SchedulerOptionsOf(const DriverOptions& options) {
  core::SchedulerOptions o;
  o.capacity_per_s = static_cast<int64_t>(options.device.ops_per_s * kOp);
  o.histograms = false;
  if (options.depth > 0) {
    o.depth.automatic = false;
    o.depth.initial = options.depth;
    o.depth.max = options.depth;
    o.depth.min = std::min(o.depth.min, options.depth);
  }
  return o;
}

Mirror::AutomaticBurst AutomaticBurstOf(const DriverOptions& options) {
  const core::SchedulerOptions o = SchedulerOptionsOf(options);
  const int64_t depth = o.depth.max;
  const int64_t in_device = depth + std::max(depth / 8, kOp) + std::max(options.largest_cost, kOp);
  Mirror::AutomaticBurst burst;
  const double ns = static_cast<double>(in_device) / kOp * 1e9 / options.device.ops_per_s;
  burst.most_ns = std::max(burst.least_ns, static_cast<int64_t>(ns) + 2);
  burst.largest = {options.largest_cost, kOp, std::max<int64_t>(1, options.largest_cost / 4)};
  return burst;
}

}  // namespace

int64_t CostOf(int64_t bytes) { return std::max(kOp / 8, bytes * kOp / (16 * 1024)); }

Driver::Driver(const DriverOptions& options)
    : options_(options),
      random_(options.seed),
      device_(options.device, options.seed ^ 0xD1CE),
      scheduler_(std::make_unique<core::Scheduler>(SchedulerOptionsOf(options))),
      mirror_(scheduler_->root(), AutomaticBurstOf(options),
              [this](const MirrorNode& node, int bucket, double excess) {
                Violation(1, "group " + std::to_string(node.index) + " passed its limit (bucket " +
                                 std::to_string(bucket) + ") by " + std::to_string(excess) +
                                 " units");
              }) {
  last_sequence_.resize(1);
}

void Driver::Violation(int invariant, const std::string& what) {
  if (on_violation) {
    on_violation(invariant, what);
    return;
  }
  std::fprintf(stderr, "invariant %d broken at %.6f s: %s\n", invariant,
               static_cast<double>(now_) / 1e9, what.c_str());
  std::abort();
}

// --- The tree ----------------------------------------------------------------------------------

int Driver::Add(int parent, const ResourceParams& params) {
  const auto id = scheduler_->AddGroup(mirror_.node(parent).id, params, FromNanos(now_));
  WEIR_CHECK(id.has_value());
  last_sequence_.push_back({});
  return mirror_.Add(parent, *id, params, now_);
}

int Driver::AddWeighted(int parent, int64_t weight) {
  ResourceParams params;
  params.weight = weight;
  return Add(parent, params);
}

void Driver::Remove(int group) {
  PumpSoon();

  std::vector<core::Request*> orphans;
  WEIR_CHECK(scheduler_->RemoveGroup(mirror_.node(group).id, FromNanos(now_), &orphans));
  mirror_.Remove(group, now_);
  for (LoadState& state : loads_) {
    if (state.load.group == group) state.load.stop_ns = now_;
  }
  for (core::Request* r : orphans) {
    Pending* pending = static_cast<Pending*>(r->context);
    Unlist(pending);
    Finished(pending);
  }
}

void Driver::Move(int group, int new_parent) {
  PumpSoon();

  WEIR_CHECK(
      scheduler_->MoveGroup(mirror_.node(group).id, mirror_.node(new_parent).id, FromNanos(now_)));
  mirror_.Move(group, new_parent, now_);
}

void Driver::Set(int group, const ResourceParams& params) {
  PumpSoon();

  WEIR_CHECK(scheduler_->SetParams(mirror_.node(group).id, params, FromNanos(now_)));
  mirror_.SetParams(group, params, now_);
}

void Driver::SetWeight(int group, int64_t weight) {
  ResourceParams params = Params(group);
  params.weight = weight;
  Set(group, params);
}

void Driver::SetMin(int group, Dimension dimension, int64_t rate) {
  ResourceParams params = Params(group);
  params.MinOf(dimension) = rate;
  Set(group, params);
}

void Driver::SetMax(int group, Dimension dimension, Scope scope, int64_t rate, int64_t burst) {
  ResourceParams params = Params(group);
  params.MaxOf(dimension, scope) = rate;
  params.BurstOf(dimension, scope) = burst;
  Set(group, params);
}

core::GroupStats Driver::Stats(int group) {
  const auto stats = scheduler_->Stats(mirror_.node(group).id, FromNanos(now_));
  WEIR_CHECK(stats.has_value());
  return *stats;
}

double Driver::Served(int group) const {
  const MirrorNode& node = mirror_.node(group);
  return static_cast<double>(node.served[0][0] + node.served[0][1]) / kOp;
}

// --- Requests ----------------------------------------------------------------------------------

Driver::Pending* Driver::NewPending() {
  if (free_.empty()) return &pool_.emplace_back();
  Pending* pending = free_.back();
  free_.pop_back();
  *pending = Pending{};
  return pending;
}

void Driver::Unlist(Pending* pending) {
  if (pending->expedited) {
    --expedited_;
    --mirror_.node(pending->leaf).pins;
    return;
  }
  queued_[pending->slot] = queued_.back();
  queued_[pending->slot]->slot = pending->slot;
  queued_.pop_back();
}

Driver::Pending* Driver::IssueFor(const Load& load, int load_index) {
  Pending* pending = NewPending();
  core::Request& r = pending->request;
  r.group = mirror_.node(load.group).id;
  r.direction = random_.Chance(load.write_share) ? Direction::kWrite : Direction::kRead;
  r.cost = load.cost;
  r.bytes = std::max<int64_t>(1, load.cost / 4);  // 16 KiB an op
  if (load.bytes_max > 0) {
    const double low = std::log(static_cast<double>(load.bytes_min));
    const double high = std::log(static_cast<double>(load.bytes_max));
    r.bytes = std::min(load.bytes_max,
                       static_cast<int64_t>(std::exp(low + (high - low) * random_.Uniform())));
    r.cost = CostOf(r.bytes);
  }
  if (load.patience_ns > 0) r.deadline = FromNanos(now_ + load.patience_ns);
  r.context = pending;
  pending->leaf = load.group;
  pending->load = load_index;
  pending->sequence = ++next_sequence_;
  WEIR_CHECK(scheduler_->Enqueue(&r, FromNanos(now_)));
  pending->slot = queued_.size();
  queued_.push_back(pending);
  mirror_.Enqueued(load.group, r.direction, r.cost, now_);
  return pending;
}

core::Request* Driver::Issue(const Load& load) {
  PumpSoon();
  return &IssueFor(load, -1)->request;
}

bool Driver::Cancel(core::Request* request) {
  PumpSoon();

  Pending* pending = static_cast<Pending*>(request->context);
  if (!scheduler_->Cancel(request, FromNanos(now_))) return false;
  ++mirror_.node(pending->leaf).cancelled;
  if (!pending->expedited) {
    mirror_.Withdrawn(pending->leaf, request->direction, request->cost, now_);
  }
  Unlist(pending);
  mirror_.DepartIfDone(pending->leaf);
  Finished(pending);
  return true;
}

bool Driver::Expedite(core::Request* request) {
  PumpSoon();

  Pending* pending = static_cast<Pending*>(request->context);
  if (!scheduler_->Expedite(request, FromNanos(now_))) return false;
  mirror_.Withdrawn(pending->leaf, request->direction, request->cost, now_);
  Unlist(pending);
  pending->expedited = true;
  ++mirror_.node(pending->leaf).pins;
  ++expedited_;
  return true;
}

core::Request* Driver::AnyQueued(Random* random) {
  if (queued_.empty()) return nullptr;
  const int64_t last = static_cast<int64_t>(queued_.size()) - 1;
  return &queued_[static_cast<size_t>(random->Range(0, last))]->request;
}

// --- Loads -------------------------------------------------------------------------------------

int Driver::Start(const Load& load) {
  loads_.push_back({.load = load});
  Schedule(std::max(now_, load.start_ns), EventKind::kStart, loads_.size() - 1);
  return static_cast<int>(loads_.size()) - 1;
}

void Driver::StopAllLoads() {
  for (LoadState& state : loads_) state.load.stop_ns = std::min(state.load.stop_ns, now_);
}

bool Driver::Active(const LoadState& state) const {
  return state.on && now_ >= state.load.start_ns && now_ < state.load.stop_ns;
}

void Driver::TopUp(size_t index) {
  LoadState& state = loads_[index];
  if (state.load.kind == Load::Kind::kOpen) return;
  const int& count = state.load.kind == Load::Kind::kSaturating ? state.waiting : state.outstanding;
  while (Active(state) && count < state.load.outstanding) {
    ++state.waiting;
    ++state.outstanding;
    IssueFor(state.load, static_cast<int>(index));
  }
}

// The request is out of the scheduler and the device for good.
void Driver::Finished(Pending* pending) {
  free_.push_back(pending);
  if (pending->load < 0) return;
  const size_t index = static_cast<size_t>(pending->load);
  LoadState& state = loads_[index];
  const int64_t think = state.load.think_ns;
  if (!pending->dispatched) --state.waiting;
  if (state.load.kind == Load::Kind::kClosed && think > 0) {
    Schedule(now_ + think / 2 + random_.Range(0, think), EventKind::kThought, index);
    return;
  }
  --state.outstanding;
  TopUp(index);
}

void Driver::At(int64_t ns, std::function<void()> action) {
  actions_.push_back(std::move(action));
  Schedule(ns, EventKind::kAction, actions_.size() - 1);
}

// --- The loop ----------------------------------------------------------------------------------

void Driver::Schedule(int64_t at_ns, EventKind kind, size_t argument, Pending* pending) {
  events_.push({at_ns, next_order_++, kind, argument, pending});
}

void Driver::Handle(const Event& event) {
  switch (event.kind) {
    case EventKind::kPump:
      break;
    case EventKind::kAction: {
      const std::function<void()> action = actions_[event.argument];
      action();
      break;
    }
    case EventKind::kStart: {
      const Load load = loads_[event.argument].load;
      if (load.kind == Load::Kind::kOpen) {
        Schedule(now_, EventKind::kArrival, event.argument);
      } else {
        TopUp(event.argument);
        if (load.off_ns > 0) {
          const double mean = static_cast<double>(load.on_ns);
          Schedule(now_ + static_cast<int64_t>(random_.Exponential(mean)), EventKind::kToggle,
                   event.argument);
        }
      }
      break;
    }
    case EventKind::kArrival: {
      LoadState& state = loads_[event.argument];
      if (now_ >= state.load.stop_ns) break;
      if (state.waiting < kMostWaitingOfOpenLoad) {
        ++state.waiting;
        ++state.outstanding;
        IssueFor(state.load, static_cast<int>(event.argument));
      }
      const double gap = random_.Exponential(1e9 / state.load.rate_per_s);
      Schedule(now_ + 1 + static_cast<int64_t>(gap), EventKind::kArrival, event.argument);
      break;
    }
    case EventKind::kThought:
      --loads_[event.argument].outstanding;
      TopUp(event.argument);
      break;
    case EventKind::kToggle: {
      LoadState& state = loads_[event.argument];
      if (now_ >= state.load.stop_ns) break;
      state.on = !state.on;
      TopUp(event.argument);
      const double mean = static_cast<double>(state.on ? state.load.on_ns : state.load.off_ns);
      Schedule(now_ + 1 + static_cast<int64_t>(random_.Exponential(mean)), EventKind::kToggle,
               event.argument);
      break;
    }
    case EventKind::kComplete: {
      Pending* pending = event.pending;
      core::Request& r = pending->request;
      int64_t actual = 0;
      if (options_.cost_error > 0 || options_.cost_share != 1) {
        const double error = options_.cost_error * (2 * random_.Uniform() - 1);
        actual = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(r.cost) *
                                                           options_.cost_share * (1 + error)));
      }
      if (on_complete) on_complete(r, pending->leaf);
      scheduler_->Complete(&r, FromNanos(now_), actual);
      if (actual > 0 && !mirror_.node(pending->leaf).removed) {
        mirror_.Corrected(pending->leaf, r.direction, actual - r.cost, now_);
      }
      mirror_.Completed(pending->leaf);
      Finished(pending);
      break;
    }
  }
}

void Driver::Dispatched(Pending* pending) {
  const core::Request& r = pending->request;
  const bool bypass = pending->expedited;
  pending->dispatched = true;
  Unlist(pending);
  uint64_t& last =
      last_sequence_[static_cast<size_t>(pending->leaf)][static_cast<size_t>(r.direction)];
  if (!bypass) {
    if (pending->sequence <= last) Violation(7, "requests of one FIFO left out of order");
    last = pending->sequence;
  }
  if (on_dispatch) on_dispatch(r, pending->leaf);
  MirrorNode& leaf = mirror_.node(pending->leaf);
  ++leaf.in_flight;
  if (!leaf.removed) {
    mirror_.Dispatched(pending->leaf, r.direction, {r.cost, r.raw, r.bytes}, bypass, now_);
  }
  Schedule(device_.Send(r.cost, now_), EventKind::kComplete, 0, pending);
  if (pending->load >= 0) {
    --loads_[static_cast<size_t>(pending->load)].waiting;
    TopUp(static_cast<size_t>(pending->load));
  }
}

void Driver::Pump() {
  pump_soon_ = false;
  const TimePoint now = FromNanos(now_);
  while (core::Request* r = scheduler_->PopExpired(now)) {
    Pending* pending = static_cast<Pending*>(r->context);
    if (r->deadline > now) Violation(0, "a request expired before its deadline");
    ++mirror_.node(pending->leaf).expired;
    if (!pending->expedited && !mirror_.node(pending->leaf).removed) {
      mirror_.Withdrawn(pending->leaf, r->direction, r->cost, now_);
    }
    Unlist(pending);
    mirror_.DepartIfDone(pending->leaf);
    Finished(pending);
  }
  while (core::Request* r = scheduler_->Dispatch(now)) {
    Dispatched(static_cast<Pending*>(r->context));
  }
  CheckAfterPump();
  const int64_t wake = ToNanos(scheduler_->NextWakeup(now));
  if (wake < ToNanos(kNever) && (wake < wake_at_ || wake_at_ <= now_)) {
    if (wake <= now_) Violation(0, "NextWakeup promises work now, Dispatch gave none");
    wake_at_ = std::max(wake, now_ + 1);
    Schedule(wake_at_, EventKind::kPump, 0);
  }
}

void Driver::CheckAfterPump() {
  const int64_t depth = scheduler_->depth();
  const int64_t in_flight = scheduler_->cost_in_flight();
  const int64_t most = depth + scheduler_->headroom() + 2 * options_.largest_cost;
  if (options_.depth > 0 && in_flight > most) {
    Violation(0, "more in flight (" + std::to_string(in_flight) + ") than D + c + H + c (" +
                     std::to_string(most) + ")");
  }
  if (in_flight < depth) {
    const MirrorNode& root = mirror_.root();
    if (root.ready[0] || root.ready[1]) {
      Violation(4, "the device is short of work while an eligible request waits");
    }
  }
}

// Between two points in time nothing happens, so a limit that opened meanwhile must have been
// announced by NextWakeup.
void Driver::AdvanceTo(int64_t ns) {
  if (ns <= now_) return;
  now_ = ns;
  mirror_.AdvanceTo(now_);
  if (scheduler_->cost_in_flight() >= scheduler_->depth()) return;
  const MirrorNode& root = mirror_.root();
  if (root.ready[0] || root.ready[1]) Violation(4, "NextWakeup was after a limit opened");
}

// After a change from outside.
void Driver::PumpSoon() {
  if (pump_soon_) return;
  pump_soon_ = true;
  Schedule(now_, EventKind::kPump, 0);
}

void Driver::RunUntil(int64_t ns) {
  while (!events_.empty() && events_.top().at_ns <= ns) {
    const Event event = events_.top();
    events_.pop();
    AdvanceTo(event.at_ns);
    Handle(event);
    if (events_.empty() || events_.top().at_ns > now_) Pump();
  }
  AdvanceTo(ns);
}

void Driver::Drain(int64_t ns) {
  while (!events_.empty() && events_.top().at_ns <= ns &&
         (waiting() != 0 || scheduler_->requests_in_flight() != 0)) {
    RunUntil(events_.top().at_ns);
  }
}

}  // namespace weir::property

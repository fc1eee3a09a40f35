// One request through enqueue + dispatch + complete, on one core: a two-level tree with limits,
// reservations and weights on every node, a device that is kept full, 4 requests waiting a leaf.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "base/random.h"
#include "core/scheduler.h"

namespace weir::core {
namespace {

constexpr int64_t kCapacity = 1'000'000;  // ops per second of the pretended device
constexpr size_t kInFlight = 40;

struct Tree {
  Tree(int leaves, bool limits_bind, int queued_per_leaf) {
    SchedulerOptions options;
    options.capacity_per_s = kCapacity * kOp;
    options.depth.automatic = false;
    options.depth.initial = 32 * kOp;
    scheduler = std::make_unique<Scheduler>(options);
    const int tenants = leaves <= 100 ? 10 : leaves <= 1000 ? 32 : 100;
    Random random(1);
    std::vector<GroupId> units;
    for (int i = 0; i < tenants; ++i) {
      ResourceParams p;
      p.weight = random.Range(100, 199);
      p.MinOf(Dimension::kNorm) = kCapacity * kOp / 2 / tenants;
      p.MaxOf(Dimension::kNorm, Scope::kBoth) =
          (limits_bind ? 9 : 30) * (kCapacity * kOp / 10 / tenants);
      units.push_back(scheduler->AddGroup(scheduler->root(), p, TimePoint{}).value());
    }
    for (int i = 0; i < leaves; ++i) {
      ResourceParams p;
      p.weight = random.Range(1, 1000);
      p.MinOf(Dimension::kNorm) = 45 * (kCapacity * kOp / 100 / leaves);
      p.MaxOf(Dimension::kNorm, Scope::kBoth) =
          (limits_bind ? 15 : 40) * (kCapacity * kOp / 10 / leaves);
      // Four requests: the default burst would be so long for such small rates that no limit binds.
      p.BurstOf(Dimension::kNorm, Scope::kBoth) = 4 * kOp;
      groups.push_back(
          scheduler->AddGroup(units[static_cast<size_t>(i % tenants)], p, TimePoint{}).value());
    }
    requests.resize(groups.size() * static_cast<size_t>(queued_per_leaf));
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].group = groups[i % groups.size()];
      requests[i].bytes = 16 * 1024;
      (void)scheduler->Enqueue(&requests[i], TimePoint{});
    }
  }

  // Fills the device, then gives back the oldest request and queues it again.
  bool Step() {
    while (in_flight < kInFlight) {
      Request* r = scheduler->Dispatch(now);
      if (r == nullptr) break;
      flight[(first + in_flight++) % 64] = r;
    }
    now += Duration(1'000'000'000 / kCapacity);
    if (in_flight == 0) return false;
    Request* r = flight[first++ % 64];
    --in_flight;
    scheduler->Complete(r, now);
    (void)scheduler->Enqueue(r, now);
    return true;
  }

  std::unique_ptr<Scheduler> scheduler;
  std::vector<GroupId> groups;
  std::vector<Request> requests;
  Request* flight[64] = {};
  size_t first = 0, in_flight = 0;
  TimePoint now{};
};

// The time is per completed request: a step in which the device stays idle, since every limit is
// closed, counts for the next.
void Run(benchmark::State& state, bool limits_bind, int queued_per_leaf) {
  Tree tree(static_cast<int>(state.range(0)), limits_bind, queued_per_leaf);
  for (int i = 0; i < 200'000; ++i) (void)tree.Step();
  for ([[maybe_unused]] auto _ : state) {
    while (!tree.Step()) {
    }
  }
  state.SetItemsProcessed(state.iterations());
}

void LimitsNotBinding(benchmark::State& state) { Run(state, false, 4); }
void LimitsBinding(benchmark::State& state) { Run(state, true, 4); }
void EveryRequestWakesItsGroup(benchmark::State& state) { Run(state, false, 1); }

BENCHMARK(LimitsNotBinding)->Arg(100)->Arg(1000)->Arg(10000);
BENCHMARK(LimitsBinding)->Arg(100)->Arg(1000)->Arg(10000);
BENCHMARK(EveryRequestWakesItsGroup)->Arg(100)->Arg(1000)->Arg(10000);

}  // namespace
}  // namespace weir::core

BENCHMARK_MAIN();

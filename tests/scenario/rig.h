// A simulated device with a scheduler and a meter, and short names for what the scenarios need.
#pragma once

#include "sim/meter.h"
#include "sim/world.h"

namespace weir::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t Ops(double ops) { return static_cast<int64_t>(ops * static_cast<double>(kOp)); }

// Parameters, one after the other: Set().Weight(50).Min(100).
struct Set : ResourceParams {
  Set& Weight(int64_t w) {
    weight = w;
    return *this;
  }
  Set& Min(double norm_per_s) {
    MinOf(Dimension::kNorm) = Ops(norm_per_s);
    return *this;
  }
  // `room` is the burst, in ops or bytes; the default when negative.
  Set& Max(double norm_per_s, double room = -1, Scope scope = Scope::kBoth) {
    MaxOf(Dimension::kNorm, scope) = Ops(norm_per_s);
    BurstOf(Dimension::kNorm, scope) = room < 0 ? -1 : Ops(room);
    return *this;
  }
  Set& MaxRaw(double raw_per_s, double room = -1, Scope scope = Scope::kBoth) {
    MaxOf(Dimension::kRaw, scope) = Ops(raw_per_s);
    BurstOf(Dimension::kRaw, scope) = room < 0 ? -1 : Ops(room);
    return *this;
  }
  Set& MaxBytes(int64_t bytes_per_s, int64_t room = -1, Scope scope = Scope::kBoth) {
    MaxOf(Dimension::kBytes, scope) = bytes_per_s;
    BurstOf(Dimension::kBytes, scope) = room;
    return *this;
  }
};

// `capacity` normalised op/s; depth in ops, 0 = twice the parallelism.
struct Rig {
  Rig(double capacity, int parallelism, int64_t depth = 0, uint64_t seed = 1)
      : Rig(FixedDepthWorld(capacity, parallelism, depth), seed) {}
  explicit Rig(const WorldOptions& options, uint64_t seed = 1)
      : world(options, seed), meter(&world, milliseconds(1)) {}

  core::GroupId Add(const ResourceParams& params) { return Add(world.scheduler().root(), params); }
  core::GroupId Add(core::GroupId parent, const ResourceParams& params) {
    return world.AddGroup(parent, params);
  }
  // A closed loop that always has `outstanding` requests of `ops` each.
  World::LoadId Saturate(core::GroupId group, int outstanding = 32, double ops = 1,
                         Duration start = Duration(0), Duration stop = Duration::max()) {
    LoadSpec load;
    load.group = group;
    load.outstanding = outstanding;
    load.cost = Ops(ops);
    load.start = start;
    load.stop = stop;
    return world.AddLoad(load);
  }
  void Run(Duration until) { world.RunUntil(until); }
  // Normalised op/s over [from, to).
  [[nodiscard]] double Rate(core::GroupId group, Duration from, Duration to) const {
    return meter.Rate(group, from, to);
  }

  World world;
  Meter meter;
};

}  // namespace weir::sim

// Counters of all groups of a plan, now and at a few moments before: what rates are made of.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "control/plan_holder.h"
#include "core/scheduler.h"
#include "datapath/uring/engine.h"

namespace weir::control {

struct Snapshot {
  uint64_t sequence = 0;  // 0: the start, all counters 0
  TimePoint at{};
  std::shared_ptr<const Plan> plan;
  std::vector<core::GroupStats> groups;  // of the plan's nodes
  EngineStats engine;
};

class Sampler {
 public:
  // Groups of one message to the engine: a larger tree is read in parts, so that no request waits
  // for long.
  static constexpr size_t kGroupsAtOnce = 256;
  // Snapshots kept, but at most kMaxKeptGroups groups (2.5 kB each) in all, and two.
  static constexpr size_t kMaxKept = 8;
  static constexpr size_t kMaxKeptGroups = 40'000;

  Sampler(Engine* engine, const PlanHolder* plans);

  // Errors: those of Engine::Stats.
  [[nodiscard]] Result<std::shared_ptr<const Snapshot>> Take();
  // The snapshot of that sequence number; else the newest that is at least `least` older than
  // `now`; else the start.
  [[nodiscard]] std::shared_ptr<const Snapshot> Before(uint64_t sequence, TimePoint now,
                                                       Duration least) const;

 private:
  [[nodiscard]] Result<std::shared_ptr<const Snapshot>> TakeOf(std::shared_ptr<const Plan> plan);

  Engine* const engine_;
  const PlanHolder* const plans_;
  const std::shared_ptr<const Snapshot> start_;
  uint64_t next_ = 1;
  std::deque<std::shared_ptr<const Snapshot>> kept_;  // oldest first
};

// What the group of node `i` of `now` had in `before`; zeros where it was not there.
[[nodiscard]] core::GroupStats StatsBefore(const Snapshot& before, const Snapshot& now, size_t i);

}  // namespace weir::control

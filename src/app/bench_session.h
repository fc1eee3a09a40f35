// An engine with the groups of a scenario and its loads, ready to run: what `weir bench` runs once
// and `weir demo` starts and stops in turn. Threads: one caller.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/bench_capacity.h"
#include "app/bench_file.h"
#include "app/bench_load.h"
#include "app/bench_priority.h"
#include "base/result.h"
#include "base/time.h"
#include "catalog/config.h"
#include "core/scheduler.h"
#include "datapath/uring/engine.h"
#include "scenario/report.h"
#include "scenario/scenario.h"

namespace weir::app {

struct SessionOptions {
  bool isolated = true;
  int64_t max_piece_bytes = 0;  // EngineOptions::max_piece_bytes
  int64_t initial_depth = 0;    // 1/65536 op; 0 = by the device's profile
  int64_t max_depth = 0;
  bool learn_costs = true;
  Duration grid_step{0};  // > 0: keeps dispatches of each leaf in steps of this
};

// Counters at one instant, between two rounds of the engine.
struct Snapshot {
  TimePoint at{};
  std::vector<core::GroupStats> groups;  // as Session::nodes()
  std::vector<LoadMeter> meters;         // since the last snapshot; by Session::meter_of()
  int64_t depth = 0;                     // D, 1/65536 op
};

class Session {
 public:
  // `file` must outlive it. Errors: kInvalidArgument (sizes that the file cannot do); those of
  // Engine::Create and catalog::Resolve. `warnings` may be null.
  [[nodiscard]] static Result<std::unique_ptr<Session>> Create(const scenario::Scenario& scenario,
                                                               const BenchFile& file,
                                                               const Capacity& capacity,
                                                               const SessionOptions& options,
                                                               std::vector<std::string>* warnings);
  ~Session();  // stops all; what the device does not give back is waited for
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // As LoadDriver's.
  void Start(TimePoint start, TimePoint end) { driver_->Start(start, end); }
  [[nodiscard]] bool Pause(Duration limit) { return driver_->Pause(limit); }

  // Errors: kFailedPrecondition (stopped).
  [[nodiscard]] Result<Snapshot> Take();

  // As LoadDriver's, for two sessions of one scenario.
  void ShareBuffersOf(Session* owner) { driver_->ShareBuffersOf(owner->driver_.get()); }

  // Keeps the engine's thread on `cpu`; -1: on the one where it runs now. Returns that CPU.
  int Pin(int cpu = -1);

  [[nodiscard]] const std::vector<catalog::TreeNode>& nodes() const { return nodes_; }
  [[nodiscard]] const std::vector<core::GroupId>& groups() const { return groups_; }  // of nodes()
  // Index into Snapshot::meters and grids; -1: no load runs there.
  [[nodiscard]] int meter_of(size_t node) const { return meters_[node]; }
  [[nodiscard]] const LoadDriver& driver() const { return *driver_; }
  [[nodiscard]] Engine* engine() { return engine_.get(); }
  [[nodiscard]] Priority priority() const { return priority_; }  // of the engine's thread

 private:
  Session() = default;
  // Runs `work` on the engine's thread.
  template <typename T>
  T OnOwner(const std::function<T()>& work, T if_stopped);
  [[nodiscard]] Result<void> AddGroups();
  [[nodiscard]] Result<void> AddLoads(const scenario::Scenario& scenario, FileId file,
                                      int64_t file_bytes, const SessionOptions& options);

  std::vector<catalog::TreeNode> nodes_;
  std::vector<core::GroupId> groups_;
  std::vector<int> meters_;
  Priority priority_ = Priority::kOrdinary;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<LoadDriver> driver_;
};

}  // namespace weir::app

// The plan that an engine runs: a checked configuration, its version, and the group of the engine
// that each of its units and groups is.
//
// Threads: any; changes are made one after the other. A change is one Engine::Apply on the owner
// thread, where the observer learns of it at the same instant.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "catalog/config.h"
#include "control/plan_diff.h"
#include "control/plan_state.h"
#include "core/request.h"
#include "datapath/uring/engine.h"

namespace weir::control {

// Named maximum of matches made at run time.
inline constexpr size_t kMaxAttached = 1'000;

// Immutable once it is shown to anybody.
struct Plan {
  uint64_t version = 0;  // 1 is the first
  catalog::Config config;
  std::string device;
  std::vector<catalog::TreeNode> nodes;  // parents first, `unmatched` included
  std::vector<core::GroupId> groups;     // of the nodes
  int unmatched = 0;                     // the leaf of what no match names
  // Where it came from; state.attached, made by Attach, newest first, come before config.matches.
  PlanState state;
  std::vector<std::string> warnings;

  [[nodiscard]] const std::vector<catalog::Match>& attached() const { return state.attached; }

  // Index into nodes. Errors: as catalog::LeafIndex::Find.
  [[nodiscard]] Result<int> FindLeaf(std::string_view target) const;
};

// Takes part in a change of the plan.
class PlanObserver {
 public:
  virtual ~PlanObserver() = default;
  // Before the change, on the calling thread; an error refuses it. `next` has no groups yet.
  [[nodiscard]] virtual Result<void> Prepare(const Plan& next) = 0;
  // The change is made. On the engine's owner thread, between two requests.
  virtual void Install(const std::shared_ptr<const Plan>& plan) = 0;
};

struct PlanOptions {
  std::string device{};  // of the configuration; "" = the only one
  // 1/65536 normalised op per second, for the sum of reservations; 0 = the configuration's.
  int64_t capacity = 0;
  // The leaf of what no match names; "" = `unmatched`. It must exist in every plan.
  std::string default_group{};
  PlanObserver* observer = nullptr;  // not owned; outlives the holder
};

struct PlanChange {
  uint64_t version = 0;              // of the plan after it; on a dry run of the one that stays
  std::vector<std::string> summary;  // what changed, one line each; empty: nothing
  std::vector<std::string> warnings;
};

class PlanHolder {
 public:
  // Adds the plan's groups below the engine's root. `engine` outlives the holder. Errors: those of
  // ConfigOf, of catalog::Resolve, of the observer, of Engine::Apply.
  [[nodiscard]] static Result<std::unique_ptr<PlanHolder>> Create(Engine* engine, PlanState state,
                                                                  PlanOptions options);
  PlanHolder(const PlanHolder&) = delete;
  PlanHolder& operator=(const PlanHolder&) = delete;

  [[nodiscard]] std::shared_ptr<const Plan> Current() const;

  // All of these: with `dry_run` nothing changes, but everything is checked. On an error the old
  // plan is whole. Errors: kInvalidArgument, kNotFound, kResourceExhausted with what, where, why
  // and the fix; kFailedPrecondition: the engine is stopped.

  // Another configuration as a whole. Matches made by Attach stay where their group does; the
  // others go, with a warning.
  [[nodiscard]] Result<PlanChange> Apply(std::string_view toml, const std::string& file,
                                         bool dry_run = false);
  // As catalog::ApplyChanges: values of a unit or a directive.
  [[nodiscard]] Result<PlanChange> Set(
      std::string_view target, const std::vector<std::pair<std::string, std::string>>& values,
      bool dry_run = false);
  // A match before all others. One that selects the same is replaced.
  [[nodiscard]] Result<PlanChange> Attach(catalog::Match match);
  // Removes the match of Attach that selects the same as `match` (its group does not matter).
  // Errors: kNotFound; the message lists what is attached.
  [[nodiscard]] Result<PlanChange> Detach(const catalog::Match& match);

 private:
  PlanHolder(Engine* engine, PlanOptions options) : engine_(engine), options_(std::move(options)) {}

  // Resolves `next` (config, attached) and makes it the plan. Requires: lock_ is held.
  [[nodiscard]] Result<PlanChange> Change(Plan next, bool dry_run);
  [[nodiscard]] Result<void> Install(std::shared_ptr<Plan> next, const PlanDiff& diff);

  Engine* const engine_;
  const PlanOptions options_;
  std::mutex changing_;  // one change at a time; taken before current_lock_
  mutable std::mutex current_lock_;
  std::shared_ptr<const Plan> current_;
};

}  // namespace weir::control

// What a volume needs of the control plane, in one object: the plan that runs, the rules that say
// whose a request is, and the control socket.
//
// Threads: as volume::Attribution (the engine's owner); the socket has its own.
#pragma once

#include <memory>
#include <string>

#include "control/engine_handler.h"
#include "control/plan_holder.h"
#include "control/server.h"
#include "datapath/volume/attribution_by_rules.h"

namespace weir::app {

struct VolumeControlOptions {
  control::PlanState state;  // without text: no units, everything is `unmatched`
  std::string device;
  int64_t capacity = 0;  // 1/65536 normalised op per second
  std::string default_group;
  // Where things are kept: the socket is PREFIX.sock, the thread table PREFIX.threads, and the plan
  // with all that was changed PREFIX.plan, for a daemon that takes over. Empty: none of them.
  std::string prefix;
  std::string version;
  // Names the process that survives daemons: a plan that was saved under the same is taken up.
  int64_t owner = 0;
  bool quiet = false;
};

// "/run/weir/srv-mysql" for the mount point /srv/mysql.
[[nodiscard]] std::string ControlPrefix(const std::string& mountpoint);

// After the end: what is no use to anybody any more. The thread table stays while somebody has it
// open for writing.
void RemoveControlFiles(const std::string& prefix);

class VolumeControl final : public volume::Attribution,
                            private control::PlanObserver,
                            private volume::NodePaths {
 public:
  // Adds the plan's groups to the engine and opens the socket. Errors: those of PlanHolder::Create,
  // Server::Start, ThreadTableReader::Open.
  [[nodiscard]] static Result<std::unique_ptr<VolumeControl>> Create(
      Engine* engine, const VolumeControlOptions& options);
  ~VolumeControl() override;

  // Where nodes lie, for matches with a path. Before the first request; outlives it. Not owned.
  void SetPaths(volume::NodePaths* paths) { paths_ = paths; }

  core::GroupId GroupOf(const volume::Caller& caller, uint64_t node) override {
    return rules_->GroupOf(caller, node);
  }
  void Opened(uint64_t node) override { rules_->Opened(node); }
  void Wrote(const volume::Caller& caller, uint64_t node) override { rules_->Wrote(caller, node); }
  void Forgotten(uint64_t node) override { rules_->Forgotten(node); }

  [[nodiscard]] control::PlanHolder* plans() { return plans_.get(); }
  [[nodiscard]] std::string socket() const { return server_ == nullptr ? "" : server_->path(); }

 private:
  VolumeControl(Engine* engine, const VolumeControlOptions& options);
  [[nodiscard]] Result<void> Prepare(const control::Plan& next) override;
  void Install(const std::shared_ptr<const control::Plan>& plan) override;
  [[nodiscard]] bool PathOf(uint64_t node, std::string* path) override;
  [[nodiscard]] Result<void> Start();
  [[nodiscard]] Result<void> StartPlan();
  [[nodiscard]] std::string AttributionJson();
  void Save(const control::Plan& plan) const;

  Engine* const engine_;
  const VolumeControlOptions options_;
  volume::NodePaths* paths_ = nullptr;
  std::unique_ptr<volume::ThreadTableReader> table_;
  std::unique_ptr<volume::RuleAttribution> rules_;
  std::shared_ptr<const volume::RuleSet> prepared_;  // between Prepare and Install
  std::unique_ptr<control::PlanHolder> plans_;
  std::unique_ptr<control::Handler> handler_;
  std::unique_ptr<control::Server> server_;
};

}  // namespace weir::app

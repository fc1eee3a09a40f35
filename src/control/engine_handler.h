// Answers the control requests of a process that runs an engine: hello, ping, show, stats, explain,
// apply, set, attach, detach.
//
// Threads: the server's.
#pragma once

#include <functional>
#include <string>

#include "control/plan_holder.h"
#include "control/sampler.h"
#include "control/server.h"

namespace weir::control {

struct EngineHandlerOptions {
  std::string what = "volume";
  std::string version;  // of the program
  // More of `stats`, as the members of a JSON object ("\"a\":1,\"b\":2"), or empty. May be null.
  std::function<std::string()> more_stats;
  // When a process or thread started (field 22 of /proc/PID/stat). Null: attach by pid means
  // whatever has the id.
  std::function<Result<uint64_t>(uint32_t pid)> start_time;
};

class EngineHandler : public Handler {
 public:
  // All outlive the handler.
  EngineHandler(Engine* engine, PlanHolder* plans, EngineHandlerOptions options);
  [[nodiscard]] Result<std::string> Handle(const Request& request) override;

 private:
  using Operation = Result<std::string> (EngineHandler::*)(ArgsReader*);
  [[nodiscard]] Result<std::string> Hello(ArgsReader* args);
  [[nodiscard]] Result<std::string> Ping(ArgsReader* args);
  [[nodiscard]] Result<std::string> Show(ArgsReader* args);
  [[nodiscard]] Result<std::string> Stats(ArgsReader* args);
  [[nodiscard]] Result<std::string> Explain(ArgsReader* args);
  [[nodiscard]] Result<std::string> Apply(ArgsReader* args);
  [[nodiscard]] Result<std::string> Set(ArgsReader* args);
  [[nodiscard]] Result<std::string> Attach(ArgsReader* args);
  [[nodiscard]] Result<std::string> Detach(ArgsReader* args);

  Engine* const engine_;
  PlanHolder* const plans_;
  const EngineHandlerOptions options_;
  Sampler sampler_;
};

}  // namespace weir::control

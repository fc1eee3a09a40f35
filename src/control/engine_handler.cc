#include "control/engine_handler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/text.h"
#include "control/engine_json.h"

namespace weir::control {
namespace {

// Long enough for a limit to show which it is, short enough for whoever asks.
constexpr Duration kExplainWindow = std::chrono::milliseconds(20);
// Rates over less than this say little.
constexpr Duration kLeastWindow = std::chrono::milliseconds(100);

// The match that attach and detach name. `group` only for attach.
catalog::Match ReadMatch(ArgsReader* args) {
  catalog::Match match;
  match.cgroup = args->Text("cgroup");
  match.path = args->Text("path");
  match.comm = args->Text("comm");
  match.user = args->Text("user");
  match.uid = args->Integer("uid", 0, UINT32_MAX - 1, -1);
  match.pid = args->Integer("pid", 1, INT32_MAX, -1);
  return match;
}

}  // namespace

EngineHandler::EngineHandler(Engine* engine, PlanHolder* plans, EngineHandlerOptions options)
    : engine_(engine), plans_(plans), options_(std::move(options)), sampler_(engine, plans) {}

Result<std::string> EngineHandler::Handle(const Request& request) {
  static const std::vector<std::pair<std::string, Operation>> operations = {
      {"hello", &EngineHandler::Hello},     {"ping", &EngineHandler::Ping},
      {"show", &EngineHandler::Show},       {"stats", &EngineHandler::Stats},
      {"explain", &EngineHandler::Explain}, {"apply", &EngineHandler::Apply},
      {"set", &EngineHandler::Set},         {"attach", &EngineHandler::Attach},
      {"detach", &EngineHandler::Detach}};
  std::vector<std::string> names;
  for (const auto& [name, operation] : operations) {
    names.push_back(name);
    if (name != request.op) continue;
    ArgsReader args(request.op, request.args);
    try {
      return (this->*operation)(&args);
    } catch (const std::exception& e) {  // out of memory
      return Fail(ErrorCode::kResourceExhausted, fmt::format("{}: {}", request.op, e.what()));
    }
  }
  const std::string match = ClosestMatch(request.op, names);
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("unknown op {}; {}", Quote(request.op),
                          match.empty() ? "known: " + JoinNames(names)
                                        : fmt::format("did you mean {}?", Quote(match))));
}

Result<std::string> EngineHandler::Hello(ArgsReader* args) {
  const int64_t protocol = args->Integer("protocol", 1, INT32_MAX, kProtocolVersion);
  if (Result<void> read = args->Finish(); !read) return tl::unexpected(read.error());
  if (protocol != kProtocolVersion) {
    return Fail(
        ErrorCode::kFailedPrecondition,
        fmt::format("protocol {} is not spoken here, only {}; use the `weir` of this daemon",
                    protocol, kProtocolVersion));
  }
  return nlohmann::ordered_json{{"protocol", kProtocolVersion},
                                {"what", options_.what},
                                {"version", options_.version},
                                {"pid", ::getpid()}}
      .dump();
}

Result<std::string> EngineHandler::Ping(ArgsReader* args) {
  if (Result<void> read = args->Finish(); !read) return tl::unexpected(read.error());
  return "{}";
}

Result<std::string> EngineHandler::Show(ArgsReader* args) {
  const std::string what = args->Text("what", "plan");
  if (Result<void> read = args->Finish(); !read) return tl::unexpected(read.error());
  const std::shared_ptr<const Plan> plan = plans_->Current();
  if (what == "plan") return PlanJson(*plan);
  if (what == "units") return UnitsJson(*plan);
  if (what == "groups") return GroupsJson(*plan);
  if (what == "matches") return MatchesJson(*plan);
  const std::vector<std::string> known = {"plan", "units", "groups", "matches"};
  const std::string match = ClosestMatch(what, known);
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("show: what = {}: {}it must be one of: {}", Quote(what),
                          match.empty() ? "" : fmt::format("did you mean {}? ", Quote(match)),
                          JoinNames(known)));
}

Result<std::string> EngineHandler::Stats(ArgsReader* args) {
  const int64_t since = args->Integer("since", 0, INT64_MAX, 0);
  if (Result<void> read = args->Finish(); !read) return tl::unexpected(read.error());
  const auto now = sampler_.Take();
  if (!now) return tl::unexpected(now.error());
  const auto before = sampler_.Before(static_cast<uint64_t>(since), (*now)->at, kLeastWindow);
  return StatsJson(*before, **now, options_.more_stats ? options_.more_stats() : "");
}

Result<std::string> EngineHandler::Explain(ArgsReader* args) {
  const std::string group = args->Text("group");
  if (Result<void> read = args->Finish(); !read) return tl::unexpected(read.error());
  std::string path = group;
  if (!group.empty()) {
    const std::shared_ptr<const Plan> plan = plans_->Current();
    bool known = false;
    for (const catalog::TreeNode& node : plan->nodes) known = known || node.path == group;
    if (!known) {
      const Result<int> leaf = plan->FindLeaf(group);
      if (!leaf) return Fail(leaf.error().code, "explain: " + leaf.error().message);
      path = plan->nodes[static_cast<size_t>(*leaf)].path;
    }
  }
  const auto before = sampler_.Take();
  if (!before) return tl::unexpected(before.error());
  std::this_thread::sleep_for(kExplainWindow);
  const auto now = sampler_.Take();
  if (!now) return tl::unexpected(now.error());
  return ExplainJson(**before, **now, path);
}

Result<std::string> EngineHandler::Apply(ArgsReader* args) {
  const std::string text = args->Text("toml");
  if (!args->Has("toml")) args->Reject("toml", "it is missing; it is the text of a weir.toml");
  const std::string file = args->Text("file", "weir.toml");
  const bool dry_run = args->Flag("dry_run", false);
  if (Result<void> read = args->Finish(); !read) return tl::unexpected(read.error());
  return plans_->Apply(text, Printable(file, 256), dry_run).map(ChangeJson);
}

Result<std::string> EngineHandler::Set(ArgsReader* args) {
  const std::string target = args->RequiredText("target");
  const auto values = args->Values("values");
  const bool dry_run = args->Flag("dry_run", false);
  if (Result<void> read = args->Finish(); !read) return tl::unexpected(read.error());
  return plans_->Set(target, values, dry_run).map(ChangeJson);
}

Result<std::string> EngineHandler::Attach(ArgsReader* args) {
  catalog::Match match = ReadMatch(args);
  match.group = args->RequiredText("group");
  if (Result<void> read = args->Finish(); !read) return tl::unexpected(read.error());
  if (match.pid > 0 && options_.start_time) {
    const Result<uint64_t> started = options_.start_time(static_cast<uint32_t>(match.pid));
    if (!started) return Fail(started.error().code, "attach: " + started.error().message);
    match.pid_start = *started;
  }
  return plans_->Attach(std::move(match)).map(ChangeJson);
}

Result<std::string> EngineHandler::Detach(ArgsReader* args) {
  const catalog::Match match = ReadMatch(args);
  if (Result<void> read = args->Finish(); !read) return tl::unexpected(read.error());
  if (const std::string why = catalog::WhyNoMatch(match); !why.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "detach: " + why);
  }
  return plans_->Detach(match).map(ChangeJson);
}

}  // namespace weir::control

// weir ctl: shows and changes the plan of a running volume, through its control socket.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>

#include "app/commands.h"
#include "app/ctl_text.h"
#include "app/files.h"
#include "app/top_frame.h"
#include "app/top_render.h"
#include "base/text.h"
#include "control/client.h"

namespace weir::app {
namespace {

struct CtlArguments {
  std::string socket;
  bool json = false;
  bool dry_run = false;
  std::string what = "plan";
  std::string kind;    // of `set`: unit or group
  std::string target;  // of `set`, `attach`, `explain`, `stats`
  std::vector<std::string> assignments;
  std::map<std::string, std::string> flags;
  std::string file;
  std::string pid, uid, user, comm, cgroup, path;
};

int Complain(const Error& error) {
  fmt::print(stderr, "weir ctl: {}\n", error.message);
  const bool usage =
      error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kNotFound;
  return usage ? 2 : 1;
}

// One call; the answer as it is, or by `show`.
int CallAndShow(const CtlArguments& arguments, std::string_view op, const std::string& args,
                const std::function<std::string(const std::string&)>& show);

Result<control::Client> Connect(const CtlArguments& arguments) {
  std::string path = arguments.socket;
  if (path.empty()) {
    Result<std::string> found = control::FindSocket(std::string(control::kSocketDirectory));
    if (!found) return tl::unexpected(std::move(found.error()));
    path = std::move(*found);
  }
  return control::Client::Connect(path);
}

int CallAndShow(const CtlArguments& arguments, std::string_view op, const std::string& args,
                const std::function<std::string(const std::string&)>& show) {
  Result<control::Client> client = Connect(arguments);
  if (!client) return Complain(client.error());
  const Result<std::string> answer = client->Call(op, args);
  if (!answer) return Complain(answer.error());
  fmt::print("{}", arguments.json ? *answer + "\n" : show(*answer));
  return 0;
}

int RunShow(const CtlArguments& arguments) {
  return CallAndShow(arguments, "show", TextArgs({{"what", arguments.what}}),
                     [&](const std::string& answer) { return ShowText(arguments.what, answer); });
}

// "100KB/s" is ambiguous in a file, where nobody is there to ask; here it is said how it is read.
std::string WithoutAmbiguity(std::string value) {
  const size_t at = value.rfind("KB/s");
  if (at == std::string::npos || at + 4 != value.size()) return value;
  fmt::print(stderr, "note: {} is read as {}kB/s, of 1000 bytes; KiB/s are of 1024\n", Quote(value),
             value.substr(0, at));
  return value.replace(at, 4, "kB/s");
}

Result<KeysAndValues> ValuesOf(const CtlArguments& arguments) {
  KeysAndValues values;
  const bool is_unit = arguments.target.find('/') == std::string::npos;
  for (const std::string& text : arguments.assignments) {
    Result<std::pair<std::string, std::string>> value = ParseAssignment(text);
    if (!value) return tl::unexpected(std::move(value.error()));
    value->second = WithoutAmbiguity(std::move(value->second));
    values.push_back(std::move(*value));
  }
  for (const auto& [flag, value] : arguments.flags) {
    if (!value.empty()) values.emplace_back(KeyOfFlag(flag, is_unit), WithoutAmbiguity(value));
  }
  if (values.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("set {}: nothing to set; write key=value, for example max_iops=40000",
                            arguments.target));
  }
  return values;
}

int RunSet(const CtlArguments& arguments) {
  if (arguments.kind != "unit" && arguments.kind != "group") {
    return Complain({ErrorCode::kInvalidArgument,
                     fmt::format("set {}: it must be one of: unit, group", Quote(arguments.kind)),
                     0});
  }
  if (arguments.kind == "unit" && arguments.target.find('/') != std::string::npos) {
    return Complain({ErrorCode::kInvalidArgument,
                     fmt::format("set unit {}: this is a group; write `set group {}`",
                                 Quote(arguments.target), arguments.target),
                     0});
  }
  Result<KeysAndValues> values = ValuesOf(arguments);
  if (!values) return Complain(values.error());
  if (NeedsPercentages(arguments.target, *values)) {
    Result<control::Client> client = Connect(arguments);
    if (!client) return Complain(client.error());
    const Result<std::string> groups = client->Call("show", R"({"what":"groups"})");
    if (!groups) return Complain(groups.error());
    values = ToPercentages(arguments.target, std::move(*values), *groups);
    if (!values) return Complain(values.error());
  }
  return CallAndShow(
      arguments, "set", SetArgs(arguments.target, *values, arguments.dry_run),
      [&](const std::string& answer) { return ChangeText(answer, arguments.dry_run); });
}

int RunApply(const CtlArguments& arguments) {
  const Result<std::string> text = ReadTextFile(arguments.file);
  if (!text) return Complain({ErrorCode::kNotFound, text.error().message, 0});
  return CallAndShow(
      arguments, "apply", ApplyArgs(arguments.file, *text, arguments.dry_run),
      [&](const std::string& answer) { return ChangeText(answer, arguments.dry_run); });
}

int RunAttach(const CtlArguments& arguments, const char* op) {
  return CallAndShow(arguments, op,
                     TextArgs({{"cgroup", arguments.cgroup},
                               {"uid", arguments.uid},
                               {"user", arguments.user},
                               {"comm", arguments.comm},
                               {"pid", arguments.pid},
                               {"path", arguments.path},
                               {"group", arguments.target}}),
                     [](const std::string& answer) { return ChangeText(answer, false); });
}

int RunStats(const CtlArguments& arguments) {
  return CallAndShow(arguments, "stats", "{}", [&](const std::string& answer) {
    const Result<TopFrame> frame = ParseTopFrame(answer);
    if (!frame) return answer + "\n";
    TopView view;
    view.columns = TerminalStyle().columns;
    view.filter = arguments.target;
    return RenderTop(*frame, view);
  });
}

int RunExplain(const CtlArguments& arguments) {
  return CallAndShow(arguments, "explain", TextArgs({{"group", arguments.target}}), ExplainText);
}

using Arguments = std::shared_ptr<CtlArguments>;

CLI::Validator WholeNumber() {
  return {[](const std::string& text) {
            const bool digits =
                !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
            return digits && text.size() <= 10 ? std::string()
                                               : Quote(text) + " is not a whole number";
          },
          ""};
}

void AddSelectors(CLI::App* command, const Arguments& arguments) {
  command->add_option("--pid", arguments->pid, "A process with all its threads, or one thread")
      ->check(WholeNumber());
  command->add_option("--cgroup", arguments->cgroup,
                      "Pattern of a cgroup (as in /proc/PID/cgroup), with all below it");
  command->add_option("--uid", arguments->uid, "User id of the call")->check(WholeNumber());
  command->add_option("--user", arguments->user, "The same by login name");
  command->add_option("--comm", arguments->comm, "Pattern of the thread's name");
  command->add_option("--path", arguments->path, "Pattern of the path in the volume");
}

void AddChanges(CLI::App* ctl, const Arguments& arguments, int* status) {
  CLI::App* set = ctl->add_subcommand("set", "Change values of a unit or group");
  set->add_option("KIND", arguments->kind, "unit or group")->required();
  set->add_option("NAME", arguments->target, "The unit, or unit/group")->required();
  set->add_option("KEY=VALUE", arguments->assignments, "As in weir.toml; docs/config.md");
  for (const std::string& flag : SetFlags()) {
    set->add_option("--" + flag, arguments->flags[flag],
                    "Same as " + KeyOfFlag(flag, true) + "=...");
  }
  set->add_flag("--dry-run", arguments->dry_run, "Check and say what would change");
  set->footer(
      "Values of a group are percentages of what is above it, as in weir.toml; an absolute one\n"
      "(\"500/s\", \"100kB/s\") is turned into a percentage.\n"
      "Examples:\n"
      "  weir ctl set unit tp_unit max_iops=40000 min_iops=2000\n"
      "  weir ctl set group tp_unit/olap --max-iops 50\n"
      "  weir ctl set unit grp1 --min-bps 100kB/s --max-bps 500kB/s");
  set->callback([arguments, status] { *status = RunSet(*arguments); });

  CLI::App* apply = ctl->add_subcommand("apply", "Replace the whole plan, atomically");
  apply->add_option("FILE", arguments->file, "A weir.toml")->required();
  apply->add_flag("--dry-run", arguments->dry_run, "Check and say what would change");
  apply->callback([arguments, status] { *status = RunApply(*arguments); });

  CLI::App* attach =
      ctl->add_subcommand("attach", "Put processes or files into a group, before all matches");
  AddSelectors(attach, arguments);
  attach->add_option("GROUP", arguments->target, "unit or unit/group")->required();
  attach->footer(
      "Examples:\n"
      "  weir ctl attach --pid 4711 tp_unit/olap\n"
      "  weir ctl attach --cgroup /docker/5c1f* tp_unit");
  attach->callback([arguments, status] { *status = RunAttach(*arguments, "attach"); });

  CLI::App* detach = ctl->add_subcommand("detach", "Undo an attach that selected the same");
  AddSelectors(detach, arguments);
  detach->callback([arguments, status] { *status = RunAttach(*arguments, "detach"); });
}

void AddViews(CLI::App* ctl, const Arguments& arguments, int* status) {
  CLI::App* show = ctl->add_subcommand("show", "Show the plan that runs");
  show->add_option("WHAT", arguments->what, "plan, units, groups or matches")
      ->capture_default_str();
  show->callback([arguments, status] { *status = RunShow(*arguments); });

  CLI::App* stats = ctl->add_subcommand("stats", "Rates since the last look; weir top shows more");
  stats->add_option("GROUP", arguments->target, "Only groups with this in their path");
  stats->callback([arguments, status] { *status = RunStats(*arguments); });

  CLI::App* explain = ctl->add_subcommand("explain", "Say what holds back the requests that wait");
  explain->add_option("GROUP", arguments->target, "unit or unit/group; default: all that wait");
  explain->callback([arguments, status] { *status = RunExplain(*arguments); });
}

}  // namespace

void AddCtl(CLI::App* app, int* status) {
  auto arguments = std::make_shared<CtlArguments>();
  CLI::App* ctl = app->add_subcommand("ctl", "Show and change the plan of a running volume");
  ctl->require_subcommand(1);
  ctl->fallthrough();  // --socket and --json may come last
  ctl->add_option("--socket", arguments->socket,
                  "Control socket (default: the only one in /run/weir)");
  ctl->add_flag("--json", arguments->json, "The daemon's answer as JSON; docs/control.md");
  AddViews(ctl, arguments, status);
  AddChanges(ctl, arguments, status);
  ctl->footer(
      "Exit status: 0 done, 1 the daemon cannot be reached or failed, 2 bad usage or input.");
}

}  // namespace weir::app

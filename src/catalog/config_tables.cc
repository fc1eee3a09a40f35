#include "catalog/config_tables.h"

#include <fmt/format.h>

#include <set>

#include "base/text.h"
#include "base/units.h"
#include "catalog/config_check.h"
#include "catalog/config_keys.h"
#include "catalog/leaf_index.h"
#include "catalog/tree_builder.h"

namespace weir::catalog {
namespace {

int64_t ReadDepth(TableReader* reader) {
  const TomlValue* value = reader->Take("depth");
  if (value == nullptr) return 0;
  const Result<std::string> text = ScalarText(*value);
  if (text && *text == "auto") return 0;
  const Result<int64_t> depth =
      text ? ParseOpsRate(*text) : Result<int64_t>(tl::unexpected(text.error()));
  if (!depth || *depth < kOp || *depth > kMaxFixedDepth) {
    reader->Reject("depth", fmt::format("it must be \"auto\", or between 1 and {} operations",
                                        kMaxFixedDepth / kOp));
    return 0;
  }
  return *depth;
}

Device ReadDevice(TableReader* reader) {
  Device device;
  device.line = reader->line();
  device.name = reader->Name("name");
  device.path = reader->Text("path");
  device.profile = reader->Text("profile");
  device.capacity = reader->Parsed("capacity_iops", ParseOpsRate, 0);
  if (reader->Has("capacity_iops") && (device.capacity == 0 || device.capacity == kUnlimited)) {
    reader->Reject("capacity_iops",
                   "it must be the rate that the device serves; remove it to use the profile's");
  } else if (reader->Has("capacity_iops") &&
             (device.capacity < kMinCapacity || device.capacity > kMaxCapacity)) {
    reader->Reject("capacity_iops",
                   fmt::format("no disk serves that; write what it does, between {} and {}, or "
                               "remove it to use the profile's",
                               FormatOpsRate(kMinCapacity), FormatOpsRate(kMaxCapacity)));
  }
  device.fixed_depth = ReadDepth(reader);
  reader->Finish();
  return device;
}

// Reads the keys that `set` knows.
template <typename Target>
void ReadKeys(TableReader* reader, const std::vector<std::string>& keys, Target* target,
              Result<void> (*set)(Target*, std::string_view, std::string_view)) {
  for (const std::string& key : keys) {
    const TomlValue* value = reader->Take(key);
    if (value == nullptr) continue;
    target->key_lines.emplace(key, value->line);
    const Result<std::string> text = ScalarText(*value);
    if (!text) {
      reader->Reject(key, text.error().message);
      continue;
    }
    const Result<void> done = set(target, key, *text);
    if (!done) reader->RejectValue(key, done.error().message);
  }
}

void KeepLine(const TableReader& reader, std::string_view key, KeyLines* lines) {
  if (reader.Has(key)) lines->emplace(key, reader.LineOf(key));
}

Unit ReadUnit(TableReader* reader) {
  Unit unit;
  unit.line = reader->line();
  unit.name = reader->Name("name");
  unit.device = reader->OptionalName("device");
  unit.plan = reader->OptionalName("plan");
  KeepLine(*reader, "device", &unit.key_lines);
  KeepLine(*reader, "plan", &unit.key_lines);
  ReadKeys(reader, UnitKeys(), &unit, SetUnitKey);
  reader->Finish();
  return unit;
}

Directive ReadDirective(TableReader* reader) {
  Directive directive;
  directive.line = reader->line();
  const std::string group = reader->OptionalName("group");
  const std::string subplan = reader->OptionalName("subplan");
  directive.is_subplan = reader->Has("subplan");
  directive.group_or_subplan = directive.is_subplan ? subplan : group;
  directive.comment = reader->Text("comment");
  KeepLine(*reader, "group", &directive.key_lines);
  KeepLine(*reader, "subplan", &directive.key_lines);
  ReadKeys(reader, DirectiveKeys(), &directive, SetDirectiveKey);
  reader->Finish();
  if (reader->Has("group") && reader->Has("subplan")) {
    reader->Reject("subplan", "a directive has a group or a subplan, not both; write two");
  }
  if (!reader->Has("group") && !reader->Has("subplan")) {
    reader->RejectTable("group is missing; say which group or subplan the directive is for");
  }
  return directive;
}

Plan ReadPlan(TableReader* reader) {
  Plan plan;
  plan.line = reader->line();
  plan.name = reader->Name("name");
  plan.comment = reader->Text("comment");
  for (TableReader& directive : reader->Tables("directive", kMaxGroupsAPlan)) {
    plan.directives.push_back(ReadDirective(&directive));
  }
  reader->Finish();
  return plan;
}

Group ReadGroup(TableReader* reader) {
  Group group;
  group.line = reader->line();
  group.name = reader->Name("name");
  group.comment = reader->Text("comment");
  reader->Finish();
  return group;
}

Match ReadMatch(TableReader* reader) {
  constexpr int64_t kMaxId = UINT32_MAX - 1;  // all ones means "no id" to the kernel
  Match match;
  match.line = reader->line();
  match.group = reader->Text("group");
  reader->Require("group", "say which unit or unit/group these requests belong to");
  match.cgroup = reader->Text("cgroup");
  match.path = reader->Text("path");
  match.comm = reader->Text("comm");
  match.user = reader->Text("user");
  match.uid = reader->Integer("uid", 0, kMaxId, -1);
  match.pid = reader->Integer("pid", 1, INT32_MAX, -1);
  for (const char* key : {"cgroup", "path", "comm", "user"}) {
    if (reader->Has(key) && reader->Text(key).empty()) {
      reader->Reject(key, "it is empty; remove it to match any");
    }
  }
  reader->Finish();
  if (const std::string why = WhyNoMatch(match); !why.empty()) reader->RejectTable(why);
  return match;
}

// Every match leads to a leaf of one of the trees.
void CheckMatches(const Config& config, const std::vector<TreeNode>& nodes, Problems* problems) {
  if (config.matches.empty()) return;
  const LeafIndex leaves(nodes);
  for (size_t i = 0; i < config.matches.size(); ++i) {
    const Match& match = config.matches[i];
    if (!problems->ok()) return;
    if (match.group == kUnmatched) continue;
    const Result<int> leaf = leaves.Find(match.group);
    if (leaf) continue;
    problems->Add(match.line, fmt::format("match {}: group = {}: {}", i + 1, Quote(match.group),
                                          leaf.error().message));
  }
}

void WarnOfUnusedPlans(Config* config) {
  std::set<std::string_view> used;
  for (const Unit& unit : config->units) used.insert(unit.plan);
  for (const Plan& plan : config->plans) {
    for (const Directive& directive : plan.directives) {
      if (directive.is_subplan) used.insert(directive.group_or_subplan);
    }
  }
  for (const Plan& plan : config->plans) {
    if (used.contains(plan.name)) continue;
    config->warnings.push_back(fmt::format("{}:{}: plan {} is used by no unit", config->file,
                                           plan.line, Quote(plan.name)));
  }
}

}  // namespace

void ReadConfigTables(TableReader* root, Config* config, Problems* problems) {
  config->strict = root->Flag("strict", false);
  for (TableReader& table : root->Tables("device", kMaxDevices)) {
    config->devices.push_back(ReadDevice(&table));
  }
  for (TableReader& table : root->Tables("unit", kMaxUnits)) {
    config->units.push_back(ReadUnit(&table));
  }
  for (TableReader& table : root->Tables("plan", kMaxPlans)) {
    if (!problems->ok()) return;
    config->plans.push_back(ReadPlan(&table));
  }
  for (TableReader& table : root->Tables("group", kMaxGroups)) {
    config->groups.push_back(ReadGroup(&table));
  }
  for (TableReader& table : root->Tables("match", kMaxMatches)) {
    if (!problems->ok()) return;
    config->matches.push_back(ReadMatch(&table));
  }
}

void CheckWhole(Config* config, Problems* problems) {
  if (!problems->ok()) return;
  CheckConfig(*config, problems);
  const PlanIndex plans(*config);
  std::vector<TreeNode> all;
  const auto check = [&](std::string_view device, int64_t capacity) {
    TreeBuilder builder(*config, plans, problems, nullptr);
    for (const Unit& unit : config->units) {
      if (!problems->ok()) return;
      if (IsOn(*config, unit, device)) builder.AddUnit(unit);
    }
    CheckCapacity(*config, device, capacity, problems, nullptr);
    for (TreeNode& node : builder.Take()) all.push_back(std::move(node));
  };
  for (const Device& device : config->devices) check(device.name, device.capacity);
  if (config->devices.empty()) check("", 0);
  if (problems->ok()) CheckMatches(*config, all, problems);
  if (problems->ok()) WarnOfUnusedPlans(config);
}

}  // namespace weir::catalog

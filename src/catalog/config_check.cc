#include "catalog/config_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/text.h"
#include "base/units.h"
#include "catalog/config_keys.h"

namespace weir::catalog {
namespace {

// Name -> line of its first use. Reports the second use.
class NameSet {
 public:
  NameSet(std::string kind, Problems* problems) : kind_(std::move(kind)), problems_(problems) {}

  void Add(std::string_view name, int line) {
    if (!problems_->ok()) return;
    if (const std::string why = WhyNoName(name); !why.empty()) {
      problems_->Add(line, fmt::format("{} {}: {}", kind_, Quote(name), why));
    }
    const auto [it, added] = lines_.emplace(name, line);
    if (!added) {
      problems_->Add(line, fmt::format("{} {} is already there, in line {}; choose another name",
                                       kind_, Quote(name), it->second));
    }
  }
  // Requires: Has(name).
  [[nodiscard]] int LineOf(std::string_view name) const { return lines_.find(name)->second; }
  [[nodiscard]] bool Has(std::string_view name) const { return lines_.contains(name); }
  [[nodiscard]] std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, line] : lines_) names.emplace_back(name);
    std::sort(names.begin(), names.end());
    return names;
  }
  // "; did you mean "x"?" or "; known ...: a, b, c", or what to add when there is none.
  [[nodiscard]] std::string Hint(std::string_view name) const {
    const std::vector<std::string> names = Names();
    if (names.empty()) return fmt::format("; add a [[{}]] with this name", kind_);
    const std::string match = ClosestMatch(name, names);
    if (!match.empty()) return fmt::format("; did you mean {}?", Quote(match));
    return fmt::format("; known: {}", JoinNames(names));
  }

 private:
  std::string kind_;
  Problems* problems_;
  std::unordered_map<std::string_view, int> lines_;
};

struct Names {
  explicit Names(Problems* problems)
      : devices("device", problems),
        units("unit", problems),
        plans("plan", problems),
        groups("group", problems) {}
  NameSet devices;
  NameSet units;
  NameSet plans;
  NameSet groups;
};

void CollectNames(const Config& config, Names* names, Problems* problems) {
  for (const Device& device : config.devices) names->devices.Add(device.name, device.line);
  for (const Unit& unit : config.units) names->units.Add(unit.name, unit.line);
  for (const Plan& plan : config.plans) names->plans.Add(plan.name, plan.line);
  for (const Group& group : config.groups) {
    names->groups.Add(group.name, group.line);
    if (group.name == kOtherGroups) {
      problems->Add(group.line,
                    fmt::format("group \"{}\" is built in; remove this [[group]]", kOtherGroups));
    }
    if (names->plans.Has(group.name)) {
      problems->Add(group.line, fmt::format("group {}: a plan has this name, in line {}; plans and "
                                            "groups need different names",
                                            Quote(group.name), names->plans.LineOf(group.name)));
    }
  }
  if (names->plans.Has(kOtherGroups)) {
    problems->Add(names->plans.LineOf(kOtherGroups),
                  fmt::format("plan \"{}\": the name is that of the built-in group; choose another",
                              kOtherGroups));
  }
}

void CheckDirectiveName(const Plan& plan, const Directive& directive, const Names& names,
                        Problems* problems) {
  const std::string& name = directive.group_or_subplan;
  const std::string what = fmt::format("directive of plan {}", Quote(plan.name));
  if (directive.is_subplan) {
    const int line = LineOfKey(directive.key_lines, "subplan", directive.line);
    if (names.groups.Has(name) || name == kOtherGroups) {
      problems->Add(line, fmt::format("{}: subplan = {}: this is a group; write group = {}", what,
                                      Quote(name), Quote(name)));
    } else if (!names.plans.Has(name)) {
      problems->Add(line, fmt::format("{}: subplan = {}: there is no such plan{}", what,
                                      Quote(name), names.plans.Hint(name)));
    }
    return;
  }
  if (name == kOtherGroups || names.groups.Has(name)) return;
  const int line = LineOfKey(directive.key_lines, "group", directive.line);
  if (names.plans.Has(name)) {
    problems->Add(line, fmt::format("{}: group = {}: this is a plan; write subplan = {}", what,
                                    Quote(name), Quote(name)));
  } else {
    problems->Add(line, fmt::format("{}: group = {}: there is no such group{}", what, Quote(name),
                                    names.groups.Hint(name)));
  }
}

void CheckReferences(const Config& config, const Names& names, Problems* problems) {
  for (const Unit& unit : config.units) {
    if (!problems->ok()) return;
    const auto report = [&](std::string_view key, std::string_view why) {
      problems->Add(LineOfKey(unit.key_lines, key, unit.line),
                    fmt::format("unit {}: {}", Quote(unit.name), why));
    };
    if (!unit.plan.empty() && !names.plans.Has(unit.plan)) {
      report("plan", fmt::format("plan = {}: there is no such plan{}", Quote(unit.plan),
                                 names.plans.Hint(unit.plan)));
    }
    if (!unit.device.empty() && !names.devices.Has(unit.device)) {
      report("device", fmt::format("device = {}: there is no such device{}", Quote(unit.device),
                                   names.devices.Hint(unit.device)));
    }
    if (unit.device.empty() && config.devices.size() > 1) {
      report("device", fmt::format("device is missing; there are several: {}",
                                   JoinNames(names.devices.Names())));
    }
  }
  for (const Plan& plan : config.plans) {
    for (const Directive& directive : plan.directives) {
      if (!problems->ok()) return;
      CheckDirectiveName(plan, directive, names, problems);
    }
  }
}

void CheckCount(size_t count, size_t max, std::string_view kind, Problems* problems) {
  if (count <= max) return;
  problems->Add(0, fmt::format("{} [[{}]]: the maximum is {}", count, kind, max),
                ErrorCode::kResourceExhausted);
}

struct PercentMember {
  const char* key;
  double Directive::*member;
};
constexpr PercentMember kMembers[] = {
    {"min_iops", &Directive::min_iops},           {"max_iops", &Directive::max_iops},
    {"weight_iops", &Directive::weight_iops},     {"min_bandwidth", &Directive::min_bandwidth},
    {"max_bandwidth", &Directive::max_bandwidth}, {"mgmt_p1", &Directive::mgmt_p1},
};

void CheckPercentages(const Plan& plan, const Directive& directive, Problems* problems) {
  for (const PercentMember& member : kMembers) {
    const double percent = directive.*member.member;
    if (percent == -1) continue;
    std::string why = WhyNoPercent(percent);
    if (why.empty() && percent == 0 && std::string_view(member.key).starts_with("max_")) {
      why = "a limit of 0 would block for ever; write a small percentage, or 100";
    }
    if (why.empty()) continue;
    problems->Add(
        LineOfKey(directive.key_lines, member.key, directive.line),
        fmt::format("directive {} of plan {}: {} = {}: {}", Quote(directive.group_or_subplan),
                    Quote(plan.name), member.key, percent, why));
  }
}

// The reservations of a plan's directives must fit into the node above.
void CheckSum(const Plan& plan, std::string_view key, double Directive::*member,
              Problems* problems) {
  int64_t sum = 0;
  std::vector<std::string> parts;
  const Directive* crossing = nullptr;
  for (const Directive& directive : plan.directives) {
    const int64_t part = Millionths(directive.*member);
    if (part <= 0) continue;
    sum += part;
    parts.push_back(fmt::format("{} {}", directive.group_or_subplan, directive.*member));
    if (sum > kWhole && crossing == nullptr) crossing = &directive;
  }
  if (crossing == nullptr) return;
  problems->Add(LineOfKey(crossing->key_lines, key, crossing->line),
                fmt::format("plan {}: {} of its directives add up to {} %, more than the 100 % "
                            "there is ({}); lower some",
                            Quote(plan.name), key, static_cast<double>(sum) / kMillionthsAPercent,
                            JoinNames(parts, 8)));
}

// Plans that contain themselves. Depth-first; the stack is at most kMaxPlans deep.
class CycleFinder {
 public:
  CycleFinder(const PlanIndex& plans, Problems* problems) : plans_(plans), problems_(problems) {}

  void Visit(const Plan& plan) {
    if (done_.contains(&plan) || !problems_->ok()) return;
    path_.push_back(&plan);
    for (const Directive& directive : plan.directives) {
      const Plan* below = directive.is_subplan ? plans_.Find(directive.group_or_subplan) : nullptr;
      if (below == nullptr) continue;
      const auto start = std::find(path_.begin(), path_.end(), below);
      if (start == path_.end()) {
        Visit(*below);
      } else {
        Report(plan, directive, {start, path_.end()});
      }
    }
    path_.pop_back();
    done_.insert(&plan);
  }

 private:
  void Report(const Plan& plan, const Directive& directive, std::vector<const Plan*> cycle) {
    std::string text;
    for (const Plan* step : cycle) text += step->name + " > ";
    problems_->Add(LineOfKey(directive.key_lines, "subplan", directive.line),
                   fmt::format("directive of plan {}: subplan = {}: a plan cannot contain itself "
                               "({}{}); remove this directive",
                               Quote(plan.name), Quote(directive.group_or_subplan), text,
                               directive.group_or_subplan));
  }

  const PlanIndex& plans_;
  Problems* problems_;
  std::vector<const Plan*> path_;
  std::unordered_set<const Plan*> done_;
};

}  // namespace

PlanIndex::PlanIndex(const Config& config) {
  for (const Plan& plan : config.plans) plans_.emplace(plan.name, &plan);
}

const Plan* PlanIndex::Find(std::string_view name) const {
  const auto it = plans_.find(name);
  return it == plans_.end() ? nullptr : it->second;
}

int LineOfKey(const KeyLines& lines, std::string_view key, int otherwise) {
  const auto it = lines.find(key);
  return it == lines.end() ? otherwise : it->second;
}

MinMaxConflict FindMinMaxConflict(const ResourceParams& params) {
  for (const Dimension d : {Dimension::kNorm, Dimension::kRaw, Dimension::kBytes}) {
    const int64_t min = params.MinOf(d);
    const int64_t both = params.MaxOf(d, Scope::kBoth);
    if (min > both) {
      return {d, fmt::format("{} ({}) exceeds {} ({})", MinKey(d), FormatRate(d, min),
                             MaxKey(d, Scope::kBoth), FormatRate(d, both))};
    }
    const int64_t read = params.MaxOf(d, Scope::kRead);
    const int64_t write = params.MaxOf(d, Scope::kWrite);
    // Written so that it cannot overflow: both are finite and at most kMaxRate.
    if (read != kUnlimited && write != kUnlimited && min > read + write) {
      return {d, fmt::format("{} ({}) exceeds {} and {} together ({})", MinKey(d),
                             FormatRate(d, min), MaxKey(d, Scope::kRead), MaxKey(d, Scope::kWrite),
                             FormatRate(d, read + write))};
    }
  }
  return {};
}

void CheckUnit(const Unit& unit, Problems* problems) {
  const auto report = [&](std::string_view key, std::string_view why) {
    problems->Add(LineOfKey(unit.key_lines, key, unit.line),
                  fmt::format("unit {}: {}", Quote(unit.name), why));
  };
  const ResourceParams& params = unit.params;
  if (params.weight < 0 || params.weight > kMaxWeight) {
    report("iops_weight", fmt::format("iops_weight = {}: a weight is between 0 and {}",
                                      params.weight, kMaxWeight));
  }
  if (unit.burst > kMaxBurst) {
    report("burst", fmt::format("burst = {}: it is at most {}", FormatDuration(unit.burst),
                                FormatDuration(kMaxBurst)));
  }
  for (const Dimension d : {Dimension::kNorm, Dimension::kRaw, Dimension::kBytes}) {
    if (params.MinOf(d) < 0 || params.MinOf(d) > kMaxRate) {
      report(MinKey(d), fmt::format("{} = {}: it is between 0 and {}", MinKey(d),
                                    FormatRate(d, params.MinOf(d)), FormatRate(d, kMaxRate)));
    }
    for (const Scope s : {Scope::kRead, Scope::kWrite, Scope::kBoth}) {
      const int64_t max = params.MaxOf(d, s);
      if (max == kUnlimited || (max > 0 && max <= kMaxRate)) continue;
      report(MaxKey(d, s), fmt::format("{} = {}: it is above 0 and at most {}, or unlimited",
                                       MaxKey(d, s), FormatRate(d, max), FormatRate(d, kMaxRate)));
    }
  }
  if (!problems->ok()) return;
  if (const MinMaxConflict conflict = FindMinMaxConflict(params); !conflict.text.empty()) {
    report(MinKey(conflict.dimension),
           fmt::format("{}; lower the first or raise the second", conflict.text));
  }
}

void CheckPlan(const Plan& plan, Problems* problems) {
  CheckCount(plan.directives.size(), kMaxGroupsAPlan, "plan.directive", problems);
  std::unordered_map<std::string_view, int> lines;
  for (const Directive& directive : plan.directives) {
    const auto [it, added] = lines.emplace(directive.group_or_subplan, directive.line);
    if (!added) {
      problems->Add(directive.line,
                    fmt::format("plan {}: {} has a directive already, in line {}; remove one",
                                Quote(plan.name), Quote(directive.group_or_subplan), it->second));
    }
    CheckPercentages(plan, directive, problems);
  }
  if (!problems->ok()) return;
  CheckSum(plan, "min_iops", &Directive::min_iops, problems);
  CheckSum(plan, "min_bandwidth", &Directive::min_bandwidth, problems);
}

void CheckConfig(const Config& config, Problems* problems) {
  CheckCount(config.devices.size(), kMaxDevices, "device", problems);
  CheckCount(config.units.size(), kMaxUnits, "unit", problems);
  CheckCount(config.plans.size(), kMaxPlans, "plan", problems);
  CheckCount(config.groups.size(), kMaxGroups, "group", problems);
  if (!problems->ok()) return;
  Names names(problems);
  CollectNames(config, &names, problems);
  CheckReferences(config, names, problems);
  for (const Unit& unit : config.units) CheckUnit(unit, problems);
  for (const Plan& plan : config.plans) CheckPlan(plan, problems);
  const PlanIndex plans(config);
  CycleFinder cycles(plans, problems);
  for (const Plan& plan : config.plans) cycles.Visit(plan);
}

}  // namespace weir::catalog

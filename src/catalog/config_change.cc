// Live changes of units and directives.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "catalog/config.h"
#include "catalog/config_check.h"
#include "catalog/config_keys.h"
#include "catalog/tree_builder.h"

namespace weir::catalog {
namespace {

using KeysAndValues = std::vector<std::pair<std::string, std::string>>;

std::string NotThere(std::string_view kind, std::string_view name,
                     const std::vector<std::string>& known) {
  const std::string match = ClosestMatch(name, known);
  return fmt::format("there is no {} {}; {}", kind, Quote(name),
                     match.empty() ? "known: " + (known.empty() ? "none" : JoinNames(known))
                                   : fmt::format("did you mean {}?", Quote(match)));
}

Result<Unit*> FindUnit(Config* config, std::string_view name) {
  for (Unit& unit : config->units) {
    if (unit.name == name) return &unit;
  }
  std::vector<std::string> known;
  for (const Unit& unit : config->units) known.push_back(unit.name);
  return Fail(ErrorCode::kNotFound, NotThere("unit", name, known));
}

Result<Plan*> FindPlan(Config* config, std::string_view name) {
  for (Plan& plan : config->plans) {
    if (plan.name == name) return &plan;
  }
  return Fail(ErrorCode::kNotFound, NotThere("plan", name, {}));
}

struct Place {
  Plan* plan = nullptr;
  Directive* directive = nullptr;
  bool added = false;  // OTHER_GROUPS had no directive
};

// Follows `path` ("group", "subplan/group") from the unit's plan.
Result<Place> FindDirective(Config* config, const Unit& unit, std::string_view path) {
  if (unit.plan.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("unit {} has no plan, so no group {}", Quote(unit.name), Quote(path)));
  }
  std::string_view plan_name = unit.plan;
  for (bool top = true;; top = false) {
    const Result<Plan*> found = FindPlan(config, plan_name);
    if (!found) return tl::unexpected(found.error());
    Plan& plan = **found;
    const size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    Directive* match = nullptr;
    for (Directive& directive : plan.directives) {
      if (directive.group_or_subplan == name) match = &directive;
    }
    const bool last = slash == std::string_view::npos;
    if (match == nullptr && top && last && name == kOtherGroups) {
      Directive other;
      other.group_or_subplan = kOtherGroups;
      plan.directives.push_back(std::move(other));
      return Place{&plan, &plan.directives.back(), true};
    }
    if (match == nullptr) {
      std::vector<std::string> known;
      for (const Directive& d : plan.directives) known.push_back(d.group_or_subplan);
      if (top) known.emplace_back(kOtherGroups);
      return Fail(ErrorCode::kNotFound,
                  fmt::format("{} in plan {}", NotThere("group", name, known), Quote(plan.name)));
    }
    if (last) return Place{&plan, match, false};
    if (!match->is_subplan) {
      return Fail(ErrorCode::kNotFound, fmt::format("group {} has nothing below it", Quote(name)));
    }
    plan_name = match->group_or_subplan;
    path.remove_prefix(slash + 1);
  }
}

// Sets all keys; the error names the key.
template <typename Target>
Result<void> SetAll(Target* target, const KeysAndValues& values,
                    Result<void> (*set)(Target*, std::string_view, std::string_view)) {
  for (const auto& [key, value] : values) {
    const Result<void> done = set(target, key, value);
    if (!done && done.error().code == ErrorCode::kNotFound) {
      return Fail(ErrorCode::kInvalidArgument, done.error().message);
    }
    if (!done) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{} = {}", key, done.error().message));
    }
    target->key_lines.erase(key);  // no longer as in the file
  }
  return {};
}

// Rebuilds what may have been touched: one unit, or (nullptr) all with a plan.
void CheckAfterChange(const Config& config, const Unit* changed, Problems* problems) {
  const PlanIndex plans(config);
  for (const Unit& unit : config.units) {
    if (!problems->ok()) return;
    if (changed != nullptr ? &unit != changed : unit.plan.empty()) continue;
    CheckUnit(unit, problems);
    if (!problems->ok()) return;
    TreeBuilder builder(config, plans, problems, nullptr);
    builder.AddUnit(unit);
  }
  for (const Device& device : config.devices) {
    CheckCapacity(config, device.name, device.capacity, problems, nullptr);
  }
}

Result<void> ChangeUnit(Config* config, Unit* unit, const KeysAndValues& values) {
  Unit before = *unit;
  Problems problems(config->file);
  Result<void> done = SetAll(unit, values, SetUnitKey);
  if (done) CheckAfterChange(*config, unit, &problems);
  if (done && !problems.ok()) done = Fail(ErrorCode::kInvalidArgument, problems.message());
  if (!done) *unit = std::move(before);
  return done;
}

Result<void> ChangeDirective(Config* config, const Place& place, const KeysAndValues& values) {
  Directive before = *place.directive;
  Problems problems(config->file);
  Result<void> done = SetAll(place.directive, values, SetDirectiveKey);
  if (done) {
    CheckPlan(*place.plan, &problems);
    CheckAfterChange(*config, nullptr, &problems);
  }
  if (done && !problems.ok()) done = Fail(ErrorCode::kInvalidArgument, problems.message());
  if (!done && place.added) {
    place.plan->directives.pop_back();
  } else if (!done) {
    *place.directive = std::move(before);
  }
  return done;
}

Result<void> Change(Config* config, std::string_view target, const KeysAndValues& values) {
  if (values.empty()) return Fail(ErrorCode::kInvalidArgument, "there is no key to set");
  const size_t slash = target.find('/');
  const Result<Unit*> unit = FindUnit(config, target.substr(0, slash));
  if (!unit) return tl::unexpected(unit.error());
  if (slash == std::string_view::npos) return ChangeUnit(config, *unit, values);
  const Result<Place> place = FindDirective(config, **unit, target.substr(slash + 1));
  if (!place) return tl::unexpected(place.error());
  return ChangeDirective(config, *place, values);
}

}  // namespace

Result<void> ApplyChanges(Config* config, std::string_view target, const KeysAndValues& values) {
  Result<void> done = Change(config, target, values);
  if (!done) {
    done.error().message = fmt::format("change of {}: {}", Quote(target), done.error().message);
  }
  return done;
}

Result<void> ApplyChange(Config* config, std::string_view target, std::string_view key,
                         std::string_view value) {
  return ApplyChanges(config, target, {{std::string(key), std::string(value)}});
}

}  // namespace weir::catalog

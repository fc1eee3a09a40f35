#include "catalog/tree_builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "catalog/config_keys.h"

namespace weir::catalog {
namespace {

constexpr Dimension kAllDimensions[] = {Dimension::kNorm, Dimension::kRaw, Dimension::kBytes};
constexpr Scope kAllScopes[] = {Scope::kRead, Scope::kWrite, Scope::kBoth};

// Weights of directives are in hundredths of a percent.
constexpr int64_t kMillionthsAWeight = 100;

// floor(rate * part), so that parts of 100 % in all never exceed the whole.
int64_t PartOf(int64_t rate, int64_t millionths) {
  return static_cast<int64_t>(static_cast<__int128>(rate) * millionths / kWhole);
}

double PercentFor(const Directive& directive, Dimension dimension, bool is_min) {
  if (dimension == Dimension::kBytes) {
    return is_min ? directive.min_bandwidth : directive.max_bandwidth;
  }
  return is_min ? directive.min_iops : directive.max_iops;
}

// Reservations are compared with the capacity at the price of 16 KiB an operation.
constexpr int64_t kBytesAnOp = 16 * 1024;

int64_t NormalisedMin(const ResourceParams& params) {
  const auto bytes = static_cast<int64_t>(static_cast<__int128>(params.MinOf(Dimension::kBytes)) *
                                          kOp / kBytesAnOp);
  return std::max({params.MinOf(Dimension::kNorm), params.MinOf(Dimension::kRaw), bytes});
}

}  // namespace

struct TreeBuilder::Node {
  int index = -1;
  std::string path;
  // What percentages below are of: all limits that bind here, also those set further up.
  ResourceParams base;
};

TreeBuilder::TreeBuilder(const Config& config, const PlanIndex& plans, Problems* problems,
                         std::vector<std::string>* warnings)
    : config_(config), plans_(plans), problems_(problems), warnings_(warnings) {}

void TreeBuilder::Warn(int line, std::string message) {
  if (warnings_ == nullptr || warnings_->size() >= kMaxWarnings) return;
  warnings_->push_back(AtPlace(config_.file, line, message));
}

int TreeBuilder::Append(std::string path, int parent, const ResourceParams& params, bool leaf) {
  if (nodes_.size() >= kMaxNodesADevice) {
    problems_->Add(0,
                   fmt::format("{}: a device has at most {} units, subplans and groups; use "
                               "smaller plans or fewer units with a plan",
                               Quote(path), kMaxNodesADevice),
                   ErrorCode::kResourceExhausted);
    return -1;
  }
  nodes_.push_back({std::move(path), parent, params, leaf});
  return static_cast<int>(nodes_.size()) - 1;
}

void TreeBuilder::AddUnit(const Unit& unit) {
  seen_.clear();
  ResourceParams params = unit.params;
  ApplyBurst(unit.burst, &params);
  const int index = Append(unit.name, -1, params, unit.plan.empty());
  if (index < 0 || unit.plan.empty()) return;
  const Plan* plan = plans_.Find(unit.plan);
  if (plan == nullptr) return;  // CheckConfig reports it
  const Node node = {index, unit.name, params};
  AddDirectives(unit, *plan, node, 1);
  if (problems_->ok() && !seen_.contains(kOtherGroups)) AddOtherGroups(node);
}

void TreeBuilder::AddOtherGroups(const Node& node) {
  ResourceParams params;
  params.weight = kWhole / kMillionthsAWeight;
  Append(fmt::format("{}/{}", node.path, kOtherGroups), node.index, params, true);
}

void TreeBuilder::AddDirectives(const Unit& unit, const Plan& plan, const Node& node, int level) {
  for (const Directive& directive : plan.directives) {
    AddDirective(unit, plan, directive, node, level);
    if (!problems_->ok()) return;
  }
}

// A group or subplan may occur once below a unit: mappings name a group, not a path.
bool TreeBuilder::Register(const Unit& unit, const Plan& plan, const Directive& directive,
                           const std::string& path) {
  const std::string& name = directive.group_or_subplan;
  const auto [it, added] = seen_.emplace(name, path);
  if (added) return true;
  problems_->Add(
      LineOfKey(directive.key_lines, directive.is_subplan ? "subplan" : "group", directive.line),
      fmt::format("directive of plan {}: {} occurs twice in unit {}: as {} and as {}; a mapping "
                  "could not tell them apart, remove one",
                  Quote(plan.name), Quote(name), Quote(unit.name), it->second, path));
  return false;
}

void TreeBuilder::AddDirective(const Unit& unit, const Plan& plan, const Directive& directive,
                               const Node& node, int level) {
  const std::string path = node.path + "/" + directive.group_or_subplan;
  if (!Register(unit, plan, directive, path)) return;
  const Plan* subplan = directive.is_subplan ? plans_.Find(directive.group_or_subplan) : nullptr;
  if (subplan != nullptr && level >= kMaxPlanDepth) {
    problems_->Add(LineOfKey(directive.key_lines, "subplan", directive.line),
                   fmt::format("directive of plan {}: subplan = {}: plans nest at most {} deep",
                               Quote(plan.name), Quote(subplan->name), kMaxPlanDepth),
                   ErrorCode::kResourceExhausted);
    return;
  }
  if (subplan != nullptr && subplan->directives.empty()) {
    problems_->Add(LineOfKey(directive.key_lines, "subplan", directive.line),
                   fmt::format("directive of plan {}: subplan = {}: that plan has no directives; "
                               "add one to it",
                               Quote(plan.name), Quote(subplan->name)));
    return;
  }
  CheckHasBase(plan, directive, node);
  Node child;
  child.path = path;
  child.base = Part(unit, plan, directive, node);
  ResourceParams params = child.base;
  for (const Dimension d : kAllDimensions) {
    if (Millionths(PercentFor(directive, d, false)) >= 0 &&
        Millionths(PercentFor(directive, d, false)) < kWhole) {
      continue;
    }
    for (const Scope s : kAllScopes) params.MaxOf(d, s) = kUnlimited;  // the one above binds
  }
  ApplyBurst(unit.burst, &params);
  if (!problems_->ok()) return;
  child.index = Append(path, node.index, params, subplan == nullptr);
  if (subplan != nullptr && child.index >= 0) AddDirectives(unit, *subplan, child, level + 1);
}

// A percentage of a limit that is not set, or of a reservation of 0, would mean nothing.
void TreeBuilder::CheckHasBase(const Plan& plan, const Directive& directive, const Node& node) {
  const auto unlimited = [&](Dimension d) {
    return std::all_of(std::begin(kAllScopes), std::end(kAllScopes),
                       [&](Scope s) { return node.base.MaxOf(d, s) == kUnlimited; });
  };
  const auto report = [&](std::string_view key, double percent, bool base_is_missing) {
    const bool is_max = key.starts_with("max_");
    const int64_t part = Millionths(percent);
    if (!base_is_missing || part < 0 || part == (is_max ? kWhole : 0)) return;
    const std::string message = fmt::format(
        "directive {} of plan {}: {} = {} %: {} has no {} to take a part of; set it there, or "
        "remove this",
        Quote(directive.group_or_subplan), Quote(plan.name), key, percent, Quote(node.path), key);
    const int line = LineOfKey(directive.key_lines, key, directive.line);
    if (is_max || config_.strict) {
      problems_->Add(line, message);
    } else {
      Warn(line, message);
    }
  };
  const ResourceParams& base = node.base;
  report("max_iops", directive.max_iops, unlimited(Dimension::kNorm) && unlimited(Dimension::kRaw));
  report("max_bandwidth", directive.max_bandwidth, unlimited(Dimension::kBytes));
  report("min_iops", directive.min_iops,
         base.MinOf(Dimension::kNorm) == 0 && base.MinOf(Dimension::kRaw) == 0);
  report("min_bandwidth", directive.min_bandwidth, base.MinOf(Dimension::kBytes) == 0);
}

ResourceParams TreeBuilder::Part(const Unit& unit, const Plan& plan, const Directive& directive,
                                 const Node& node) {
  ResourceParams part;
  for (const Dimension d : kAllDimensions) {
    const int64_t min = Millionths(PercentFor(directive, d, true));
    part.MinOf(d) = min < 0 ? 0 : PartOf(node.base.MinOf(d), min);
    const int64_t max = Millionths(PercentFor(directive, d, false));
    for (const Scope s : kAllScopes) {
      const int64_t whole = node.base.MaxOf(d, s);
      part.MaxOf(d, s) =
          whole == kUnlimited || max < 0 ? whole : std::max<int64_t>(1, PartOf(whole, max));
    }
  }
  const int64_t weight = Millionths(directive.weight_iops);
  part.weight = (weight < 0 ? kWhole : weight) / kMillionthsAWeight;
  if (const MinMaxConflict conflict = FindMinMaxConflict(part); !conflict.text.empty()) {
    const std::string key = conflict.dimension == Dimension::kBytes ? "min_bandwidth" : "min_iops";
    problems_->Add(LineOfKey(directive.key_lines, key, directive.line),
                   fmt::format("directive {} of plan {}: in unit {} its {}; lower the first "
                               "percentage or raise the second",
                               Quote(directive.group_or_subplan), Quote(plan.name),
                               Quote(unit.name), conflict.text));
  }
  return part;
}

bool IsOn(const Config& config, const Unit& unit, std::string_view device) {
  if (config.devices.size() <= 1) return true;
  return unit.device == device;
}

void CheckCapacity(const Config& config, std::string_view device, int64_t capacity,
                   Problems* problems, std::vector<std::string>* warnings) {
  if (capacity <= 0) return;
  __int128 sum = 0;
  std::vector<std::string> parts;
  const Unit* crossing = nullptr;
  for (const Unit& unit : config.units) {
    if (!IsOn(config, unit, device)) continue;
    const int64_t min = NormalisedMin(unit.params);
    if (min == 0) continue;
    sum += min;
    parts.push_back(fmt::format("{} {}", unit.name, FormatOpsRate(min)));
    if (sum > capacity && crossing == nullptr) crossing = &unit;
  }
  if (sum * 10 <= static_cast<__int128>(capacity) * 9) return;
  const auto total = static_cast<int64_t>(std::min<__int128>(sum, kUnlimited - 1));
  const std::string where = device.empty() ? "the device" : "device " + Quote(device);
  const std::string list = JoinNames(parts, 8);
  if (crossing == nullptr) {
    if (warnings != nullptr) {
      warnings->push_back(AtPlace(
          config.file, 0,
          fmt::format("reservations of {} add up to {}, more than 90 % of the capacity of {}: "
                      "little is left to share by weight ({})",
                      where, FormatOpsRate(total), FormatOpsRate(capacity), list)));
    }
    return;
  }
  const std::string message = fmt::format(
      "reservations of {} add up to {}, more than its capacity of {} ({}; bandwidth counted at 16 "
      "KiB an operation): each will get its share in proportion to its reservation; lower some "
      "min_iops",
      where, FormatOpsRate(total), FormatOpsRate(capacity), list);
  const int line = LineOfKey(crossing->key_lines, "min_iops", crossing->line);
  if (config.strict) {
    problems->Add(line, message);
  } else if (warnings != nullptr) {
    warnings->push_back(AtPlace(config.file, line, message));
  }
}

}  // namespace weir::catalog

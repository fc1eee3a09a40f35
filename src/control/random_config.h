// Random valid configurations that share names, so that units, plans and groups come, go, change
// and nest in another way from one to the next. For tests.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "catalog/config.h"

namespace weir::control {

inline catalog::Config MaybeConfig(Random* random) {
  const auto chance = [&](double p) { return random->Uniform() < p; };
  catalog::Config config;
  config.file = "random";
  for (int i = 0; i < 8; ++i) config.groups.push_back({"g" + std::to_string(i), "", 0});
  std::vector<std::string> names;
  for (int i = 0; i < 6; ++i) names.push_back("p" + std::to_string(i));
  for (size_t i = names.size(); i > 1; --i) {
    std::swap(names[i - 1],
              names[static_cast<size_t>(random->Range(0, static_cast<int64_t>(i) - 1))]);
  }
  // A plan contains only later ones: no cycles.
  for (size_t i = 0; i < names.size(); ++i) {
    catalog::Plan plan;
    plan.name = names[i];
    const auto add = [&](const std::string& name, bool is_subplan) {
      catalog::Directive directive;
      directive.group_or_subplan = name;
      directive.is_subplan = is_subplan;
      if (chance(0.5)) directive.min_iops = static_cast<double>(random->Range(0, 9));
      if (chance(0.5)) directive.max_iops = static_cast<double>(random->Range(20, 100));
      if (chance(0.7)) directive.weight_iops = static_cast<double>(random->Range(0, 100));
      plan.directives.push_back(directive);
    };
    for (const catalog::Group& group : config.groups) {
      if (chance(0.25)) add(group.name, false);
    }
    if (chance(0.2)) add(std::string(catalog::kOtherGroups), false);
    if (i + 1 < names.size() && chance(0.9)) add(names[i + 1], true);
    if (i + 2 < names.size() && chance(0.2)) add(names[i + 2], true);
    if (plan.directives.empty()) add("g0", false);
    config.plans.push_back(plan);
  }
  std::vector<std::string> units = {"u0", "u1", "u2", std::string(catalog::kUnmatched)};
  for (const std::string& name : units) {
    if (!chance(name == catalog::kUnmatched ? 0.2 : 0.7)) continue;
    catalog::Unit unit;
    unit.name = name;
    unit.params.MaxOf(Dimension::kNorm, Scope::kBoth) = random->Range(1000, 100'000) * kOp;
    if (chance(0.5)) unit.params.MinOf(Dimension::kNorm) = random->Range(0, 900) * kOp;
    unit.params.weight = random->Range(0, 1000);
    if (chance(0.7)) unit.plan = names[static_cast<size_t>(random->Range(0, 3))];
    config.units.push_back(unit);
  }
  return config;
}

// One that resolves.
inline catalog::Config RandomConfig(Random* random) {
  while (true) {
    catalog::Config config = MaybeConfig(random);
    if (catalog::Resolve(config, "", 0, nullptr)) return config;
  }
}

// As a file.
inline std::string ToToml(const catalog::Config& config) {
  std::string toml;
  const auto iops = [](int64_t rate) { return std::to_string(rate / kOp); };
  for (const catalog::Group& group : config.groups)
    toml += "[[group]]\nname=\"" + group.name + "\"\n";
  for (const catalog::Unit& unit : config.units) {
    toml += "[[unit]]\nname=\"" + unit.name +
            "\"\niops_weight=" + std::to_string(unit.params.weight) +
            "\nmax_iops=" + iops(unit.params.MaxOf(Dimension::kNorm, Scope::kBoth)) +
            "\nmin_iops=" + iops(unit.params.MinOf(Dimension::kNorm)) + "\n";
    if (!unit.plan.empty()) toml += "plan=\"" + unit.plan + "\"\n";
  }
  for (const catalog::Plan& plan : config.plans) {
    toml += "[[plan]]\nname=\"" + plan.name + "\"\n";
    for (const catalog::Directive& d : plan.directives) {
      toml += "[[plan.directive]]\n" + std::string(d.is_subplan ? "subplan" : "group") + "=\"" +
              d.group_or_subplan + "\"\n";
      const auto part = [&](const char* key, double percent) {
        if (percent >= 0) toml += key + ("=" + std::to_string(static_cast<int>(percent))) + "\n";
      };
      part("min_iops", d.min_iops);
      part("max_iops", d.max_iops);
      part("weight_iops", d.weight_iops);
    }
  }
  return toml;
}

}  // namespace weir::control

// Where a plan came from: the configuration's text, the values set since, the matches attached. A
// daemon that replaces another starts from it.
//
// PURE.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "catalog/config.h"

namespace weir::control {

struct PlanState {
  using Values = std::vector<std::pair<std::string, std::string>>;

  std::string file;  // for messages
  std::string toml;
  std::vector<std::pair<std::string, Values>> sets;  // target, values; the latest of each key
  std::vector<catalog::Match> attached;              // newest first

  // Adds values to `sets`; those that were set before are replaced.
  void Add(std::string_view target, const Values& values);
};

[[nodiscard]] std::string PlanStateJson(const PlanState& state);
// Errors: kInvalidArgument. Never throws, whatever the bytes.
[[nodiscard]] Result<PlanState> ParsePlanState(std::string_view json);

// The configuration with all that was set. Errors: those of catalog::ParseConfig and ApplyChanges.
[[nodiscard]] Result<catalog::Config> ConfigOf(const PlanState& state);

}  // namespace weir::control

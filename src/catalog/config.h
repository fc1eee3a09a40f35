// The configuration of weir.toml: devices, units, plans, groups and directives, checked as a whole.
//
// PURE: text in, values or an Error out. docs/config.md is the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/resource_params.h"
#include "base/result.h"

namespace weir::catalog {

// Named maxima: a file beyond one is an error that names it.
inline constexpr size_t kMaxFileBytes = 4 * 1024 * 1024;
inline constexpr size_t kMaxUnits = 10'000;
inline constexpr size_t kMaxGroupsAPlan = 1'000;
inline constexpr int kMaxPlanDepth = 6;

struct Device {
  std::string name;
  std::string path;            // a directory, a file or a block device
  std::string profile;         // JSON written by `weir calibrate`; empty = none
  int64_t capacity = 0;        // 1/65536 normalised op per second; 0 = from the profile
  int64_t fixed_depth = 0;     // 1/65536 normalised op; 0 = automatic
};

// min/max/weight of a unit, absolute.
struct Unit {
  std::string name;
  std::string device;  // empty = the only one
  std::string plan;    // empty = none: the unit is one leaf
  ResourceParams params;
  int line = 0;
};

struct Group {
  std::string name;
  std::string comment;
};

// A group's (or subplan's) part of the node above it: percentages of the MIN, MAX and WEIGHT of
// the unit, or of the subplan's directive. -1 = not set: MIN 0, MAX 100, WEIGHT 100.
struct Directive {
  std::string group_or_subplan;
  std::string comment;
  double min_iops = -1;
  double max_iops = -1;
  double weight_iops = -1;
  double min_bandwidth = -1;
  double max_bandwidth = -1;
  int line = 0;
};

struct Plan {
  std::string name;
  std::string comment;
  std::vector<Directive> directives;
  int line = 0;
};

struct Config {
  std::string file;  // as given, for messages
  bool strict = false;
  std::vector<Device> devices;
  std::vector<Unit> units;
  std::vector<Plan> plans;
  std::vector<Group> groups;
  std::vector<std::string> warnings;
};

// Errors: kInvalidArgument with file, line, key, value and the fix. Never throws, whatever the
// bytes. Requires nothing of `text`.
[[nodiscard]] Result<Config> ParseConfig(std::string_view text, const std::string& file);
[[nodiscard]] Result<Config> ReadConfigFile(const std::string& path);

// A node of the tree that a device's scheduler is given, parents before children. The path is
// "unit", "unit/group", "unit/subplan/group"; a unit with a plan always has the leaf
// "unit/OTHER_GROUPS" for what no directive names.
struct TreeNode {
  std::string path;
  int parent = -1;  // index into the vector; -1 = the device's root
  ResourceParams params;
  bool leaf = true;
};

// Absolute parameters of every node of `device`. Checks what needs the whole: children that reserve
// more than 100 %, MIN above MAX after percentages, sum of MIN against `capacity` (> 0; a warning
// into `warnings`, an error when strict).
[[nodiscard]] Result<std::vector<TreeNode>> Resolve(const Config& config, const std::string& device,
                                                    int64_t capacity,
                                                    std::vector<std::string>* warnings);

// One live change of a unit or directive: "max_iops" = "20000" of "unit" or "unit/group" (then in
// percent). Validates the whole result; `config` is unchanged on error.
[[nodiscard]] Result<void> ApplyChange(Config* config, std::string_view target,
                                       std::string_view key, std::string_view value);

}  // namespace weir::catalog

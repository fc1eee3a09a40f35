// The configuration of weir.toml: devices, units, plans, groups and directives, checked as a whole.
//
// PURE: text in, values or an Error out. docs/config.md is the reference.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/resource_params.h"
#include "base/result.h"
#include "base/time.h"

namespace weir::catalog {

// Named maxima: a file beyond one is an error that names it.
inline constexpr size_t kMaxFileBytes = 4 * 1024 * 1024;
inline constexpr size_t kMaxDevices = 64;
inline constexpr size_t kMaxUnits = 10'000;
inline constexpr size_t kMaxPlans = 1'000;
inline constexpr size_t kMaxGroups = 10'000;
inline constexpr size_t kMaxGroupsAPlan = 1'000;
inline constexpr int kMaxPlanDepth = 6;              // plans within plans, the unit's own included
inline constexpr size_t kMaxNodesADevice = 100'000;  // units, subplans and groups of the tree
inline constexpr size_t kMaxMatches = 10'000;
inline constexpr size_t kMaxNameBytes = 128;
inline constexpr size_t kMaxPatternBytes = 1024;  // of a match
inline constexpr size_t kMaxWarnings = 100;       // of one Resolve; more are not said
inline constexpr Duration kMaxBurst = std::chrono::seconds(60);
inline constexpr int64_t kMaxFixedDepth = 65'536 * kOp;

// The group of what no directive of a unit's plan names. Built in; a directive may set it.
inline constexpr std::string_view kOtherGroups = "OTHER_GROUPS";

// The group of a volume's requests that no match names: weight 100, no limits. Built in; a unit of
// that name sets it.
inline constexpr std::string_view kUnmatched = "unmatched";

// The line of each key that was written in the file, for messages.
using KeyLines = std::map<std::string, int, std::less<>>;

// What any disk serves, as for profiles.
inline constexpr int64_t kMinCapacity = kOp;  // 1/65536 normalised op per second
inline constexpr int64_t kMaxCapacity = 20'000'000 * kOp;

struct Device {
  std::string name;
  std::string path;         // a directory, a file or a block device
  std::string profile;      // JSON written by `weir calibrate`; empty = none
  int64_t capacity = 0;     // 1/65536 normalised op per second; 0 = from the profile
  int64_t fixed_depth = 0;  // 1/65536 normalised op; 0 = automatic
  int line = 0;
};

// min/max/weight of a unit, absolute.
struct Unit {
  std::string name;
  std::string device;  // empty = the only one
  std::string plan;    // empty = none: the unit is one leaf
  // Limits and reservations as written; `burst` below sets params.burst.
  ResourceParams params;
  Duration burst{-1};  // of every limit that is set, of the unit and of its groups; -1 = default
  int line = 0;
  KeyLines key_lines;
};

struct Group {
  std::string name;
  std::string comment;
  int line = 0;
};

// A group's (or subplan's) part of the node above it: percentages of the MIN, MAX and WEIGHT of
// the unit, or of the subplan's directive. -1 = not set: MIN 0, MAX 100, WEIGHT 100. Percentages
// count in steps of 0.0001 (weights: 0.01). IOPS percentages apply to normalised and raw rates, and
// to limits of reads, of writes and of both, as far as the node above has them.
struct Directive {
  std::string group_or_subplan;
  bool is_subplan = false;
  std::string comment;
  double mgmt_p1 = -1;  // CPU share: kept for tools that need it, without effect on I/O
  double min_iops = -1;
  double max_iops = -1;
  double weight_iops = -1;
  double min_bandwidth = -1;
  double max_bandwidth = -1;
  int line = 0;
  KeyLines key_lines;
};

struct Plan {
  std::string name;
  std::string comment;
  std::vector<Directive> directives;
  int line = 0;
};

// Which requests of a volume belong to a group: all that is set must fit; the first match of the
// file wins. Patterns are those of catalog/glob.h.
struct Match {
  std::string group;   // "unit", "unit/group", or kUnmatched
  std::string cgroup;  // pattern; it and all below it, in any hierarchy
  std::string path;    // pattern, relative to the volume; it and all below it
  std::string comm;    // pattern of the thread's name
  std::string user;    // a login name
  int64_t uid = -1;    // -1: any
  int64_t pid = -1;    // a thread, or a process with all its threads; -1: any
  // Not in a file: when `pid` started (field 22 of /proc/PID/stat), so that a later process with
  // the same id is not meant; 0: any.
  uint64_t pid_start = 0;
  int line = 0;
};

struct Config {
  std::string file;  // as given, for messages
  bool strict = false;
  std::vector<Device> devices;
  std::vector<Unit> units;
  std::vector<Plan> plans;
  std::vector<Group> groups;
  std::vector<Match> matches;
  std::vector<std::string> warnings;
};

// Why the match cannot be, alone: no key, a pattern that can never fit. Empty when it can; begins
// with the key.
[[nodiscard]] std::string WhyNoMatch(const Match& match);
// "cgroup /docker/a, uid 27", for people.
[[nodiscard]] std::string DescribeMatch(const Match& match);

// Parses and checks everything that can be checked without the device: each value, names and
// references, MIN against MAX, sums of percentages, and sums of reservations against
// `capacity_iops` where it is written. config.warnings has what Resolve will not say again. Errors:
// kInvalidArgument with file, line, key, value and the fix; kResourceExhausted for a named maximum.
// Never throws, whatever the bytes. Requires nothing of `text`.
[[nodiscard]] Result<Config> ParseConfig(std::string_view text, const std::string& file);
// Errors: also kNotFound and kIo with the errno.
[[nodiscard]] Result<Config> ReadConfigFile(const std::string& path);

// A node of the tree that a device's scheduler is given, parents before children. The path is
// "unit", "unit/group", "unit/subplan/group"; a unit with a plan always has the leaf
// "unit/OTHER_GROUPS" for what no directive names (no reservation, MAX and WEIGHT 100 %, unless a
// directive sets it).
struct TreeNode {
  std::string path;
  int parent = -1;  // index into the vector; -1 = the device's root
  // Absolute. A MAX of 100 % is kUnlimited here: the limit of the node above binds. Weights of
  // units are as written, weights of groups are in hundredths of a percent (siblings only compare).
  ResourceParams params;
  bool leaf = true;
};

// Absolute parameters of every node of `device` ("" = the only one, or none declared). Checks what
// needs the whole: children that reserve more than 100 %, MIN above MAX after percentages, sum of
// MIN against `capacity` (1/65536 op per second; 0 = the device's capacity_iops, if any): above it
// a warning into `warnings` (may be null), an error when strict; above 90 % of it a warning.
// Errors: kInvalidArgument, kResourceExhausted as above; kNotFound: no such device.
[[nodiscard]] Result<std::vector<TreeNode>> Resolve(const Config& config, const std::string& device,
                                                    int64_t capacity,
                                                    std::vector<std::string>* warnings);

// One live change of a unit or directive: "max_iops" = "20000" of "unit" or "unit/group" (then in
// percent: "50"; "unit/subplan/group" for groups of subplans). A directive belongs to its plan:
// every unit with that plan changes. Validates the whole result; `config` is unchanged on error.
// Keys: what a unit or a directive may have, but for names, device, plan and comment.
// Errors: kNotFound (unit or group; the message lists the known ones), kInvalidArgument.
[[nodiscard]] Result<void> ApplyChange(Config* config, std::string_view target,
                                       std::string_view key, std::string_view value);

// Several keys at once, checked only as a whole (so that MIN and MAX may move together).
[[nodiscard]] Result<void> ApplyChanges(
    Config* config, std::string_view target,
    const std::vector<std::pair<std::string, std::string>>& keys_and_values);

}  // namespace weir::catalog

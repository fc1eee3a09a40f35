// A scenario: units and groups, the loads that run in them, changes made while they run, and what
// is expected. One file format for `weir sim` (virtual time) and `weir bench` (a real file).
//
// PURE: text in, values out. docs/scenarios.md is the reference.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/resource_params.h"
#include "base/result.h"
#include "base/time.h"
#include "catalog/config.h"

namespace weir::scenario {

inline constexpr size_t kMaxLoads = 10'000;
inline constexpr int kMaxOutstanding = 65'536;              // threads * depth of one load
inline constexpr int64_t kMaxTotalOutstanding = 1'000'000;  // of all loads
inline constexpr Duration kMinRunTime = std::chrono::milliseconds(1);
inline constexpr Duration kMaxRunTime = std::chrono::hours(24);
inline constexpr size_t kMaxChanges = 10'000;
inline constexpr size_t kMaxExpects = 10'000;
inline constexpr size_t kMaxSizes = 64;           // of one load
inline constexpr int64_t kMinRequestBytes = 512;  // sizes are multiples of it
inline constexpr int64_t kMaxRequestBytes = 64 * 1024 * 1024;
inline constexpr double kMaxArrivalRate = 1e7;  // of one load, requests per second
inline constexpr Duration kMinBurst = std::chrono::microseconds(100);  // on, and off
inline constexpr double kMaxSimCapacity = 2e7;  // of the simulated device, normalised IOPS
inline constexpr int64_t kMinFileSize = 1024 * 1024;

struct SizeShare {
  int64_t bytes = 16 * 1024;
  double share = 1;  // of the requests
};

struct Load {
  std::string name;
  std::string group;  // path of a leaf: "tenant1", "tenant2/B"
  int threads = 1;    // each with its own outstanding requests
  int depth = 1;      // outstanding requests a thread
  std::vector<SizeShare> sizes = {SizeShare{}};
  double read_share = 1;  // 0..1
  bool sequential = false;
  Duration think{0};  // between completion and the next request, a mean when `think_random`
  bool think_random = false;
  double rate = 0;  // requests per second in all (open loop, Poisson); 0 = closed loop
  Duration start{0};
  Duration stop{0};       // 0 = end of the run
  Duration burst_on{0};   // > 0: active for this long,
  Duration burst_off{0};  // then silent for this long, again and again
  Duration deadline{0};   // per request; 0 = none
  int line = 0;
};

// Made with catalog::ApplyChanges: all keys together.
struct Change {
  Duration at{0};
  std::string target;                                    // "unit" or "unit/group"
  std::vector<std::pair<std::string, std::string>> set;  // key -> value as in weir.toml
  int line = 0;
};

// One promise to be judged over [from, to): metric of a group, within bounds.
struct Expect {
  enum class Metric {
    kNormIops,  // mean over the window, op/s
    kRawIops,
    kBandwidth,    // bytes/s
    kRatio,        // norm IOPS of `group` over that of `other`
    kWaitP99,      // ns, enqueue -> dispatch
    kLatencyP99,   // ns, submit -> completion
    kUtilisation,  // total norm IOPS over capacity
  };
  Metric metric = Metric::kNormIops;
  std::string group;  // any unit, subplan or group; empty: the device
  std::string other;  // kRatio
  Duration from{0};
  Duration to{0};             // 0 = end of the run
  bool every_second = false;  // must hold in each whole second of the window, not only in the mean
  bool has_min = false, has_max = false;
  double min = 0, max = 0;  // in the metric's unit
  std::string text;         // the promise in words; made from the fields when empty
  int line = 0;
};

// The simulator's device.
struct SimDevice {
  int parallelism = 8;
  Duration reference_time{800'000};  // device time of one 16 KiB random read in one slot
  double noise = 0;                  // 0..1: service times vary by +- this share
  Duration stall_every{0}, stall_for{0};
  Duration slow_every{0}, slow_for{0};
  double slow_factor = 1;   // service times in a slow phase are this much longer
  double write_factor = 1;  // true cost of writes over what the scheduler is told
};

struct Scenario {
  std::string title;
  Duration duration{std::chrono::seconds(10)};
  uint64_t seed = 1;
  std::string file;        // bench: the scratch file; empty = made in the working directory
  int64_t file_size = 0;   // bench: bytes; 0 = default
  catalog::Config config;  // devices, units, plans, groups, directives in the same file
  std::vector<Load> loads;
  std::vector<Change> changes;  // in order of time; each valid after those before it
  std::vector<Expect> expects;
  SimDevice sim;
};

// Errors as catalog::ParseConfig. Also: a load in an unknown or inner group, times beyond the run,
// a change that is not valid when its time comes, more than one device, no load at all. Never
// throws.
[[nodiscard]] Result<Scenario> ParseScenario(std::string_view text, const std::string& file_name);

}  // namespace weir::scenario

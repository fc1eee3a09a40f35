// Measures a device: IOPS at saturation and latency at depth 1, for reads and writes, random and
// sequential, over sizes. The library form of `weir calibrate`.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "device/profile.h"

namespace weir::device {

struct CalibrateOptions {
  std::string path;            // a directory, a file (scratch beside it), a block device
  bool quick = false;          // about 10 s instead of 2 min, fewer sizes
  int64_t size = 0;            // of the scratch file, bytes; 0 = 1 GiB (quick: 256 MiB) or less
  bool destroy_data = false;   // needed for a block device, which is overwritten
  Duration budget{0};          // 0 = 10 s or 2 min; at least kMinBudget
  std::vector<int64_t> sizes;  // of requests; empty = the default ones. Must hold 16 KiB.
};

inline constexpr Duration kQuickBudget = std::chrono::milliseconds(9'500);
inline constexpr Duration kFullBudget = std::chrono::seconds(118);
inline constexpr Duration kMinBudget = std::chrono::milliseconds(500);

struct CalibrateProgress {
  double done = 0;   // 0 .. 1
  std::string step;  // "laying out the scratch file", "random read 16 KiB", ...
};

// Takes about `budget`; on a device that stalls half as long again and a second, and where the
// results are implausible up to three times that, since it measures again. `on_progress` (may be
// empty) is called on this thread, some times a second. `cancel` (may be null) ends it soon; it may
// be set from any thread or signal handler. The scratch file never has a name, so nothing is left
// behind however it ends. Errors: those of Target::Open and LoadRing; kInvalidArgument (options);
// kCancelled; kUnavailable (the results are implausible, see Fit); kDeadlineExceeded (too slow for
// the budget).
[[nodiscard]] Result<Profile> Calibrate(
    const CalibrateOptions& options,
    const std::function<void(const CalibrateProgress&)>& on_progress,
    const std::atomic<bool>* cancel);

}  // namespace weir::device

// A device profile: what `weir calibrate` measured, and what is derived from it.
// docs/calibration.md describes the file. Threads: values; functions without state.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/resource_params.h"
#include "base/result.h"
#include "core/cost_model.h"

namespace weir::device {

// Bounds of the plausible. Below kMinIops only large requests may be: the floor is that many IOPS
// of 16 KiB in bytes per second.
inline constexpr double kMinIops = 10;
inline constexpr double kMaxIops = 2e7;
inline constexpr double kMaxBytesPerSecond = 1e11;
// A larger request may be this much faster than a smaller one of the same kind (some devices
// rewrite whole pages for small writes); beyond it the measurement is refused.
inline constexpr double kMaxInversion = 3;
// Two numbers for the same thing in one profile may differ by this factor.
inline constexpr double kMaxDisagreement = 2;
inline constexpr size_t kMaxMeasurements = 256;
inline constexpr size_t kMaxProfileBytes = 1024 * 1024;
inline constexpr int kProfileVersion = 1;

struct Measurement {
  Direction direction = Direction::kRead;
  core::Access access = core::Access::kRandom;
  int64_t bytes = 0;
  double iops = 0;               // at saturation
  double depth1_latency_ns = 0;  // at one outstanding request; 0 = unknown
  int depth = 0;                 // outstanding requests at saturation; 0 = unknown
  double spread = 0;             // of `iops` between slices, (p75 - p25) / median
};

struct Profile {
  int version = kProfileVersion;
  std::string path;         // what was measured
  std::string device;       // name and model of the block device, as far as known
  std::string measured_at;  // RFC 3339, UTC
  bool quick = false;
  std::vector<Measurement> measurements;
  core::CostCurve curve;     // monotone
  double capacity_iops = 0;  // saturated 16 KiB random reads per second
  std::vector<std::string> warnings;

  // Derived.
  [[nodiscard]] Result<core::CostModel> Model() const;
  [[nodiscard]] int64_t CapacityPerSecond() const;  // 1/65536 op per second
};

// Fits and checks. Errors: kInvalidArgument: implausible (IOPS or bytes per second out of the
// bounds above, no 16 KiB random read or no random write, a point twice, larger requests faster by
// more than noise explains). Needs random reads at 16 KiB and random writes; sequential ones may be
// missing. Sizes that are missing are interpolated by the curve.
[[nodiscard]] Result<Profile> Fit(std::vector<Measurement> measurements);

// What differs so much from the profile before that somebody should look; empty if nothing does.
[[nodiscard]] std::vector<std::string> CompareWithOld(const Profile& old, const Profile& fresh);

// Errors: kInvalidArgument (not a profile, implausible); kNotFound, kIo. A file that has
// measurements but no curve is fitted. Unknown keys are ignored.
[[nodiscard]] Result<Profile> ReadProfile(const std::string& file);
// `name` is what messages call the text. Never throws, whatever the bytes.
[[nodiscard]] Result<Profile> ParseProfile(const std::string& json, const std::string& name);
[[nodiscard]] std::string ProfileJson(const Profile& profile);
// Atomic (temporary file, fsync, rename): a failed write leaves the old profile as it was. Through
// a symbolic link the file it names is replaced. Errors: kIo.
[[nodiscard]] Result<void> WriteProfile(const Profile& profile, const std::string& file);

// "254:0 ctrl=user model=linear rbps=... rseqiops=... rrandiops=... wbps=... wseqiops=...
// wrandiops=...": a line for the kernel's io.cost.model (Documentation/admin-guide/cgroup-v2.rst):
// highest sequential bytes per second, 4 KiB IOPS sequential and random. `major_minor` must be the
// whole disk's. Requires: a curve of random reads.
[[nodiscard]] std::string IoCostModelLine(const Profile& profile, const std::string& major_minor);

}  // namespace weir::device

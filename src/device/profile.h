// A device profile: what `weir calibrate` measured, and what is derived from it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/resource_params.h"
#include "base/result.h"
#include "core/cost_model.h"

namespace weir::device {

struct Measurement {
  Direction direction = Direction::kRead;
  core::Access access = core::Access::kRandom;
  int64_t bytes = 0;
  double iops = 0;            // at saturation
  double depth1_latency_ns = 0;  // median at one outstanding request
};

struct Profile {
  int version = 1;
  std::string path;        // what was measured
  std::string device;      // name and model of the block device, as far as known
  std::string measured_at; // RFC 3339, UTC
  bool quick = false;
  std::vector<Measurement> measurements;
  core::CostCurve curve;   // monotone
  double capacity_iops = 0;  // saturated 16 KiB random reads per second

  // Derived.
  [[nodiscard]] Result<core::CostModel> Model() const;
  [[nodiscard]] int64_t CapacityPerSecond() const;  // 1/65536 op per second
};

// Fits and checks. Errors: kInvalidArgument: implausible (fewer than 10 or more than 2*10^7 IOPS,
// a size missing, larger requests faster by more than noise explains, ...).
[[nodiscard]] Result<Profile> Fit(std::vector<Measurement> measurements);

// Errors: kInvalidArgument (not a profile, implausible); kIo. Writing is atomic (temporary file,
// fsync, rename): a failed write leaves the old profile as it was.
[[nodiscard]] Result<Profile> ReadProfile(const std::string& file);
[[nodiscard]] Result<Profile> ParseProfile(const std::string& json, const std::string& name);
[[nodiscard]] std::string ProfileJson(const Profile& profile);
[[nodiscard]] Result<void> WriteProfile(const Profile& profile, const std::string& file);

// "254:0 ctrl=user model=linear rbps=... rseqiops=... rrandiops=... wbps=... wseqiops=... wrandiops=..."
[[nodiscard]] std::string IoCostModelLine(const Profile& profile, const std::string& major_minor);

}  // namespace weir::device

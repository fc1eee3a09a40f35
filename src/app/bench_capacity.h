// What the device can do and what requests cost on it, for a run: from a profile, from the
// configuration, or measured on the spot.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "app/bench_signal.h"
#include "base/result.h"
#include "catalog/config.h"
#include "core/cost_model.h"
#include "datapath/uring/engine.h"
#include "device/calibrate.h"

namespace weir::app {

struct Capacity {
  double iops = 0;  // normalised
  core::CostModel model;
  int64_t saturation_depth = 0;  // cost in flight that 16 KiB reads need, 1/65536 op; 0 = unknown
  std::string source;  // "profile nvme.json", "capacity_iops", "quick calibration just now"
};

// What the configuration tells, without measuring: nothing if that is nothing. As FindCapacity; to
// find a profile that cannot be used before a long preparation.
[[nodiscard]] Result<std::optional<Capacity>> ConfiguredCapacity(const catalog::Device* device);

// `device` may be null (none is configured). Order: its profile (capacity_iops above it), its
// capacity_iops with costs by size, else a quick calibration (10 s) in `directory`. Errors: those
// of ReadProfile and Calibrate; kCancelled after a signal.
[[nodiscard]] Result<Capacity> FindCapacity(
    const catalog::Device* device, const std::string& directory, StopSignal* stop,
    const std::function<void(const device::CalibrateProgress&)>& on_progress);

// Capacity, bound on the depth and costs as the engine takes them. The search for the depth starts
// where the device was measured.
void PutCapacity(const Capacity& capacity, EngineOptions* engine);

}  // namespace weir::app

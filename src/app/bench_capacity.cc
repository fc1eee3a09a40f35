#include "app/bench_capacity.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "app/bench_priority.h"
#include "device/profile.h"

namespace weir::app {

namespace {

Result<Capacity> FromProfile(const device::Profile& profile, std::string source) {
  auto model = profile.Model();
  if (!model) return tl::unexpected(std::move(model.error()));
  Capacity capacity{profile.capacity_iops, std::move(*model), 0, std::move(source)};
  for (const device::Measurement& measured : profile.measurements) {
    if (measured.direction == Direction::kRead && measured.access == core::Access::kRandom &&
        measured.bytes == core::kReferenceBytes) {
      capacity.saturation_depth = measured.depth * kOp;
    }
  }
  return capacity;
}

}  // namespace

Result<std::optional<Capacity>> ConfiguredCapacity(const catalog::Device* device) {
  if (device == nullptr) return std::optional<Capacity>();
  const double configured = static_cast<double>(device->capacity) / static_cast<double>(kOp);
  if (device->profile.empty()) {
    if (configured <= 0) return std::optional<Capacity>();
    return Capacity{configured, core::CostModel(), 0, "capacity_iops"};
  }
  auto profile = device::ReadProfile(device->profile);
  if (!profile) return tl::unexpected(std::move(profile.error()));
  auto capacity = FromProfile(*profile, "profile " + device->profile);
  if (!capacity) return tl::unexpected(std::move(capacity.error()));
  if (configured > 0) {
    capacity->iops = configured;
    capacity->source = "capacity_iops, costs from profile " + device->profile;
  }
  return std::move(*capacity);
}

Result<Capacity> FindCapacity(
    const catalog::Device* device, const std::string& directory, StopSignal* stop,
    const std::function<void(const device::CalibrateProgress&)>& on_progress) {
  auto configured = ConfiguredCapacity(device);
  if (!configured) return tl::unexpected(std::move(configured.error()));
  if (*configured) return std::move(**configured);

  device::CalibrateOptions options;
  options.path = directory;
  options.quick = true;
  std::atomic<bool> cancel{false};
  const RaisedPriority raised;
  auto profile = device::Calibrate(
      options,
      [&](const device::CalibrateProgress& progress) {
        if (stop != nullptr && stop->Poll()) cancel = true;
        if (on_progress) on_progress(progress);
      },
      &cancel);
  if (!profile) return tl::unexpected(std::move(profile.error()));
  return FromProfile(*profile, "quick calibration just now");
}

void PutCapacity(const Capacity& capacity, EngineOptions* engine) {
  engine->scheduler.capacity_per_s =
      std::clamp<int64_t>(std::llround(capacity.iops * static_cast<double>(kOp)), 1, kMaxRate);
  if (capacity.saturation_depth > 0) {
    // The search down from where the device was measured costs less than one from below, and a
    // search that noise misleads must not end where nothing queues any more.
    core::DepthOptions& depth = engine->scheduler.depth;
    depth.initial = std::max(depth.initial, capacity.saturation_depth);
    depth.max = std::max(depth.initial, 2 * capacity.saturation_depth);
  }
  engine->cost_model = capacity.model;
}

}  // namespace weir::app

#include "core/depth_controller.h"

#include <algorithm>

namespace weir::core {

namespace {

// An epoch ends after this many completions and this long.
constexpr uint64_t kEpochCompletions = 48;
constexpr Duration kEpochTime = std::chrono::milliseconds(4);
// Completions that come in batches (a stall, a reaper that sleeps) need epochs of many batches, or
// the edges decide; but not for ever.
constexpr int kEpochGaps = 10;
constexpr Duration kLongestEpochTime = std::chrono::milliseconds(60);
// A device that completes nothing for longer stands still: more depth does not help, and the time
// counts for neither side.
constexpr Duration kStall = std::chrono::milliseconds(20);
constexpr int kStallIntervals = 10;  // and longer than this many mean intervals
// One probe: D and 3/4 D in an order in which a drift of the device's speed cancels out.
constexpr int kProbe[] = {0, 1, 1, 0, 0, 1, 1, 0};
constexpr int kProbeLength = 8;
// Epochs at D between probes, once D was kept twice: probing costs throughput.
constexpr int kRestEpochs = 24;
// rate(3/4 D) / rate(D): above kNoGain the depth bought nothing; below kGain it bought throughput,
// below kMuchGain much,
// and below kAllGain all that it could (3/4 is the least possible).
constexpr double kNoGain = 0.99;
constexpr double kGain = 0.972;
constexpr double kMuchGain = 0.9;
constexpr double kAllGain = 0.8;

}  // namespace

DepthController::DepthController(const DepthOptions& options)
    : options_(options),
      automatic_(options.automatic),
      floor_(options.min),
      full_(std::clamp(options.initial, options.min, options.max)),
      current_(full_) {}

void DepthController::Apply(int64_t depth) { current_ = std::max(depth, floor_ * 3 / 4); }

void DepthController::SetLargest(int64_t cost) {
  if (!automatic_) return;
  floor_ = std::clamp(cost + cost / 3, options_.min, options_.max);
  full_ = std::max(full_, floor_);
  current_ = std::max(current_, floor_ * 3 / 4);
}

void DepthController::Fix(int64_t depth) {
  automatic_ = false;
  full_ = depth;
  current_ = depth;
}

void DepthController::StartEpoch(TimePoint now) {
  recent_gap_ = std::max(gap_, recent_gap_ * 3 / 4);
  gap_ = Duration(0);
  epoch_start_ = now;
  epoch_cost_ = 0;
  completions_ = 0;
  was_full_ = false;
}

bool DepthController::OnComplete(int64_t cost, int64_t in_flight, uint64_t requests_in_flight,
                                 TimePoint now) {
  if (!automatic_) return false;
  if (in_flight >= current_) was_full_ = true;
  epoch_cost_ += cost;
  ++completions_;
  const Duration gap = now - last_completion_;
  last_completion_ = now;
  if (gap > kStall && gap > kStallIntervals * (now - epoch_start_) / completions_) {
    epoch_start_ += std::min(gap, now - epoch_start_);
  } else {
    gap_ = std::max(gap_, gap);
  }
  if (skip_ != 0) {
    if (completions_ >= skip_) {
      skip_ = 0;
      StartEpoch(now);
    }
    return false;
  }
  const Duration length = now - epoch_start_;
  const Duration wanted =
      std::clamp(kEpochGaps * std::max(gap_, recent_gap_), kEpochTime, kLongestEpochTime);
  if (completions_ < kEpochCompletions || length < wanted) return false;
  if (!was_full_) {  // not saturated: no information
    StartEpoch(now);
    return false;
  }
  if (rest_ > 0) {
    --rest_;
    StartEpoch(now);
    return false;
  }
  Side& side = sides_[kProbe[position_]];
  side.cost += epoch_cost_;
  side.time_ns += length.count();
  if (++position_ == kProbeLength) {
    position_ = 0;
    Decide();
  }
  NextEpoch(requests_in_flight, now);
  return true;
}

void DepthController::NextEpoch(uint64_t requests_in_flight, TimePoint now) {
  const int64_t before = current_;
  Apply(kProbe[position_] == 1 ? full_ * 3 / 4 : full_);
  skip_ = current_ == before ? 0 : requests_in_flight + 4;
  StartEpoch(now);
}

// Compares the two rates and moves D. Floating point is fine here: this sets a bound, it decides
// nothing about who is served.
void DepthController::Decide() {
  const auto rate = [](const Side& side) {
    return static_cast<double>(side.cost) / static_cast<double>(std::max<int64_t>(1, side.time_ns));
  };
  const double at_full = rate(sides_[0]);
  const double ratio = at_full > 0 ? rate(sides_[1]) / at_full : 1;
  const int64_t before = full_;
  if (ratio > kNoGain) {
    full_ -= full_ / 8;
  } else if (ratio < kAllGain) {
    full_ += std::max(kOp, full_ / 2);
  } else if (ratio < kMuchGain) {
    full_ += std::max(kOp, full_ / 4);
  } else if (ratio < kGain) {
    full_ += std::max(kOp, full_ / 8);
  }
  full_ = std::clamp(full_, floor_, options_.max);
  stable_ = full_ == before ? stable_ + 1 : 0;
  rest_ = stable_ >= 2 ? kRestEpochs : 0;
  sides_[0] = sides_[1] = Side{};
}

}  // namespace weir::core

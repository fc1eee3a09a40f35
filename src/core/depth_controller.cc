#include "core/depth_controller.h"

#include <algorithm>

namespace weir::core {

namespace {

// An epoch ends after this many completions and this long.
constexpr uint64_t kEpochCompletions = 48;
constexpr Duration kEpochTime = std::chrono::milliseconds(4);
// Pairs of epochs before a decision, while searching and once the depth has been kept twice.
constexpr int kPairsSearching = 4;
constexpr int kPairsStable = 8;
// rate(3/4 D) / rate(D): above kNoGain the depth bought nothing, below kGain it bought throughput.
constexpr double kNoGain = 0.99;
constexpr double kGain = 0.965;

}  // namespace

DepthController::DepthController(const DepthOptions& options)
    : options_(options),
      automatic_(options.automatic),
      full_(std::clamp(options.initial, options.min, options.max)),
      current_(full_) {}

void DepthController::Apply(int64_t depth) { current_ = std::max(depth, options_.min); }

void DepthController::Fix(int64_t depth) {
  automatic_ = false;
  full_ = depth;
  current_ = depth;
}

void DepthController::StartEpoch(TimePoint now) {
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
  if (skip_ != 0) {
    if (completions_ >= skip_) {
      skip_ = 0;
      StartEpoch(now);
    }
    return false;
  }
  const Duration length = now - epoch_start_;
  if (completions_ < kEpochCompletions || length < kEpochTime) return false;
  if (!was_full_) {  // not saturated: no information
    StartEpoch(now);
    return false;
  }
  Side& side = sides_[probing_ ? 1 : 0];
  side.cost += epoch_cost_;
  side.time_ns += length.count();
  if (probing_ && ++pairs_ >= (stable_ >= 2 ? kPairsStable : kPairsSearching)) EndPairs();
  probing_ = !probing_;
  Apply(probing_ ? full_ * 3 / 4 : full_);
  skip_ = requests_in_flight + 4;
  StartEpoch(now);
  return true;
}

// Compares the two rates and moves D. Floating point is fine here: this sets a bound, it decides
// nothing about who is served.
void DepthController::EndPairs() {
  const double at_full = static_cast<double>(sides_[0].cost) /
                         static_cast<double>(std::max<int64_t>(1, sides_[0].time_ns));
  const double at_less = static_cast<double>(sides_[1].cost) /
                         static_cast<double>(std::max<int64_t>(1, sides_[1].time_ns));
  const double ratio = at_full > 0 ? at_less / at_full : 1;
  const int64_t before = full_;
  if (ratio > kNoGain) {
    full_ -= full_ / 8;
  } else if (ratio < kGain) {
    full_ += std::max(kOp, full_ / 8);
  }
  full_ = std::clamp(full_, options_.min, options_.max);
  stable_ = full_ == before ? stable_ + 1 : 0;
  sides_[0] = sides_[1] = Side{};
  pairs_ = 0;
}

}  // namespace weir::core

#include "core/depth_meter.h"

namespace weir::core {

namespace {

// An epoch ends after a long gap if there is one before so many of the longest gaps have passed:
// whole periods of a reaper that comes late.
constexpr int kGapsToAlign = 24;
// A device that completes nothing for longer, and longer than so many mean intervals, stands still
// or has nothing to do: more depth does not help, and the time counts for neither side. A shorter
// gap at whose end everything in flight comes back may be a reaper's that was late.
constexpr Duration kStall = std::chrono::milliseconds(20);
constexpr int kStallIntervals = 10;

}  // namespace

void DepthMeter::Begin() {
  begin_ = instant_;
  cost_ = 0;
  requests_ = 0;
  instants_ = 0;
  full_ = 0;
  dry_ = Duration{0};
}

// A gap that ended with everything in flight (`together`), or that is long.
void DepthMeter::TakeGap(bool together) {
  if (together && gap_before_ <= kStall) {
    dry_ += gap_before_;
    longest_gap_ = std::max(longest_gap_, gap_before_);
    return;
  }
  const Duration length = instant_ - begin_;
  if (gap_before_ > kStall &&
      gap_before_ >
          kStallIntervals * length / static_cast<int64_t>(std::max<uint64_t>(1, requests_))) {
    begin_ += std::min(gap_before_, length);
    gap_before_ = Duration{0};
    return;
  }
  longest_gap_ = std::max(longest_gap_, std::min(gap_before_, kMaxGap));
}

bool DepthMeter::IsAligned() const {
  return gap_before_ * 2 >= longest_gap_ || instant_ - begin_ >= longest_gap_ * kGapsToAlign;
}

void DepthMeter::Finish(DepthEpoch* epoch) {
  const auto length = static_cast<double>((instant_ - begin_).count());
  epoch->rate = static_cast<double>(cost_) / length;
  epoch->saturated = full_ * 2 >= instants_;
  epoch->dry = static_cast<double>(dry_.count()) / length;
  longest_gap_ -= longest_gap_ / 8;
  Begin();
}

}  // namespace weir::core

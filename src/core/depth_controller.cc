#include "core/depth_controller.h"

#include <algorithm>
#include <cmath>

namespace weir::core {

namespace {

// ln of rate(3/4 D) / rate(D): above kNoGain the depth bought nothing, below kGain throughput.
constexpr double kNoGain = -0.010;
constexpr double kGain = -0.035;
// Beyond this a ratio (ln) is an accident.
constexpr double kMostRatio = 1.5;
// Ratios before a decision; it is made when the mean is clear of the bounds by so many standard
// errors, at the latest after the last. A depth that is too small costs more than one that is too
// large, so growing needs less.
constexpr int kLeastRatios = 3;
constexpr int kMostRatios = 20;
constexpr double kSureToGrow = 1.0;
constexpr double kSureToShrink = 1.5;
// Three ratios may agree by chance: their variance counts together with kUsual ratios of the usual
// one.
constexpr double kFirstVariance = 0.05 * 0.05;
constexpr double kUsual = 4;
// Full epochs between two probes once D has been kept twice.
constexpr int kRests = 6;
// A device that is dry for more than this share may be served by a reaper that comes late. Then
// rates at 3/4 D and D hardly differ although both are far too small: try kReach times D.
constexpr double kDry = 0.1;
constexpr int64_t kReach = 4;
constexpr int kMaxReachWait = 64;

}  // namespace

DepthController::DepthController(const DepthOptions& options)
    : options_(options),
      automatic_(options.automatic),
      largest_(options.min),
      floor_(options.min),
      full_(std::clamp(options.initial, options.min, options.max)),
      current_(full_),
      usual_variance_(kFirstVariance) {}

void DepthController::Apply(int64_t depth) { current_ = std::max(depth, largest_); }

void DepthController::SetLargest(int64_t cost) {
  if (!automatic_) return;
  largest_ = std::clamp(cost, options_.min, options_.max);
  floor_ = std::clamp(cost + cost / 3, options_.min, options_.max);
  full_ = std::max(full_, floor_);
  Apply(current_);
}

void DepthController::Fix(int64_t depth) {
  automatic_ = false;
  full_ = depth;
  current_ = depth;
}

bool DepthController::OnComplete(int64_t cost, int64_t in_flight, uint64_t requests_in_flight,
                                 TimePoint now) {
  if (!automatic_) return false;
  DepthEpoch epoch;
  if (!meter_.OnComplete(cost, in_flight, requests_in_flight, current_, now, &epoch)) return false;
  const int64_t before = current_;
  OnEpoch(epoch);
  if (current_ == before) return false;
  meter_.Restart(requests_in_flight + 4);
  return true;
}

void DepthController::OnEpoch(const DepthEpoch& epoch) {
  if (!epoch.saturated) {  // no information, and the epochs around it are of another load
    step_ = Step::kBefore;
    Apply(full_);
    return;
  }
  switch (step_) {
    case Step::kBefore:
      rate_before_ = epoch.rate;
      dry_ = epoch.dry;
      if (rests_ > 0) {
        --rests_;
      } else {
        StartProbe();
      }
      return;
    case Step::kProbe:
      rate_probe_ = epoch.rate;
      step_ = Step::kAfter;
      Apply(full_);
      return;
    case Step::kAfter: {
      const double ratio = std::clamp(std::log(rate_probe_ / ((rate_before_ + epoch.rate) / 2)),
                                      -kMostRatio, kMostRatio);
      ++ratios_;
      const double off = ratio - mean_;
      mean_ += off / ratios_;
      squares_ += off * (ratio - mean_);
      rate_before_ = epoch.rate;
      dry_ = epoch.dry;
      step_ = Step::kBefore;
      rests_ = stable_ >= 2 && reach_from_ == 0 ? kRests : 0;
      const int64_t full = full_;
      Compare();
      if (full_ == full && rests_ == 0) {
        StartProbe();  // this epoch is also the one before the next probe
      } else {
        Apply(full_);
      }
      return;
    }
  }
}

// Less by one large request at least: between two multiples of it all depths are alike.
void DepthController::StartProbe() {
  step_ = Step::kProbe;
  Apply(reach_from_ != 0 ? reach_from_ : std::min(full_ * 3 / 4, full_ - largest_));
}

void DepthController::Compare() {
  if (ratios_ < kLeastRatios) return;
  const double variance =
      (squares_ + kUsual * usual_variance_) / (static_cast<double>(ratios_ - 1) + kUsual);
  const double error = std::sqrt(variance / ratios_);
  const bool grows = mean_ + kSureToGrow * error < kGain;
  const bool shrinks = mean_ - kSureToShrink * error > kNoGain;
  const bool stays = mean_ - error > kGain && mean_ + error < kNoGain;
  if (!grows && !shrinks && !stays && ratios_ < kMostRatios) return;
  if (reach_from_ != 0) {
    EndReach(mean_);
  } else {
    Move(mean_);
  }
  usual_variance_ = variance;
  ratios_ = 0;
  mean_ = squares_ = 0;
  if (reach_wait_ > 0) {
    --reach_wait_;
  } else if (dry_ > kDry && full_ < options_.max) {
    reach_from_ = full_;
    full_ = std::min(full_ * kReach, options_.max);
  }
}

void DepthController::Move(double log_ratio) {
  const int64_t before = full_;
  if (log_ratio > kNoGain) {
    full_ -= full_ / 8;
  } else if (log_ratio < kGain) {
    const double growth = std::clamp(-2 * log_ratio, 0.125, 0.5);
    full_ += std::max(kOp, static_cast<int64_t>(static_cast<double>(full_) * growth));
  }
  full_ = std::clamp(full_, floor_, options_.max);
  stable_ = full_ == before ? stable_ + 1 : 0;
  if (stable_ == 0) rests_ = 0;
}

void DepthController::EndReach(double log_ratio) {
  if (log_ratio < kGain) {
    reach_failed_ = 0;
  } else {
    full_ = std::max(reach_from_, floor_);
    reach_wait_ = std::min(1 << std::min(reach_failed_++, 10), kMaxReachWait);
  }
  reach_from_ = 0;
  stable_ = 0;
}

}  // namespace weir::core

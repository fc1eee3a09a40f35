#include "core/cost_correction.h"

#include <algorithm>
#include <cmath>

namespace weir::core {

namespace {

// What is known before anything ran: standard deviations of ln f. Costs of writes depend on the
// state of the device (caches, garbage collection), those of reads hardly.
constexpr double kPriorSd[2] = {0.35, 0.7};
// Correlation of neighbouring octaves of one direction.
constexpr double kNeighbour = 0.9;
// The rate at the first window is known to a factor of e.
constexpr double kFirstRateVariance = 1.0;
// Variance gained by ln R in each window (1 % standard deviation).
constexpr double kRateDrift = 0.01 * 0.01;
// Part of the prior uncertainty that comes back in each window: factors may change within hours.
constexpr double kForget = 1e-5;
// Noise of ln(rate) of one window, besides that of its number of requests.
constexpr double kWindowNoise = 0.15 * 0.15;
// A surprise beyond this many standard deviations is a stall, or the device changed its rate at
// once: R takes it, whatever the mix.
constexpr double kSurprise = 2.5;

double PriorCovariance(int direction, int a, int b) {
  const double variance = kPriorSd[direction] * kPriorSd[direction];
  double covariance = variance * std::pow(kNeighbour, std::abs(a - b));
  if (direction == 0) {  // given that the anchor is exact
    const int anchor = CostCorrection::kAnchorOctave;
    covariance -= variance * std::pow(kNeighbour, std::abs(a - anchor) + std::abs(b - anchor));
  }
  return covariance;
}

}  // namespace

void CostCorrection::Start(double log_rate) {
  covariance_.assign(kStates * kStates, 0);
  prior_.assign(kStates * kStates, 0);
  for (int direction = 0; direction < 2; ++direction) {
    for (int a = 0; a < kCostOctaves; ++a) {
      for (int b = 0; b < kCostOctaves; ++b) {
        prior_[StateOf(direction, a) * kStates + StateOf(direction, b)] =
            PriorCovariance(direction, a, b);
      }
    }
  }
  covariance_ = prior_;
  covariance_[0] = kFirstRateVariance;
  state_[0] = log_rate;
}

// Time passes: R wanders, the factors return to the prior.
void CostCorrection::Forget() {
  for (int i = 1; i < kStates; ++i) {
    state_[i] *= 1 - kForget / 2;
    covariance_[i] *= 1 - kForget / 2;
    covariance_[i * kStates] *= 1 - kForget / 2;
    for (int j = 1; j < kStates; ++j) {
      double& value = covariance_[i * kStates + j];
      value += kForget * (prior_[i * kStates + j] - value);
    }
  }
  covariance_[0] += kRateDrift;
}

void CostCorrection::Observe(const Sample& sample) {
  if (!(sample.requests >= 1) || !(sample.elapsed_s > 0)) return;
  // gradient: of ln(sum of base * f) - ln R.
  std::array<double, kStates> gradient{};
  double total = 0;
  for (int direction = 0; direction < 2; ++direction) {
    for (int octave = 0; octave < kCostOctaves; ++octave) {
      const int state = StateOf(direction, octave);
      gradient[state] =
          std::max(0.0, sample.base_cost[direction][octave]) * std::exp(state_[state]);
      total += gradient[state];
    }
  }
  if (!(total > 0) || !std::isfinite(total)) return;
  for (double& share : gradient) share /= total;
  gradient[0] = -1;
  const double log_rate = std::log(total / sample.elapsed_s);
  if (covariance_.empty()) {
    Start(log_rate);
  } else {
    Forget();
  }

  std::array<double, kStates> gain{};  // covariance * gradient
  double variance = kWindowNoise + 1 / sample.requests;
  for (int i = 0; i < kStates; ++i) {
    for (int j = 0; j < kStates; ++j) gain[i] += covariance_[i * kStates + j] * gradient[j];
    variance += gradient[i] * gain[i];
  }
  const double surprise = state_[0] - log_rate;
  if (surprise * surprise > kSurprise * kSurprise * variance) {
    covariance_[0] += surprise * surprise;
    gain[0] -= surprise * surprise;
    variance += surprise * surprise;
  }
  for (int i = 0; i < kStates; ++i) {
    for (int j = 0; j < kStates; ++j) {
      covariance_[i * kStates + j] -= gain[i] * gain[j] / variance;
    }
    state_[i] += gain[i] / variance * surprise;
    if (i != 0) state_[i] = std::clamp(state_[i], -kMaxLog, kMaxLog);
  }
}

double CostCorrection::LogFactor(int direction, int octave) const {
  return state_[StateOf(direction, octave)];
}

double CostCorrection::RatePerSecond() const {
  return covariance_.empty() ? 0 : std::exp(state_[0]);
}

}  // namespace weir::core

// Learns, from what a saturated device completes, by how much the calibrated cost of each kind of
// request is off. PURE; one owner.
//
// A Kalman filter over the logarithms of the device's rate R and of one factor f for each direction
// and size octave. Each window gives one equation: sum of (base cost per second * f) = R. R may
// wander fast, the factors only slowly, so that what one window cannot tell apart (everything is
// slower, or this kind is dearer) goes to R, and only a rate that changes together with the mix
// moves a factor. docs/scheduler-cost.md has the mathematics.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace weir::core {

inline constexpr int kCostOctaves = 22;  // 512 B .. 1 GiB
inline constexpr int kCostClasses = 24;  // room in arrays by octave

class CostCorrection {
 public:
  // The octave of 16 KiB; its factor for reads is 1 for ever.
  static constexpr int kAnchorOctave = 5;

  struct Sample {
    std::array<std::array<double, kCostOctaves>, 2> base_cost{};  // as calibrated, 1/65536 op
    double requests = 0;
    double elapsed_s = 0;
  };
  // Ignores a sample without requests, cost or time. Cost: O(45^2). Allocates on the first call.
  void Observe(const Sample& sample);

  // Within [-kMaxLog, kMaxLog].
  [[nodiscard]] double LogFactor(int direction, int octave) const;
  [[nodiscard]] double RatePerSecond() const;  // 1/65536 op; 0 = nothing observed yet

  static constexpr double kMaxLog = 1.3862943611198906;  // ln 4

 private:
  static constexpr int kStates = 1 + 2 * kCostOctaves;  // ln R, then ln f
  [[nodiscard]] static int StateOf(int direction, int octave) {
    return 1 + direction * kCostOctaves + octave;
  }
  void Start(double log_rate);
  void Forget();

  std::array<double, kStates> state_{};
  std::vector<double> covariance_;  // kStates^2; empty = nothing observed yet
  std::vector<double> prior_;       // of the factors, as covariance_
};

}  // namespace weir::core

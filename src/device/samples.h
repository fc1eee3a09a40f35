// Robust statistics of repeated measurements. PURE.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace weir::device {

// The value below which a share `q` of the samples lies, interpolated; 0 if there are none.
// Requires: 0 <= q <= 1.
[[nodiscard]] inline double Quantile(std::vector<double> samples, double q) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const double rank = q * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (rank - static_cast<double>(below)) * (samples[above] - samples[below]);
}

// (p75 - p25) / median; 0 for fewer than two samples.
[[nodiscard]] inline double Spread(const std::vector<double>& samples) {
  const double median = Quantile(samples, 0.5);
  if (samples.size() < 2 || median <= 0) return 0;
  return (Quantile(samples, 0.75) - Quantile(samples, 0.25)) / median;
}

}  // namespace weir::device

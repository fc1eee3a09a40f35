// What a request costs: device time from a calibrated, monotone curve, over that of one 16 KiB
// random read; corrected slowly while it runs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/resource_params.h"
#include "base/result.h"
#include "base/time.h"

namespace weir::core {

enum class Access : uint8_t { kRandom = 0, kSequential = 1 };

// Device time of one request of `bytes` when the device is kept busy (1 / saturated IOPS).
struct CurvePoint {
  int64_t bytes = 0;
  int64_t device_ns = 0;
};

// Points of strictly growing size; between them linear, beyond them in proportion to bytes
// (below the first: its time).
struct CostCurve {
  // Indexed by Direction and Access. An empty sequential curve means: as random.
  std::array<std::array<std::vector<CurvePoint>, 2>, 2> points;
};

inline constexpr int64_t kReferenceBytes = 16 * 1024;
inline constexpr int64_t kMaxRequestBytes = int64_t{1} << 30;

class CostModel {
 public:
  // Every request costs bytes / 16 KiB, at least half an op; reads as writes.
  CostModel();

  // Errors: kInvalidArgument: no 16 KiB random read can be derived, times that are not positive
  // or that fall with the size (Monotone() mends noise first).
  [[nodiscard]] static Result<CostModel> FromCurve(const CostCurve& curve);

  // The nearest curve that never falls with the size (pool adjacent violators).
  [[nodiscard]] static CostCurve Monotone(CostCurve curve);

  // Cost in 1/65536 normalised op; > 0, never smaller for a larger request of the same kind.
  // O(1), no allocation.
  [[nodiscard]] int64_t Cost(Direction direction, Access access, int64_t bytes) const;

  // Slow online correction. Report each window (>= 100 ms) in which the device was kept full: the
  // requests completed by kind and size class. Factors stay within [1/4, 4], move by at most 2 % a
  // window, and keep the curve monotone; the 16 KiB random read stays 1.
  struct Window {
    // [direction][octave of bytes / 512]: how many, and the sum of the charged costs
    std::array<std::array<int64_t, 24>, 2> requests{};
    std::array<std::array<int64_t, 24>, 2> cost{};
    int64_t elapsed_ns = 0;
    void Add(Direction direction, int64_t bytes, int64_t cost);
  };
  void Observe(const Window& window);
  [[nodiscard]] double Factor(Direction direction, int64_t bytes) const;

 private:
  static constexpr int kClasses = 24;
  std::array<std::array<std::vector<CurvePoint>, 2>, 2> cost_;  // device_ns holds the cost here
  std::array<std::array<int64_t, kClasses>, 2> factor_q16_;     // 65536 = 1
  double rate_per_ns_ = 0;                                      // learned device rate
};

}  // namespace weir::core

// What a request costs: device time from a calibrated, monotone curve, over that of one 16 KiB
// random read; corrected slowly while it runs.
//
// PURE. Threads: const calls may run at the same time; Observe needs the model for itself.
// docs/scheduler-cost.md has the mathematics.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/resource_params.h"
#include "base/result.h"
#include "base/time.h"
#include "core/cost_correction.h"

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
  // Indexed by Direction and Access. An empty sequential curve means: as random; no write curve at
  // all: as reads.
  std::array<std::array<std::vector<CurvePoint>, 2>, 2> points;
};

inline constexpr int64_t kReferenceBytes = 16 * 1024;
inline constexpr int64_t kMaxRequestBytes = int64_t{1} << 30;  // larger ones cost as this
inline constexpr int64_t kMaxRequestCost = int64_t{1} << 44;   // Cost() is never above
inline constexpr size_t kMaxCurvePoints = 64;                  // of one direction and access
inline constexpr int64_t kMaxDeviceNs = int64_t{3600} * 1'000'000'000;

class CostModel {
 public:
  // Every request costs bytes / 16 KiB, at least half an op; reads as writes.
  CostModel();

  // Errors: kInvalidArgument: no 16 KiB random read can be derived, times that are not positive
  // or that fall with the size (Monotone() mends noise first), sizes out of order or out of
  // [1, kMaxRequestBytes], too many points. The message names the curve and the point.
  [[nodiscard]] static Result<CostModel> FromCurve(const CostCurve& curve);

  // The nearest curve (least squares) that never falls with the size, by the pool adjacent
  // violators algorithm. Sorts each curve by size. Requires: times <= kMaxDeviceNs.
  [[nodiscard]] static CostCurve Monotone(CostCurve curve);

  // Cost in 1/65536 normalised op, within [1, kMaxRequestCost]; never smaller for a larger request
  // of the same kind. Sizes below 512 cost as 512. O(1), no allocation.
  [[nodiscard]] int64_t Cost(Direction direction, Access access, int64_t bytes) const;

  // What completed in a window (>= 100 ms) in which the device was kept full: by direction and
  // octave of bytes / 512 (ClassOf), how many requests, and the sum of the costs they were charged.
  struct Window {
    std::array<std::array<int64_t, kCostClasses>, 2> requests{};
    std::array<std::array<int64_t, kCostClasses>, 2> cost{};
    int64_t elapsed_ns = 0;
    void Add(Direction direction, int64_t bytes, int64_t charged_cost);
  };

  // Slow online correction of the factors by which the curve is multiplied, one for each direction
  // and octave. Factors stay within [1/4, 4], move by at most 2 % a window, and keep Cost()
  // monotone; the 16 KiB random read stays 1. What a window cannot tell (the device became slower,
  // or these requests dearer?) counts as a change of the device's rate, not of the cost.
  // Cost: some 10 us. Allocates on the first call only.
  void Observe(const Window& window);

  // The factor applied now at `bytes`. 1 = as calibrated.
  [[nodiscard]] double Factor(Direction direction, int64_t bytes) const;

  // What the device serves as learned by Observe, in 1/65536 normalised op per second; 0 = no
  // window yet.
  [[nodiscard]] double LearnedRatePerSecond() const { return correction_.RatePerSecond(); }

  // 0 for sizes below 1 KiB, ..., 21 for 1 GiB and above.
  [[nodiscard]] static int ClassOf(int64_t bytes);

 private:
  // From `bytes` to the next one's: cost + (size - bytes) * slope_q16 / 2^16.
  struct Segment {
    int64_t bytes = 0;
    int64_t cost = 0;       // corrected
    int64_t slope_q16 = 0;  // corrected; rounded down, so that a segment never overtakes the next
    int64_t base = 0;       // as calibrated
  };
  struct Table {
    std::vector<Segment> segments;
    std::array<uint16_t, kCostOctaves> first{};  // the segment that starts at 512 << octave
  };

  [[nodiscard]] static Table MakeTable(const std::vector<CurvePoint>& points,
                                       int64_t reference_ns_q16);
  [[nodiscard]] const Table& TableOf(Direction direction, Access access) const;
  [[nodiscard]] int64_t FactorQ16(int direction, int64_t bytes) const;
  [[nodiscard]] double BaseRatio(int direction, int octave) const;
  void MoveFactors();
  void KeepFactorsMonotone();
  void Rebuild();

  std::array<std::array<Table, 2>, 2> tables_;  // [direction][access]
  std::array<std::array<int64_t, kCostOctaves>, 2> factor_q16_;
  CostCorrection correction_;
};

}  // namespace weir::core

// A log-linear histogram of durations: fixed size, no allocation, O(1) to record.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/time.h"

namespace weir {

// kSubBits sub-buckets (2^kSubBits) an octave: the relative error of a quantile is at most
// 1/2^kSubBits. Values from 0 ns to about 2^40 ns (18 minutes); larger ones count in the last.
// Threads: one writer; readers copy it on the owner's thread.
//
// kCompact: counts only, so that recording touches one cache line; max() and mean() are then those
// of the buckets, within the same error.
// kFloorBits: values are counted in steps of 2^kFloorBits ns (the error is at least that).
template <int kSubBits, bool kCompact = false, int kFloorBits = 0>
class LogHistogram {
 public:
  static constexpr int kOctaves = 41 - kFloorBits - kSubBits;
  static constexpr int kBuckets = (kOctaves + 1) << kSubBits;

  void Record(Duration value) { RecordNanos(value.count()); }
  void RecordNanos(int64_t ns) {
    ++counts_[static_cast<size_t>(BucketOf(ns))];
    if constexpr (!kCompact) {
      sum_ns_ += ns > 0 ? ns : 0;
      if (ns > max_ns_) max_ns_ = ns;
    }
  }
  void Merge(const LogHistogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    sum_ns_ += other.sum_ns_;
    if (other.max_ns_ > max_ns_) max_ns_ = other.max_ns_;
  }
  // The counts of *this minus those of an earlier copy; the maximum stays that of *this.
  [[nodiscard]] LogHistogram Since(const LogHistogram& earlier) const {
    LogHistogram delta = *this;
    for (size_t i = 0; i < kBuckets; ++i) delta.counts_[i] -= earlier.counts_[i];
    delta.sum_ns_ -= earlier.sum_ns_;
    return delta;
  }

  [[nodiscard]] uint64_t count() const {
    uint64_t count = 0;
    for (const uint32_t n : counts_) count += n;
    return count;
  }
  [[nodiscard]] Duration max() const {
    if constexpr (!kCompact) return Duration(max_ns_);
    for (int i = kBuckets - 1; i >= 0; --i) {
      if (counts_[static_cast<size_t>(i)] != 0) return Duration(UpperEdge(i));
    }
    return Duration(0);
  }
  [[nodiscard]] Duration mean() const {
    const uint64_t n = count();
    if (n == 0) return Duration(0);
    if constexpr (!kCompact) return Duration(sum_ns_ / static_cast<int64_t>(n));
    double sum = 0;
    for (int i = 0; i < kBuckets; ++i) {
      const double low = i == 0 ? 0.0 : static_cast<double>(UpperEdge(i - 1));
      sum += counts_[static_cast<size_t>(i)] * (low + static_cast<double>(UpperEdge(i))) / 2;
    }
    return Duration(static_cast<int64_t>(sum / static_cast<double>(n)));
  }
  // The upper edge of the bucket that holds the quantile, capped by max(). 0 when empty.
  // Requires: 0 <= q <= 1.
  [[nodiscard]] Duration Quantile(double q) const {
    const uint64_t n = count();
    if (n == 0) return Duration(0);
    const uint64_t rank = static_cast<uint64_t>(q * static_cast<double>(n - 1)) + 1;
    uint64_t seen = 0;
    for (int i = 0; i < kBuckets; ++i) {
      seen += counts_[static_cast<size_t>(i)];
      if (seen >= rank) return std::min(Duration(UpperEdge(i)), max());
    }
    return max();
  }

 private:
  static int BucketOf(int64_t ns) {
    if (ns < 0) return 0;
    const int64_t steps = ns >> kFloorBits;
    if (steps < (int64_t{1} << kSubBits)) return static_cast<int>(steps);
    const int octave = 63 - std::countl_zero(static_cast<uint64_t>(steps)) - kSubBits;
    if (octave >= kOctaves) return kBuckets - 1;
    return ((octave + 1) << kSubBits) +
           static_cast<int>((steps >> octave) & ((int64_t{1} << kSubBits) - 1));
  }
  static int64_t UpperEdge(int bucket) {
    int64_t steps = bucket + 1;
    if (bucket >= (1 << kSubBits)) {
      const int octave = (bucket >> kSubBits) - 1;
      const int64_t sub = bucket & ((1 << kSubBits) - 1);
      steps = ((int64_t{1} << kSubBits) + sub + 1) << octave;
    }
    return (steps << kFloorBits) - 1;
  }

  std::array<uint32_t, kBuckets> counts_{};
  int64_t sum_ns_ = 0;  // unused when compact
  int64_t max_ns_ = 0;
};

// Within 12.5 % (and 0.5 us), 960 bytes: two a leaf of the scheduler.
using CoarseHistogram = LogHistogram<3, true, 9>;
// Within 1.6 %, 9 kB: reports.
using FineHistogram = LogHistogram<6>;

}  // namespace weir

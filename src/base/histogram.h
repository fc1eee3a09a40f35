// A log-linear histogram of durations: fixed size, no allocation, O(1) to record.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/time.h"

namespace weir {

// kSubBits sub-buckets (2^kSubBits) an octave: the relative error of a quantile is at most
// 1/2^kSubBits. Values from 0 ns to about 2^40 ns (18 minutes); larger ones count in the last.
// Threads: one writer; readers copy it on the owner's thread.
template <int kSubBits>
class LogHistogram {
 public:
  static constexpr int kOctaves = 41 - kSubBits;
  static constexpr int kBuckets = (kOctaves + 1) << kSubBits;

  void Record(Duration value) { RecordNanos(value.count()); }
  void RecordNanos(int64_t ns) {
    ++counts_[BucketOf(ns)];
    ++count_;
    sum_ns_ += ns > 0 ? ns : 0;
    if (ns > max_ns_) max_ns_ = ns;
  }
  void Merge(const LogHistogram& other) {
    for (int i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ns_ += other.sum_ns_;
    if (other.max_ns_ > max_ns_) max_ns_ = other.max_ns_;
  }
  // The counts of *this minus those of an earlier copy; the maximum stays that of *this.
  [[nodiscard]] LogHistogram Since(const LogHistogram& earlier) const {
    LogHistogram delta = *this;
    for (int i = 0; i < kBuckets; ++i) delta.counts_[i] -= earlier.counts_[i];
    delta.count_ -= earlier.count_;
    delta.sum_ns_ -= earlier.sum_ns_;
    return delta;
  }

  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] Duration max() const { return Duration(max_ns_); }
  [[nodiscard]] Duration mean() const {
    return Duration(count_ == 0 ? 0 : sum_ns_ / static_cast<int64_t>(count_));
  }
  // The upper edge of the bucket that holds the quantile, capped by max(). 0 when empty.
  // Requires: 0 <= q <= 1.
  [[nodiscard]] Duration Quantile(double q) const {
    if (count_ == 0) return Duration(0);
    const uint64_t rank = static_cast<uint64_t>(q * static_cast<double>(count_ - 1)) + 1;
    uint64_t seen = 0;
    for (int i = 0; i < kBuckets; ++i) {
      seen += counts_[i];
      if (seen >= rank) {
        const int64_t edge = UpperEdge(i);
        return Duration(edge < max_ns_ ? edge : max_ns_);
      }
    }
    return Duration(max_ns_);
  }

 private:
  static int BucketOf(int64_t ns) {
    if (ns < (int64_t{1} << kSubBits)) return ns < 0 ? 0 : static_cast<int>(ns);
    const int octave = 63 - std::countl_zero(static_cast<uint64_t>(ns)) - kSubBits;
    if (octave >= kOctaves) return kBuckets - 1;
    return ((octave + 1) << kSubBits) +
           static_cast<int>((ns >> octave) & ((int64_t{1} << kSubBits) - 1));
  }
  static int64_t UpperEdge(int bucket) {
    if (bucket < (1 << kSubBits)) return bucket;
    const int octave = (bucket >> kSubBits) - 1;
    const int64_t sub = bucket & ((1 << kSubBits) - 1);
    return (((int64_t{1} << kSubBits) + sub + 1) << octave) - 1;
  }

  std::array<uint32_t, kBuckets> counts_{};
  uint64_t count_ = 0;
  int64_t sum_ns_ = 0;
  int64_t max_ns_ = 0;
};

using CoarseHistogram = LogHistogram<3>;  // within 12.5 %, 1.3 kB: one a group in the scheduler
using FineHistogram = LogHistogram<6>;    // within 1.6 %, 9 kB: reports

}  // namespace weir

// Goal: quantiles are never below the true value and at most one bucket above it, whatever is
// recorded; merging and subtracting keep the counts.
#include "base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace weir {
namespace {

TEST(Histogram, EmptyGivesZeros) {
  const FineHistogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.mean().count(), 0);
  EXPECT_EQ(histogram.max().count(), 0);
  EXPECT_EQ(histogram.Quantile(0.99).count(), 0);
}

TEST(Histogram, OneValueIsEveryQuantile) {
  for (const int64_t ns : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{8}, int64_t{1000},
                           int64_t{123'456'789}, int64_t{1} << 40}) {
    FineHistogram histogram;
    histogram.RecordNanos(ns);
    for (const double q : {0.0, 0.5, 1.0}) EXPECT_EQ(histogram.Quantile(q).count(), ns);
    EXPECT_EQ(histogram.mean().count(), ns);
  }
}

TEST(Histogram, NegativeDurationsCountAsZero) {
  FineHistogram histogram;
  histogram.RecordNanos(-5);
  histogram.RecordNanos(INT64_MIN);
  EXPECT_EQ(histogram.count(), 2u);
  EXPECT_EQ(histogram.Quantile(1).count(), 0);
  EXPECT_EQ(histogram.mean().count(), 0);
}

// Exact quantiles of sorted samples against the histogram's.
template <typename Histogram>
void ExpectQuantilesWithin(double relative_error, double floor_ns, uint64_t seed) {
  Random random(seed);
  Histogram histogram;
  std::vector<int64_t> values;
  const double mean = std::exp(random.Uniform() * 20);
  for (int i = 0; i < 3000; ++i) {
    values.push_back(static_cast<int64_t>(random.Exponential(mean)));
    histogram.RecordNanos(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double q : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const size_t rank = static_cast<size_t>(q * static_cast<double>(values.size() - 1));
    const auto truth = static_cast<double>(values[rank]);
    const auto got = static_cast<double>(histogram.Quantile(q).count());
    EXPECT_GE(got, truth) << "seed " << seed << " q " << q;
    EXPECT_LE(got, truth * (1 + relative_error) + floor_ns) << "seed " << seed << " q " << q;
  }
}

TEST(Histogram, QuantilesAreWithinOneBucketOfTheTruth) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    ExpectQuantilesWithin<CoarseHistogram>(1.0 / 8, 512, seed);
    ExpectQuantilesWithin<FineHistogram>(1.0 / 64, 1, seed);
  }
}

TEST(Histogram, MergeEqualsRecordingEverythingInOne) {
  Random random(7);
  FineHistogram a, b, both;
  for (int i = 0; i < 1000; ++i) {
    const int64_t ns = random.Range(0, 10'000'000);
    (random.Chance(0.3) ? a : b).RecordNanos(ns);
    both.RecordNanos(ns);
  }
  a.Merge(b);
  EXPECT_EQ(a.count(), both.count());
  EXPECT_EQ(a.mean(), both.mean());
  EXPECT_EQ(a.max(), both.max());
  for (double q = 0; q <= 1; q += 0.05) EXPECT_EQ(a.Quantile(q), both.Quantile(q));
}

TEST(Histogram, SinceLeavesOnlyWhatCameLater) {
  FineHistogram histogram;
  for (int i = 0; i < 100; ++i) histogram.RecordNanos(1'000'000'000);
  const FineHistogram earlier = histogram;
  for (int i = 0; i < 10; ++i) histogram.RecordNanos(1000);
  const FineHistogram later = histogram.Since(earlier);
  EXPECT_EQ(later.count(), 10u);
  EXPECT_EQ(later.mean().count(), 1000);
  EXPECT_LE(later.Quantile(1).count(), 1016);
  EXPECT_EQ(histogram.Since(histogram).count(), 0u);
}

TEST(Histogram, ValuesBeyondTheRangeStayInTheLastBucket) {
  FineHistogram histogram;
  histogram.RecordNanos(INT64_MAX / 4);
  histogram.RecordNanos(1);
  EXPECT_EQ(histogram.count(), 2u);
  EXPECT_EQ(histogram.Quantile(0).count(), 1);
  EXPECT_GE(histogram.Quantile(1).count(), int64_t{1} << 40);
}

}  // namespace
}  // namespace weir

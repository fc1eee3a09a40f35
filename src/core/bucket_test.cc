// Goal: a limit changed live neither pauses its group for what the old burst allowed, nor forgives
// debt, nor hands out a second burst.
#include "core/bucket.h"

#include <gtest/gtest.h>

namespace weir::core {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kBurst = 10 * kMillisecond;  // automatic

// Charges single units while the bucket is open at `now`; returns how many passed.
int64_t Drain(Bucket* bucket, int64_t now) {
  int64_t passed = 0;
  while (bucket->OpenAt() <= now) {
    bucket->Charge(1, now, kBurst);
    ++passed;
  }
  return passed;
}

TEST(Bucket, ALoweredRateIsServedAtOnceNotAfterTheOldBurst) {
  Bucket bucket;
  bucket.SetRate(100'000, -1, 0, kBurst);
  EXPECT_NEAR(static_cast<double>(Drain(&bucket, 0)), 1'001, 2);  // the burst of 10 ms, and one
  bucket.SetRate(1'000, -1, 0, kBurst);
  // Nothing of the burst was left: one a millisecond from here on.
  EXPECT_LE(Drain(&bucket, 0), 1);
  for (int64_t ms = 1; ms <= 50; ++ms) EXPECT_NEAR(Drain(&bucket, ms * kMillisecond), 1, 1);
}

TEST(Bucket, DebtBeyondTheBurstIsKeptInUnits) {
  Bucket bucket;
  bucket.SetRate(1, 0, 0, kBurst);
  bucket.Charge(1'000, 0, kBurst);  // 1,000 s at the old rate
  bucket.SetRate(1'000, 0, 0, kBurst);
  EXPECT_EQ(bucket.OpenAt(), 1'000 * kMillisecond);
}

TEST(Bucket, ChangesToAndFroGiveNoSecondBurst) {
  Bucket bucket;
  bucket.SetRate(1'000, -1, 0, kBurst);
  int64_t passed = Drain(&bucket, 0);
  for (int i = 1; i <= 1'000; ++i) {
    bucket.SetRate(i % 2 == 0 ? 1'000 : 500, -1, i * kMillisecond, kBurst);
    passed += Drain(&bucket, i * kMillisecond);
  }
  // Half of a second at each rate, one burst, and one request of rounding each.
  EXPECT_LE(passed, 750 + 10 + 2);
  EXPECT_GE(passed, 740);
}

TEST(Bucket, SubMillisecondRatesAreExact) {
  Bucket bucket;
  bucket.SetRate(4'095'000, 0, 0, 0);
  int64_t now = 0;
  for (int i = 0; i < 10'000; ++i) {
    bucket.Charge(4'096, now, 0);
    now = bucket.OpenAt();
  }
  EXPECT_NEAR(static_cast<double>(now), 10'000.0 * 4'096e9 / 4'095'000, 2);
}

}  // namespace
}  // namespace weir::core

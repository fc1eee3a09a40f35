// Goal: a profile is fitted only from what a device can plausibly do; the curve never falls; the
// kernel's io.cost.model line means what the kernel says. Method: tables of made-up measurements;
// properties over noisy ones.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "device/profile.h"
#include "device/samples.h"

namespace weir::device {
namespace {

constexpr Direction kRead = Direction::kRead;
constexpr Direction kWrite = Direction::kWrite;
constexpr core::Access kRandom = core::Access::kRandom;
constexpr core::Access kSequential = core::Access::kSequential;

// An SSD: 12 us a request, 1 us for 2 KiB more; writes 25 % dearer.
std::vector<Measurement> Ssd() {
  std::vector<Measurement> measurements;
  for (const Direction direction : {kRead, kWrite}) {
    for (const core::Access access : {kRandom, kSequential}) {
      for (int64_t bytes = 4096; bytes <= 2 << 20; bytes *= 2) {
        const double time_ns =
            (12'000 + static_cast<double>(bytes) / 2.048) * (direction == kWrite ? 1.25 : 1);
        measurements.push_back({direction, access, bytes, 1e9 / time_ns, 90'000, 64, 0.01});
      }
    }
  }
  return measurements;
}

Measurement* Find(std::vector<Measurement>* all, Direction direction, core::Access access,
                  int64_t bytes) {
  for (Measurement& m : *all) {
    if (m.direction == direction && m.access == access && m.bytes == bytes) return &m;
  }
  return nullptr;
}

TEST(Fit, AGoodDeviceGivesItsCapacityAndCosts) {
  const Result<Profile> profile = Fit(Ssd());
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_NEAR(profile->capacity_iops, 50'000, 1);
  EXPECT_NEAR(static_cast<double>(profile->CapacityPerSecond()) / kOp, 50'000, 1);
  const Result<core::CostModel> model = profile->Model();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->Cost(kRead, kRandom, 16384), kOp);
  EXPECT_NEAR(static_cast<double>(model->Cost(kWrite, kRandom, 16384)) / kOp, 1.25, 0.001);
  EXPECT_NEAR(static_cast<double>(model->Cost(kRead, kSequential, 1 << 20)) / kOp, 26.2, 0.001);
}

// "Wrong capacity measured": the scenario of a calibration that says 2 IOPS or 10^7.
TEST(Fit, RefusesAnImplausibleCapacity) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double iops : {2.0, 9.9, 1e7, 2.1e7, 1e300, 0.0, -1.0, kNan, kInfinity}) {
    std::vector<Measurement> measurements = Ssd();
    for (Measurement& m : measurements) {
      if (m.direction == kRead && m.access == kRandom) m.iops = iops;
    }
    const Result<Profile> profile = Fit(measurements);
    ASSERT_FALSE(profile) << iops;
    EXPECT_EQ(profile.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(profile.error().message.find("implausible"), std::string::npos)
        << profile.error().message;
    EXPECT_NE(profile.error().message.find("random read"), std::string::npos)
        << profile.error().message;
  }
}

TEST(Fit, RefusesWhatContradictsItself) {
  const struct {
    const char* name;
    void (*spoil)(std::vector<Measurement>*);
    const char* message;
  } kCases[] = {
      {"no 16 KiB read", [](auto* all) { Find(all, kRead, kRandom, 16384)->bytes = 16384 + 512; },
       "no random read of 16 KiB"},
      {"no random writes",
       [](auto* all) {
         for (Measurement& m : *all) m.direction = kRead;
         all->resize(10);
       },
       "no random write"},
      {"empty", [](auto* all) { all->clear(); }, "no random read of 16 KiB"},
      {"twice", [](auto* all) { all->push_back(all->front()); }, "given twice"},
      {"a larger request far faster",
       [](auto* all) { Find(all, kRead, kRandom, 32768)->iops = 300'000; }, "but only"},
      {"size 0", [](auto* all) { all->front().bytes = 0; }, "size 0 B"},
      {"size 2 GiB", [](auto* all) { all->back().bytes = int64_t{2} << 30; }, "size 2147483648 B"},
      {"negative latency", [](auto* all) { all->front().depth1_latency_ns = -1; }, "latency"},
      {"endless latency", [](auto* all) { all->front().depth1_latency_ns = 1e30; }, "latency"},
      {"one stalled point", [](auto* all) { Find(all, kWrite, kSequential, 4096)->iops = 1; },
       "too slow"},
      {"too many", [](auto* all) { all->resize(257, all->front()); }, "at most 256"},
  };
  for (const auto& test : kCases) {
    std::vector<Measurement> measurements = Ssd();
    test.spoil(&measurements);
    const Result<Profile> profile = Fit(measurements);
    ASSERT_FALSE(profile) << test.name;
    EXPECT_NE(profile.error().message.find(test.message), std::string::npos)
        << test.name << ": " << profile.error().message;
  }
}

TEST(Fit, ASlowDiskWithHugeRequestsIsPlausible) {
  std::vector<Measurement> measurements;
  for (const Direction direction : {kRead, kWrite}) {
    measurements.push_back({direction, kRandom, 16384, 90, 11e6, 1, 0});
    measurements.push_back({direction, kRandom, 2 << 20, 8, 120e6, 1, 0});  // 16 MB/s
  }
  const Result<Profile> profile = Fit(measurements);
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_TRUE(profile->curve.points[0][1].empty());  // sequential: as random
  EXPECT_TRUE(profile->Model());
}

TEST(Fit, NoiseIsSmoothedToACurveThatNeverFalls) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    std::vector<Measurement> measurements = Ssd();
    for (Measurement& m : measurements) m.iops *= 0.7 + 0.6 * random.Uniform();
    const Result<Profile> profile = Fit(measurements);
    ASSERT_TRUE(profile) << "seed " << seed << ": " << profile.error().message;
    for (const auto& by_access : profile->curve.points) {
      for (const auto& points : by_access) {
        ASSERT_EQ(points.size(), 10u);
        for (size_t i = 1; i < points.size(); ++i) {
          ASSERT_LE(points[i - 1].device_ns, points[i].device_ns) << "seed " << seed;
        }
      }
    }
  }
}

TEST(CompareWithOld, TellsWhatChangedByMoreThanNoise) {
  const Profile old = *Fit(Ssd());
  EXPECT_TRUE(CompareWithOld(old, old).empty());
  std::vector<Measurement> slower = Ssd();
  for (Measurement& m : slower) m.iops *= m.direction == kRead ? 0.4 : 0.6;
  const std::vector<std::string> findings = CompareWithOld(old, *Fit(slower));
  ASSERT_EQ(findings.size(), 21u);  // capacity, and each read
  EXPECT_EQ(findings[0], "capacity: 20000 IOPS, but 50000 in the profile before");
}

// Documentation/admin-guide/cgroup-v2.rst: [r|w]bps the maximum sequential throughput,
// [r|w]seqiops the maximum 4k sequential IOPS, [r|w]randiops the maximum 4k random IOPS.
TEST(IoCostModelLine, HasTheKernelsMeaning) {
  std::vector<Measurement> measurements;
  for (const Direction direction : {kRead, kWrite}) {
    const double factor = direction == kRead ? 1 : 0.5;
    measurements.push_back({direction, kRandom, 4096, 100'000 * factor, 0, 0, 0});
    measurements.push_back({direction, kRandom, 16384, 50'000 * factor, 0, 0, 0});
    measurements.push_back({direction, kSequential, 4096, 200'000 * factor, 0, 0, 0});
    measurements.push_back({direction, kSequential, 1 << 20, 1'000 * factor, 0, 0, 0});
  }
  const Result<Profile> profile = Fit(measurements);
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(IoCostModelLine(*profile, "254:0"),
            "254:0 ctrl=user model=linear rbps=1048576000 rseqiops=200000 rrandiops=100000 "
            "wbps=524288000 wseqiops=100000 wrandiops=50000");
}

TEST(IoCostModelLine, TakesRandomWhereNothingSequentialWasMeasured) {
  const Result<Profile> profile =
      Fit({{kRead, kRandom, 16384, 1000, 0, 0, 0}, {kWrite, kRandom, 16384, 500, 0, 0, 0}});
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(IoCostModelLine(*profile, "8:0"),
            "8:0 ctrl=user model=linear rbps=16384000 rseqiops=1000 rrandiops=1000 "
            "wbps=8192000 wseqiops=500 wrandiops=500");
}

TEST(Samples, QuantilesAndSpread) {
  EXPECT_EQ(Quantile({}, 0.5), 0);
  EXPECT_EQ(Quantile({7}, 0.99), 7);
  EXPECT_EQ(Quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(Quantile({1, 2, 3, 4}, 0.5), 2.5);
  EXPECT_EQ(Quantile({4, 3, 2, 1}, 1.0), 4);
  EXPECT_EQ(Spread({5}), 0);
  EXPECT_DOUBLE_EQ(Spread({1, 2, 3, 4, 5}), 2.0 / 3);
}

}  // namespace
}  // namespace weir::device

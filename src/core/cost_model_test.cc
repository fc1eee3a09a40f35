// Goal: costs are positive and never fall with the size, whatever the curve and the corrections;
// bad curves are refused with a message that helps; online correction finds a wrong write cost in
// mixed noisy loads, and keeps still when the load cannot tell. Method: properties over random
// curves and windows; a small model of a device in virtual time.
#include "core/cost_model.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>

#include "base/random.h"

namespace weir::core {
namespace {

constexpr Direction kBothDirections[] = {Direction::kRead, Direction::kWrite};
constexpr Access kBothAccesses[] = {Access::kRandom, Access::kSequential};

// Sizes around every power of two and every odd place between.
std::vector<int64_t> ProbeSizes() {
  std::vector<int64_t> sizes = {0, 1, 511};
  for (int64_t bytes = 512; bytes <= kMaxRequestBytes; bytes *= 2) {
    for (const int64_t size : {bytes - 1, bytes, bytes + 1, bytes + bytes / 3, bytes + bytes / 2}) {
      sizes.push_back(size);
    }
  }
  sizes.push_back(INT64_MAX);
  return sizes;
}

void CheckMonotoneAndPositive(const CostModel& model) {
  static const std::vector<int64_t> kSizes = ProbeSizes();
  for (const Direction direction : kBothDirections) {
    for (const Access access : kBothAccesses) {
      int64_t before = 1;
      for (const int64_t bytes : kSizes) {
        const int64_t cost = model.Cost(direction, access, bytes);
        RC_ASSERT(cost >= before);
        RC_ASSERT(cost <= kMaxRequestCost);
        before = cost;
      }
    }
  }
}

CostCurve Simple() {
  CostCurve curve;
  curve.points[0][0] = {{4096, 12'000}, {16384, 16'000}, {65536, 40'000}, {1 << 20, 480'000}};
  curve.points[1][0] = {{4096, 14'000}, {16384, 20'000}, {65536, 50'000}, {1 << 20, 520'000}};
  return curve;
}

rc::Gen<CostCurve> AnyGoodCurve() {
  return rc::gen::map(rc::gen::pair(rc::gen::arbitrary<uint64_t>(), rc::gen::inRange(0, 15)),
                      [](const std::pair<uint64_t, int>& seed_and_empty) {
                        Random random(seed_and_empty.first);
                        CostCurve curve;
                        for (int kind = 0; kind < 4; ++kind) {
                          if (kind != 0 && (seed_and_empty.second >> (kind - 1) & 1) != 0) continue;
                          auto& points = curve.points[kind / 2][kind % 2];
                          int64_t bytes = random.Range(1, 16384);
                          int64_t time = random.Range(1, 100'000);
                          while (bytes <= kMaxRequestBytes && points.size() < kMaxCurvePoints) {
                            points.push_back({bytes, time});
                            bytes += random.Range(1, random.Chance(0.3) ? 10 : bytes * 4);
                            if (random.Chance(0.8)) {
                              time = std::min(time + random.Range(0, time * 2), kMaxDeviceNs);
                            }
                          }
                        }
                        return curve;
                      });
}

TEST(CostModel, WithoutACurveCostIsProportionalToBytesAndAtLeastHalf) {
  const CostModel model;
  for (const Direction direction : kBothDirections) {
    for (const Access access : kBothAccesses) {
      EXPECT_EQ(model.Cost(direction, access, 16384), kOp);
      EXPECT_EQ(model.Cost(direction, access, 512), kOp / 2);
      EXPECT_EQ(model.Cost(direction, access, 0), kOp / 2);
      EXPECT_EQ(model.Cost(direction, access, 20 * 1024), kOp * 20 / 16);
      EXPECT_EQ(model.Cost(direction, access, 64 * 1024), 4 * kOp);
      EXPECT_EQ(model.Cost(direction, access, kMaxRequestBytes), 65536 * kOp);
    }
  }
}

TEST(CostModel, FollowsTheCurveBetweenAndBeyondItsPoints) {
  const Result<CostModel> model = CostModel::FromCurve(Simple());
  ASSERT_TRUE(model) << model.error().message;
  const auto cost = [&](Direction direction, int64_t bytes) {
    return static_cast<double>(model->Cost(direction, Access::kRandom, bytes)) / kOp;
  };
  EXPECT_DOUBLE_EQ(cost(Direction::kRead, 16384), 1.0);
  EXPECT_DOUBLE_EQ(cost(Direction::kRead, 4096), 0.75);
  EXPECT_DOUBLE_EQ(cost(Direction::kRead, 512), 0.75);     // below the first: its time
  EXPECT_DOUBLE_EQ(cost(Direction::kRead, 40960), 1.75);   // half-way from 1 to 2.5
  EXPECT_DOUBLE_EQ(cost(Direction::kWrite, 16384), 1.25);  // writes over the read of 16 KiB
  EXPECT_DOUBLE_EQ(cost(Direction::kRead, 2 << 20), 60);   // beyond the last: in proportion
  // No sequential curve: as random.
  EXPECT_EQ(model->Cost(Direction::kWrite, Access::kSequential, 65536),
            model->Cost(Direction::kWrite, Access::kRandom, 65536));
}

TEST(CostModel, AReferenceBetweenThePointsIsExactlyOne) {
  CostCurve curve;
  curve.points[0][0] = {{4096, 3}, {60'000, 7}};
  const Result<CostModel> model = CostModel::FromCurve(curve);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->Cost(Direction::kRead, Access::kRandom, 16384), kOp);
}

TEST(CostModel, RefusesHostileCurvesAndSaysWhy) {
  const struct {
    const char* name;
    int direction;
    std::vector<CurvePoint> points;
    const char* message;
  } kCases[] = {
      {"no reads", 0, {}, "16 KiB"},
      {"starts above 16 KiB", 0, {{32768, 10}}, "at most 16384"},
      {"zero time", 0, {{4096, 0}, {16384, 10}}, "device time 0 ns of 4096 B"},
      {"negative time", 1, {{4096, -5}}, "device time -5 ns"},
      {"endless time", 1, {{4096, INT64_MAX}}, "device time"},
      {"falling", 0, {{4096, 20}, {16384, 10}}, "must not be cheaper"},
      {"unsorted", 1, {{16384, 10}, {4096, 10}}, "sizes must grow"},
      {"twice the same", 1, {{4096, 10}, {4096, 10}}, "sizes must grow"},
      {"zero size", 1, {{0, 10}}, "size 0 B of point 1"},
      {"negative size", 1, {{INT64_MIN, 10}}, "must be within"},
      {"huge size", 1, {{kMaxRequestBytes + 1, 10}}, "must be within"},
      {"too many", 1, std::vector<CurvePoint>(65, {1, 1}), "65 points"},
      {"an hour at 16 KiB", 0, {{1, kMaxDeviceNs}}, "more than an hour"},
  };
  for (const auto& test : kCases) {
    CostCurve curve = Simple();
    curve.points[test.direction][0] = test.points;
    const Result<CostModel> model = CostModel::FromCurve(curve);
    ASSERT_FALSE(model) << test.name;
    EXPECT_EQ(model.error().code, ErrorCode::kInvalidArgument) << test.name;
    EXPECT_NE(model.error().message.find(test.message), std::string::npos)
        << test.name << ": " << model.error().message;
  }
}

TEST(CostModel, ExtremeCurvesSaturateInsteadOfOverflowing) {
  CostCurve curve;
  curve.points[0][0] = {{1, 1}, {16384, 1}};
  curve.points[1][0] = {{1, kMaxDeviceNs}};
  const Result<CostModel> model = CostModel::FromCurve(curve);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->Cost(Direction::kWrite, Access::kRandom, INT64_MAX), kMaxRequestCost);
  curve.points[0][0] = {{16384, kMaxDeviceNs}};
  curve.points[1][0] = {{1, 1}, {kMaxRequestBytes, 1}};
  const Result<CostModel> cheap = CostModel::FromCurve(curve);
  ASSERT_TRUE(cheap) << cheap.error().message;
  EXPECT_EQ(cheap->Cost(Direction::kWrite, Access::kRandom, 0), 1);
}

RC_GTEST_PROP(CostModelProperty, NeverBelowOneNorFallingWithTheSize, ()) {
  const Result<CostModel> model = CostModel::FromCurve(*AnyGoodCurve());
  RC_ASSERT(model.has_value());
  CheckMonotoneAndPositive(*model);
  RC_ASSERT(model->Cost(Direction::kRead, Access::kRandom, kReferenceBytes) == kOp);
}

RC_GTEST_PROP(CostModelProperty, StaysMonotoneBoundedAndSlowUnderAnyObservation, (uint64_t seed)) {
  Result<CostModel> model = CostModel::FromCurve(*AnyGoodCurve());
  RC_ASSERT(model.has_value());
  Random random(seed);
  for (int i = 0; i < 60; ++i) {
    CostModel::Window window;
    for (int n = static_cast<int>(random.Range(0, 20)); n > 0; --n) {
      const Direction direction = kBothDirections[random.Range(0, 1)];
      const int octave = static_cast<int>(random.Range(0, kCostClasses - 1));
      window.requests[static_cast<int>(direction)][octave] += random.Range(-1, 1 << 20);
      window.cost[static_cast<int>(direction)][octave] += random.Range(-1, int64_t{1} << 50);
    }
    window.elapsed_ns = random.Range(-1, 1'000'000'000);
    std::vector<double> before;
    for (const Direction direction : kBothDirections) {
      for (int64_t bytes = 512; bytes <= kMaxRequestBytes; bytes *= 2) {
        before.push_back(model->Factor(direction, bytes));
      }
    }
    model->Observe(window);
    CheckMonotoneAndPositive(*model);
    RC_ASSERT(model->Cost(Direction::kRead, Access::kRandom, kReferenceBytes) == kOp);
    size_t next = 0;
    for (const Direction direction : kBothDirections) {
      for (int64_t bytes = 512; bytes <= kMaxRequestBytes; bytes *= 2) {
        const double factor = model->Factor(direction, bytes);
        RC_ASSERT(factor >= 0.25 && factor <= 4.0);
        const double change = factor / before[next++];
        RC_ASSERT(change < 1.0201 && change > 1 / 1.0201);
      }
    }
  }
}

RC_GTEST_PROP(CostModelProperty, MonotoneMendsAnyCurve, ()) {
  CostCurve curve;
  const auto points = *rc::gen::container<std::vector<std::pair<int64_t, int64_t>>>(rc::gen::pair(
      rc::gen::inRange<int64_t>(1, 1 << 20), rc::gen::inRange<int64_t>(1, 1'000'000)));
  __int128 sum = 0;
  for (const auto& [bytes, time] : points) {
    curve.points[1][1].push_back({bytes, time});
    sum += time;
  }
  const CostCurve mended = CostModel::Monotone(curve);
  const auto& result = mended.points[1][1];
  RC_ASSERT(result.size() == points.size());
  for (size_t i = 1; i < result.size(); ++i) {
    RC_ASSERT(result[i - 1].bytes <= result[i].bytes);
    RC_ASSERT(result[i - 1].device_ns <= result[i].device_ns);
  }
  for (const CurvePoint& point : result) sum -= point.device_ns;
  // The least-squares answer keeps the mean; each time was rounded down.
  RC_ASSERT(sum >= 0 && sum <= static_cast<__int128>(points.size()));
}

TEST(CostModel, MonotonePoolsOnlyWhatFalls) {
  CostCurve curve;
  curve.points[0][0] = {{4096, 10}, {8192, 14}, {16384, 12}, {32768, 20}};
  const CostCurve mended = CostModel::Monotone(curve);
  std::vector<int64_t> times;
  for (const CurvePoint& point : mended.points[0][0]) times.push_back(point.device_ns);
  EXPECT_EQ(times, (std::vector<int64_t>{10, 13, 13, 20}));
}

// --- Online correction against a small device: `rate` true ops a second, shared by the kinds of
// request in a mix that changes from window to window as loads come and go.

struct Kind {
  Direction direction;
  int64_t bytes;
  double true_factor;  // true cost over that of the profile
};

class Device {
 public:
  Device(CostModel* model, std::vector<Kind> kinds, uint64_t seed)
      : model_(model), kinds_(std::move(kinds)), shares_(kinds_.size(), 0), random_(seed) {
    Shuffle();
  }

  // One window of 100 ms at full rate; service times of single requests vary by +-30 %, and the
  // rate of the whole window by +-`window_noise`.
  void Run(double rate, double window_noise) {
    CostModel::Window window;
    window.elapsed_ns = 100'000'000;
    double time_left = rate * 0.1 * (1 + window_noise * (2 * random_.Uniform() - 1));
    while (time_left > 0) {
      const Kind& kind = kinds_[Pick()];
      const int64_t charged = model_->Cost(kind.direction, Access::kRandom, kind.bytes);
      window.Add(kind.direction, kind.bytes, charged);
      const double base =
          static_cast<double>(profile_.Cost(kind.direction, Access::kRandom, kind.bytes)) / kOp;
      time_left -= base * kind.true_factor * (0.7 + 0.6 * random_.Uniform());
    }
    model_->Observe(window);
  }
  // Another mix, from one in which the kinds are alike to one in which some are rare.
  void Shuffle() {
    double sum = 0;
    for (double& share : shares_) sum += share = 0.05 + random_.Uniform();
    for (double& share : shares_) share /= sum;
  }

 private:
  // By shares of device time, as the scheduler would give them by weight.
  size_t Pick() {
    double sum = 0;
    for (size_t i = 0; i < kinds_.size(); ++i) sum += Frequency(i);
    double at = random_.Uniform() * sum;
    for (size_t i = 0; i + 1 < kinds_.size(); ++i) {
      at -= Frequency(i);
      if (at < 0) return i;
    }
    return kinds_.size() - 1;
  }
  double Frequency(size_t i) const {
    return shares_[i] / static_cast<double>(
                            profile_.Cost(kinds_[i].direction, Access::kRandom, kinds_[i].bytes));
  }

  CostModel* model_;
  const CostModel profile_ = *model_;
  const std::vector<Kind> kinds_;
  std::vector<double> shares_;
  Random random_;
};

TEST(CostCorrection, FindsAWrongWriteCostInMixedNoisyLoads) {
  const struct {
    double window_noise;
    int windows;
    double tolerance;
  } kCases[] = {{0.1, 600, 0.15}, {0.3, 1200, 0.25}};  // a minute, two
  for (const auto& test : kCases) {
    for (const double truth : {2.0, 0.5, 1.0}) {
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        CostModel model = *CostModel::FromCurve(Simple());
        Device device(&model,
                      {{Direction::kRead, 16384, 1},
                       {Direction::kRead, 4096, 1},
                       {Direction::kWrite, 16384, truth},
                       {Direction::kWrite, 262144, truth}},
                      seed);
        for (int window = 0; window < test.windows; ++window) {
          if (window % 7 == 0) device.Shuffle();
          device.Run(20'000, test.window_noise);
        }
        for (const int64_t bytes : {16384, 262144}) {
          EXPECT_NEAR(std::log(model.Factor(Direction::kWrite, bytes) / truth), 0, test.tolerance)
              << "truth " << truth << " seed " << seed << " bytes " << bytes;
        }
        EXPECT_NEAR(std::log(model.Factor(Direction::kRead, 4096)), 0, test.tolerance)
            << "truth " << truth << " seed " << seed;
        EXPECT_NEAR(model.LearnedRatePerSecond() / kOp / 20'000, 1, test.tolerance);
      }
    }
  }
}

TEST(CostCorrection, DoesNotDriftWhenOnlyOneKindRuns) {
  for (const Kind& kind : {Kind{Direction::kWrite, 65536, 1}, Kind{Direction::kRead, 4096, 1},
                           Kind{Direction::kRead, 16384, 1}, Kind{Direction::kWrite, 65536, 3}}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      CostModel model = *CostModel::FromCurve(Simple());
      Device device(&model, {kind}, seed);
      double most = 1, least = 1;
      for (int window = 0; window < 3000; ++window) {
        // The device becomes half as fast and recovers, again and again: no reason to think that
        // the requests became dearer.
        device.Run((window / 300) % 2 == 0 ? 20'000 : 10'000, 0.3);
        const double factor = model.Factor(kind.direction, kind.bytes);
        most = std::max(most, factor);
        least = std::min(least, factor);
      }
      EXPECT_LT(most, 1.1) << "seed " << seed;
      EXPECT_GT(least, 0.9) << "seed " << seed;
    }
  }
}

TEST(CostCorrection, DoesNotMistakeASlowerDeviceForDearerWritesInASteadyMix) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    CostModel model = *CostModel::FromCurve(Simple());
    Device device(&model, {{Direction::kRead, 16384, 1}, {Direction::kWrite, 65536, 1}}, seed);
    for (int window = 0; window < 2000; ++window) {
      device.Run(window < 1000 ? 20'000 : 7'000, 0.1);
    }
    EXPECT_NEAR(model.Factor(Direction::kWrite, 65536), 1, 0.2) << "seed " << seed;
    EXPECT_NEAR(model.LearnedRatePerSecond() / kOp / 7'000, 1, 0.2);
  }
}

TEST(CostCorrection, OneStalledWindowMovesNothingMuch) {
  CostModel model = *CostModel::FromCurve(Simple());
  Device device(&model, {{Direction::kRead, 16384, 1}, {Direction::kWrite, 65536, 1}}, 1);
  for (int window = 0; window < 300; ++window) {
    if (window % 7 == 0) device.Shuffle();
    if (window % 50 == 49) {
      device.Run(200, 0.1);  // the device hung for nearly the whole window
    } else {
      device.Run(20'000, 0.1);
    }
  }
  EXPECT_NEAR(model.Factor(Direction::kWrite, 65536), 1, 0.15);
}

TEST(CostCorrection, KindsThatNeverRanKeepTheirNeighboursInSightOnly) {
  CostModel model = *CostModel::FromCurve(Simple());
  Device device(&model, {{Direction::kRead, 16384, 1}, {Direction::kWrite, 16384, 2}}, 3);
  for (int window = 0; window < 600; ++window) {
    if (window % 7 == 0) device.Shuffle();
    device.Run(20'000, 0.1);
  }
  EXPECT_NEAR(model.Factor(Direction::kWrite, 16384), 2, 0.3);
  EXPECT_GT(model.Factor(Direction::kWrite, 32768), 1.5);     // a close neighbour follows
  EXPECT_NEAR(model.Factor(Direction::kRead, 4096), 1, 0.1);  // the other direction does not
}

}  // namespace
}  // namespace weir::core

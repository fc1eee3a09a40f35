// Stories: small trees whose right shares can be computed by hand. Method: run in virtual time on a
// device of 10,000 op/s and count what was dispatched.
#include <gtest/gtest.h>

#include <vector>

#include "driver.h"

namespace weir::property {
namespace {

DriverOptions Device(double ops_per_s = 10'000, int slots = 8) {
  DriverOptions options;
  options.device.ops_per_s = ops_per_s;
  options.device.slots = slots;
  options.depth = std::max(2 * slots, 2) * kOp;
  return options;
}

// Runs to `to_ns` and returns what each group was served per second from `from_ns` on.
std::vector<double> Rates(Driver* driver, const std::vector<int>& groups, int64_t from_ns,
                          int64_t to_ns) {
  if (from_ns > driver->now()) driver->RunUntil(from_ns);
  std::vector<double> rates;
  for (const int group : groups) rates.push_back(-driver->Served(group));
  driver->RunUntil(to_ns);
  driver->scheduler().CheckStructure(FromNanos(to_ns));
  const double seconds = static_cast<double>(to_ns - from_ns) / 1e9;
  for (size_t i = 0; i < groups.size(); ++i) {
    rates[i] = (rates[i] + driver->Served(groups[i])) / seconds;
  }
  return rates;
}

void Saturate(Driver* driver, const std::vector<int>& groups) {
  for (const int group : groups) driver->Start({.group = group});
}

TEST(Smoke, WeightsSplitOneToTwo) {
  Driver d(Device());
  const int a = d.AddWeighted(0, 100), b = d.AddWeighted(0, 200);
  Saturate(&d, {a, b});
  const auto rates = Rates(&d, {a, b}, kSecond, 5 * kSecond);
  EXPECT_NEAR(rates[0], 3333, 10);
  EXPECT_NEAR(rates[1], 6667, 10);
}

TEST(Smoke, ReservationHoldsAgainstAnyWeight) {
  Driver d(Device());
  const int a = d.AddWeighted(0, 1), b = d.AddWeighted(0, 10'000);
  d.SetMin(a, Dimension::kNorm, Ops(4'000));
  Saturate(&d, {a, b});
  const auto rates = Rates(&d, {a, b}, kSecond, 5 * kSecond);
  EXPECT_NEAR(rates[0], 4'000, 10);
  EXPECT_NEAR(rates[1], 6'000, 10);
}

TEST(Smoke, ReservationIsNotOnTopOfTheWeightedShare) {
  Driver d(Device());
  const int a = d.AddWeighted(0, 100), b = d.AddWeighted(0, 100);
  d.SetMin(a, Dimension::kNorm, Ops(4'000));
  Saturate(&d, {a, b});
  const auto rates = Rates(&d, {a, b}, kSecond, 5 * kSecond);
  EXPECT_NEAR(rates[0], 5'000, 25);
  EXPECT_NEAR(rates[1], 5'000, 25);
}

TEST(Smoke, LimitHoldsAndIsReached) {
  Driver d(Device());
  const int a = d.AddWeighted(0, 100), b = d.AddWeighted(0, 100);
  d.SetMax(a, Dimension::kNorm, Scope::kBoth, Ops(1'000));
  Saturate(&d, {a, b});
  const auto rates = Rates(&d, {a, b}, kSecond, 5 * kSecond);
  EXPECT_NEAR(rates[0], 1'000, 2);
  EXPECT_NEAR(rates[1], 9'000, 20);
}

TEST(Smoke, WeightZeroGetsOnlyWhatOthersLeave) {
  Driver d(Device());
  const int a = d.AddWeighted(0, 100), b = d.AddWeighted(0, 0);
  const int load = d.Start({.group = a});
  d.Start({.group = b});
  EXPECT_LT(Rates(&d, {b}, kSecond, 5 * kSecond)[0], 1);
  d.StopLoad(load);
  EXPECT_NEAR(Rates(&d, {b}, 6 * kSecond, 8 * kSecond)[0], 10'000, 20);
}

TEST(Smoke, OverCommittedReservationsScaleByMin) {
  Driver d(Device());
  const int a = d.AddWeighted(0, 100), b = d.AddWeighted(0, 1), c = d.AddWeighted(0, 100);
  d.SetMin(a, Dimension::kNorm, Ops(8'000));
  d.SetMin(b, Dimension::kNorm, Ops(4'000));
  Saturate(&d, {a, b, c});
  const auto rates = Rates(&d, {a, b, c}, kSecond, 5 * kSecond);
  EXPECT_NEAR(rates[0], 6'667, 40);
  EXPECT_NEAR(rates[1], 3'333, 40);
  EXPECT_NEAR(rates[2], 0, 10);
}

TEST(Smoke, NestedOverCommitScalesAlikeBelow) {
  Driver d(Device());
  const int tenant = d.AddWeighted(0, 100), other = d.AddWeighted(0, 100);
  const int a = d.AddWeighted(tenant, 1), b = d.AddWeighted(tenant, 100);
  d.SetMin(tenant, Dimension::kNorm, Ops(8'000));
  d.SetMin(other, Dimension::kNorm, Ops(8'000));
  d.SetMin(a, Dimension::kNorm, Ops(4'800));
  Saturate(&d, {a, b, other});
  const auto rates = Rates(&d, {a, b, other}, kSecond, 5 * kSecond);
  EXPECT_NEAR(rates[0], 3'000, 60);
  EXPECT_NEAR(rates[1], 2'000, 60);
  EXPECT_NEAR(rates[2], 5'000, 60);
}

TEST(Smoke, ChangesTakeEffectWithinTenMilliseconds) {
  Driver d(Device());
  const int a = d.AddWeighted(0, 1), b = d.AddWeighted(0, 1'000);
  Saturate(&d, {a, b});
  d.RunUntil(2 * kSecond);
  d.SetMin(a, Dimension::kNorm, Ops(4'000));
  EXPECT_GE(Rates(&d, {a}, d.now(), d.now() + 10 * kMs)[0], 3'700);
  d.SetMax(b, Dimension::kNorm, Scope::kBoth, Ops(1'000), kOp);
  EXPECT_LE(Rates(&d, {b}, d.now(), d.now() + 10 * kMs)[0], 1'200);
  d.SetMax(b, Dimension::kNorm, Scope::kBoth, kUnlimited);
  d.SetMin(a, Dimension::kNorm, 0);
  EXPECT_GE(Rates(&d, {b}, d.now(), d.now() + 10 * kMs)[0],
            9'500);  // the eight slots finish together, every 0.8 ms
}

TEST(Smoke, RemovedReservationDoesNotStarveItsOwner) {
  Driver d(Device());
  const int a = d.AddWeighted(0, 100), b = d.AddWeighted(0, 100);
  d.SetMin(a, Dimension::kNorm, Ops(8'000));
  Saturate(&d, {a, b});
  d.RunUntil(10 * kSecond);
  d.SetMin(a, Dimension::kNorm, 0);
  EXPECT_NEAR(Rates(&d, {a}, d.now(), d.now() + 10 * kMs)[0], 5'000, 500);
}

TEST(Smoke, GroupsComeMoveAndGoUnderLoad) {
  Driver d(Device());
  const int t1 = d.AddWeighted(0, 100), t2 = d.AddWeighted(0, 100);
  const int a = d.AddWeighted(t1, 100), b = d.AddWeighted(t1, 100), c = d.AddWeighted(t2, 100);
  Saturate(&d, {a, b, c});
  auto rates = Rates(&d, {a, b, c}, kSecond, 2 * kSecond);
  EXPECT_NEAR(rates[0], 2'500, 30);
  EXPECT_NEAR(rates[2], 5'000, 30);
  d.Move(b, t2);
  rates = Rates(&d, {a, b, c}, d.now(), d.now() + kSecond);
  EXPECT_NEAR(rates[0], 5'000, 50);
  EXPECT_NEAR(rates[1], 2'500, 50);
  d.Remove(c);
  rates = Rates(&d, {a, b}, d.now(), d.now() + kSecond);
  EXPECT_NEAR(rates[1], 5'000, 50);
  d.StopAllLoads();
  d.Drain(kForever - 1);
  EXPECT_EQ(d.scheduler().requests_in_flight(), 0u);
  const core::GroupStats root = d.Stats(0);
  EXPECT_EQ(root.requests, root.completed);
}

TEST(Smoke, CancelledRequestsAreGoneAndUncharged) {
  Driver d(Device());
  const int a = d.AddWeighted(0, 100);
  d.SetMax(a, Dimension::kNorm, Scope::kBoth, Ops(10), kOp);
  std::vector<core::Request*> requests;
  for (int i = 0; i < 20; ++i) requests.push_back(d.Issue({.group = a}));
  for (int i = 5; i < 20; ++i) EXPECT_TRUE(d.Cancel(requests[static_cast<size_t>(i)]));
  d.RunUntil(10 * kSecond);
  EXPECT_DOUBLE_EQ(d.Served(a), 5);
  EXPECT_EQ(d.Stats(a).cancelled, 15u);
}

TEST(Smoke, AnExpeditedRequestPassesALimitAndTheDebtIsPaid) {
  Driver d(Device());
  const int a = d.AddWeighted(0, 100);
  d.SetMax(a, Dimension::kNorm, Scope::kBoth, Ops(1), 0);
  d.Issue({.group = a});
  core::Request* second = d.Issue({.group = a});
  core::Request* third = d.Issue({.group = a});
  d.RunUntil(10 * kMs);
  EXPECT_DOUBLE_EQ(d.Served(a), 1);
  EXPECT_TRUE(d.Expedite(third));
  d.RunUntil(d.now() + kMs);
  EXPECT_DOUBLE_EQ(d.Served(a), 2);
  EXPECT_NE(d.scheduler().Explain(*second, FromNanos(d.now())).why,
            core::Explanation::Why::kNotQueued);
  d.RunUntil(1'990 * kMs);
  EXPECT_DOUBLE_EQ(d.Served(a), 2);
  d.RunUntil(2'010 * kMs);
  EXPECT_DOUBLE_EQ(d.Served(a), 3);
}

TEST(Smoke, DeadlinesExpireWhatALimitHoldsBack) {
  Driver d(Device());
  const int a = d.AddWeighted(0, 100);
  d.SetMax(a, Dimension::kNorm, Scope::kBoth, Ops(1), 0);
  for (int i = 0; i < 20; ++i) d.Issue({.group = a, .patience_ns = 5 * kSecond});
  d.RunUntil(20 * kSecond);
  EXPECT_NEAR(d.Served(a), 5, 1);
  const core::GroupStats stats = d.Stats(a);
  EXPECT_EQ(stats.expired + stats.requests, 20u);
  EXPECT_EQ(stats.throttle_timeouts, stats.expired);
}

}  // namespace
}  // namespace weir::property

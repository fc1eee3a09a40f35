// One story for each fault that the random cases found in the scheduler. Method as in
// smoke_test.cc: small trees in virtual time, shares computed by hand.
#include <gtest/gtest.h>

#include <vector>

#include "driver.h"
#include "meters.h"

namespace weir::property {
namespace {

DriverOptions Device(double depth, int slots = 1) {
  DriverOptions options;
  options.device.ops_per_s = 10'000;
  options.device.slots = slots;
  options.depth = Ops(depth);
  return options;
}

ResourceParams Reserved(double ops_per_s, int64_t weight = 1) {
  ResourceParams params;
  params.weight = weight;
  params.MinOf(Dimension::kNorm) = Ops(ops_per_s);
  return params;
}

// Ops per second of a group from now on.
double Rate(Driver* driver, int group, int64_t length_ns) {
  const double before = driver->Served(group);
  driver->RunUntil(driver->now() + length_ns);
  return (driver->Served(group) - before) * 1e9 / static_cast<double>(length_ns);
}

// Two hundred small reservations whose large requests arrive together all had earlier deadlines
// than the large reservation that kept up: it got nothing for more than half a second.
TEST(Regression, LargeRequestsThatArriveTogetherDoNotPassALargeReservation) {
  for (const double size : {4.0, 16.0, 256.0}) {
    DriverOptions options = Device(size);
    options.largest_cost = Ops(size);
    Driver d(options);
    const int a = d.Add(0, Reserved(5'000)), w = d.AddWeighted(0, 100);
    std::vector<int> small;
    for (int i = 0; i < 200; ++i) small.push_back(d.Add(0, Reserved(3'500.0 / 200)));
    ReservationMeter meter(
        &d.mirror(),
        {.in_device = d.scheduler().depth() + d.scheduler().headroom() + 4 * Ops(size),
         .allowed_ns = 5 * kMs},
        [](int, const std::string& what) { ADD_FAILURE() << what; });
    d.mirror().AddObserver(&meter);
    d.Start({.group = a});
    d.Start({.group = w});
    for (int round = 1; round < 4; ++round) {
      d.At(round * 4 * kSecond, [&] {
        for (const int group : small) d.Issue({.group = group, .cost = Ops(size)});
      });
    }
    d.RunUntil(16 * kSecond);
    EXPECT_LE(meter.worst(), 1) << size;
  }
}

// A tenant counted as due by the far deadline of a tiny reservation while a sibling, due a moment
// later with a near deadline, stayed unseen: A got nothing for five seconds, and after that R.
TEST(Regression, ATinyReservationDoesNotHideItsSiblings) {
  Driver d(Device(8, 4));
  const int tenant = d.AddWeighted(0, 1), q = d.AddWeighted(0, 10'000);
  const int a = d.Add(tenant, Reserved(1'000)), b = d.Add(tenant, Reserved(0.2));
  const int r = d.Add(0, Reserved(10'000));
  d.Start({.group = a});  // alone at first, so that it is ahead of its reservation
  for (const int group : {b, r, q}) d.Start({.group = group, .start_ns = kSecond});
  d.RunUntil(1'050 * kMs);
  for (int i = 0; i < 60; ++i) {
    const double before = d.Served(a);
    EXPECT_NEAR(Rate(&d, r, 100 * kMs), 9'091, 200) << i;
    EXPECT_NEAR((d.Served(a) - before) * 10, 909, 100) << i;
  }
}

// While reservations do not fit, whoever came back from its own limit queued behind the lateness
// of all others each time, and got half of what its limit allows.
TEST(Regression, ALimitedGroupKeepsItsShareOfAnOverCommittedDevice) {
  for (const bool nested : {false, true}) {
    Driver d(Device(64, 4));
    const int parent = nested ? d.AddWeighted(0, 0) : 0;
    const int a = d.Add(parent, Reserved(9'000)), b = d.Add(0, Reserved(11'000));
    d.SetMax(a, Dimension::kNorm, Scope::kBoth, Ops(9'000));
    const int limited = d.Add(a, Reserved(9'000));
    ResourceParams params = d.Params(limited);
    params.MinOf(Dimension::kNorm) = 0;
    params.MaxOf(Dimension::kNorm, Scope::kBoth) = Ops(2'000);
    params.BurstOf(Dimension::kNorm, Scope::kBoth) = Ops(1);
    d.Set(limited, params);
    d.Start({.group = limited});
    d.Start({.group = b});
    d.RunUntil(kSecond);
    EXPECT_GE(Rate(&d, a, 4 * kSecond), 1'900) << nested;
  }
}

// A parent with due children was served by reservation after the clock had been held back and none
// of them was due any more; the turn went to a child that has no reservation and no claim.
TEST(Regression, ServiceByReservationGoesToWhoIsDue) {
  DriverOptions options = Device(32, 4);
  options.device.noise = 0.3;
  Driver d(options);
  const int tenant = d.Add(0, Reserved(12'400));
  const int other = d.AddWeighted(tenant, 1'000);
  const int parent = d.AddWeighted(tenant, 0);
  const int reserved = d.Add(parent, Reserved(4'900)), free_rider = d.AddWeighted(parent, 1);
  for (const int group : {other, reserved, free_rider}) d.Start({.group = group});
  d.RunUntil(kSecond);
  EXPECT_LE(Rate(&d, free_rider, 4 * kSecond), 5);
  EXPECT_NEAR(Rate(&d, reserved, 4 * kSecond), 3'952, 60);
}

// Requests in flight that turn out cheaper than charged gave a small reservation a lag of seconds;
// the clock was held back for it, and the reservations of all others stood still.
TEST(Regression, RefundsDoNotStopTheReservationsOfOthers) {
  DriverOptions options = Device(64, 64);  // all in flight complete at once
  options.cost_share = 0.5;
  Driver d(options);
  const int a = d.Add(0, Reserved(2'000)), b = d.Add(0, Reserved(1, 1'000));
  const int c = d.AddWeighted(0, 1'000);
  for (const int group : {a, b, c}) d.Start({.group = group});
  d.RunUntil(kSecond);
  for (int i = 0; i < 30; ++i) EXPECT_GE(Rate(&d, a, 100 * kMs), 1'800) << i;
}

// A group that moved away from a parent with a slower clock took its children's tags along, but not
// the clock they belong to: they looked seconds late, and the clock was held back for everybody.
TEST(Regression, AMovedGroupDoesNotStopTheReservationsOfOthers) {
  Driver d(Device(16, 4));
  const int a = d.Add(0, Reserved(4'000)), b = d.AddWeighted(0, 10'000);
  const int slow = d.AddWeighted(0, 1);
  d.SetMax(slow, Dimension::kNorm, Scope::kBoth, Ops(100));
  const int sibling = d.Add(slow, Reserved(2'000));
  const int moved = d.AddWeighted(slow, 1);
  const int child = d.Add(moved, Reserved(500));
  for (const int group : {a, b, sibling, child}) d.Start({.group = group});
  d.RunUntil(3 * kSecond);
  d.Move(moved, 0);
  for (int i = 0; i < 30; ++i) {
    const double before = d.Served(child);
    EXPECT_GE(Rate(&d, a, 100 * kMs), 3'900) << i;
    if (i != 0) {
      EXPECT_NEAR((d.Served(child) - before) * 10, 500, 50) << i;
    }
  }
}

// The hold bound shrank with each level, at the third below the credit of a group that wakes: each
// wake held the clock back, and a sibling of the same tenant lost up to two thirds of its MIN.
TEST(Regression, AGroupThatWakesOftenCostsItsSiblingsNothingAtAnyLevel) {
  for (int levels = 0; levels <= 4; ++levels) {
    Driver d(Device(8, 4));
    int parent = 0;
    for (int i = 0; i < levels; ++i) parent = d.Add(parent, Reserved(5'000));
    const int a = d.Add(parent, Reserved(2'000)), b = d.Add(parent, Reserved(2'000));
    const int w = d.AddWeighted(parent, 1'000), q = d.AddWeighted(0, 10'000);
    for (const int group : {a, w, q}) d.Start({.group = group});
    d.Start({.kind = Load::Kind::kClosed, .group = b, .outstanding = 2, .think_ns = 2 * kMs});
    d.RunUntil(kSecond);
    EXPECT_NEAR(Rate(&d, a, 2 * kSecond), 2'000, 20) << levels;
  }
}

// With many requests in the device, service by reservation comes in bursts that are longer than
// the weighted turns; a parent that only inherits its reservation got a tenth too much.
TEST(Regression, AnInheritedReservationCountsAgainstTheWeightedShareOnADeepDevice) {
  DriverOptions options = Device(1'346, 4);
  options.largest_cost = Ops(256);
  options.device.noise = 0.3;
  Driver d(options);
  const int a = d.AddWeighted(0, 2'014), b = d.AddWeighted(0, 643);
  d.Start({.group = d.Add(a, Reserved(5'226, 1'481)), .cost = Ops(5.5)});
  d.Start({.group = d.Add(a, Reserved(1'295, 374)), .cost = kOp / 8});
  d.Start({.group = d.AddWeighted(a, 5'465), .cost = Ops(142)});
  d.Start({.group = b, .cost = kOp / 8});
  d.RunUntil(5 * kSecond);
  EXPECT_NEAR(Rate(&d, a, 20 * kSecond), 10'000 * 2'014.0 / 2'657, 100);
}

}  // namespace
}  // namespace weir::property

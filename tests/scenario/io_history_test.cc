// Faults of other systems around what happened before, as scenarios. Goal: neither an hour alone
// nor an hour idle, neither a limit nor a reservation that is gone, decides what a group gets now.
// Method: virtual time, an earlier phase of 10 s, then what the first milliseconds give.

#include <gtest/gtest.h>

#include "rig.h"

namespace weir::sim {
namespace {

constexpr Duration kLong = seconds(10);

// Sleep gives no credit: a group that returns gets its share, not what it missed.
TEST(History, ALongPauseBuysNoBurst) {
  Rig rig(10'000, 8);
  const core::GroupId a = rig.Add(Set().Weight(100));
  const core::GroupId b = rig.Add(Set().Weight(100));
  rig.Saturate(a, 64);
  rig.Saturate(b, 64, 1, kLong);
  rig.Run(kLong + seconds(1));
  EXPECT_NEAR(rig.meter.Served(b, kLong, kLong + milliseconds(10)), 50, 12);
  EXPECT_GE(rig.meter.Least(a, milliseconds(100), kLong, kLong + seconds(1)), 485);
  EXPECT_GE(rig.meter.Least(b, milliseconds(100), kLong + milliseconds(10), kLong + seconds(1)),
            485);
}

// Having had the whole device costs nothing of the guarantee afterwards. 400 a 100 ms are promised;
// the bound is D + B * MIN + 4 requests = 16 + 4 + 4 less for the first of them, 396 were measured.
TEST(History, TimeAloneDoesNotCostTheReservation) {
  for (const int64_t weight : {0, 1, 100}) {
    Rig rig(10'000, 8);
    const core::GroupId reserved = rig.Add(Set().Weight(weight).Min(4'000));
    const core::GroupId rival = rig.Add(Set().Weight(10'000));
    rig.Saturate(reserved, 64);
    rig.Saturate(rival, 64, 1, kLong);
    rig.Run(kLong + seconds(2));
    EXPECT_GE(rig.meter.Served(reserved, kLong, kLong + milliseconds(100)), 376) << weight;
    EXPECT_GE(rig.meter.Least(reserved, seconds(1), kLong + milliseconds(100), kLong + seconds(2)),
              3'976)
        << weight;
  }
}

// Service by reservation may not pile up a weight debt that starves the owner once it is removed.
TEST(History, ARemovedReservationLeavesTheFairShare) {
  Rig rig(10'000, 8);
  const core::GroupId a = rig.Add(Set().Weight(100).Min(8'000));
  const core::GroupId b = rig.Add(Set().Weight(100));
  for (const core::GroupId group : {a, b}) rig.Saturate(group, 64);
  rig.world.At(kLong, [&] { rig.world.SetParams(a, Set().Weight(100)); });
  rig.Run(kLong + seconds(1));
  EXPECT_NEAR(rig.Rate(a, seconds(1), kLong), 8'000, 80);
  EXPECT_NEAR(rig.meter.Served(a, kLong, kLong + milliseconds(20)), 100, 25);
  EXPECT_NEAR(rig.Rate(a, kLong, kLong + seconds(1)), 5'000, 60);
}

// Nor may a group held back by its limit collect a claim to make up for it.
TEST(History, ARemovedLimitLeavesTheFairShare) {
  Rig rig(10'000, 8);
  const core::GroupId a = rig.Add(Set().Weight(100).Max(1'000));
  const core::GroupId b = rig.Add(Set().Weight(100));
  for (const core::GroupId group : {a, b}) rig.Saturate(group, 64);
  rig.world.At(kLong, [&] { rig.world.SetParams(a, Set().Weight(100)); });
  rig.Run(kLong + seconds(1));
  EXPECT_NEAR(rig.Rate(a, seconds(1), kLong), 1'000, 10);
  for (int k = 0; k < 3; ++k) {
    const Duration start = kLong + milliseconds(10 * k);
    EXPECT_NEAR(rig.meter.Served(a, start, start + milliseconds(10)), 50, 12) << k;
  }
  EXPECT_NEAR(rig.Rate(a, kLong, kLong + seconds(1)), 5'000, 60);
}

// Nor while it is the limit of the tenant above, for one direction: a group of writes that waits
// for that never wakes, and its neighbour's reads go on.
TEST(History, ARemovedLimitOnWritesAboveLeavesTheFairShare) {
  Rig rig(10'000, 8);
  const core::GroupId tenant = rig.Add(Set().Max(100, 1, Scope::kWrite));
  const core::GroupId writer = rig.Add(tenant, Set());
  const core::GroupId reader = rig.Add(tenant, Set());
  LoadSpec writes;
  writes.group = writer;
  writes.outstanding = 64;
  writes.write_share = 1;
  rig.world.AddLoad(writes);
  rig.Saturate(reader, 64);
  rig.world.At(kLong, [&] { rig.world.SetParams(tenant, Set()); });
  rig.Run(kLong + seconds(1));
  EXPECT_NEAR(rig.Rate(writer, seconds(1), kLong), 100, 2);
  EXPECT_NEAR(rig.meter.Served(writer, kLong, kLong + milliseconds(20)), 100, 25);
  EXPECT_NEAR(rig.Rate(reader, kLong, kLong + seconds(1)), 5'000, 60);
}

// When a reserved sibling goes idle, the other one has the rest of the tenant's share at once, also
// if the reservation was more than that share (the lead of the reserved one is bounded: 13 ms were
// measured).
TEST(History, AnIdleReservedSiblingLeavesNoGap) {
  for (const double min : {4'000.0, 8'000.0}) {
    Rig rig(10'000, 8);
    const core::GroupId tenant = rig.Add(Set().Weight(100));
    const core::GroupId reserved = rig.Add(tenant, Set().Weight(100).Min(min));
    const core::GroupId sibling = rig.Add(tenant, Set().Weight(100));
    const core::GroupId other = rig.Add(Set().Weight(100));
    rig.Saturate(reserved, 64, 1, Duration(0), kLong);
    for (const core::GroupId group : {sibling, other}) rig.Saturate(group, 64);
    rig.Run(kLong + seconds(1));
    EXPECT_GE(rig.Rate(reserved, seconds(1), kLong), 0.99 * min);
    const Duration from = kLong + milliseconds(min > 5'000 ? 150 : 40);
    for (const core::GroupId group : {sibling, other}) {
      EXPECT_NEAR(rig.meter.Served(group, from, from + milliseconds(100)), 500, 25) << min;
    }
  }
}

// Changes count from the next ten milliseconds on.
TEST(History, LiveChangesTakeEffectAtOnce) {
  Rig rig(10'000, 8);
  const core::GroupId a = rig.Add(Set().Weight(1));
  const core::GroupId b = rig.Add(Set().Weight(1'000));
  for (const core::GroupId group : {a, b}) rig.Saturate(group, 64);
  rig.world.At(seconds(2), [&] { rig.world.SetParams(a, Set().Weight(1).Min(4'000)); });
  rig.world.At(seconds(3), [&] { rig.world.SetParams(b, Set().Weight(1'000).Max(1'000, 1)); });
  rig.world.At(seconds(4), [&] {
    rig.world.SetParams(a, Set().Weight(1));
    rig.world.SetParams(b, Set().Weight(1'000));
  });
  rig.Run(seconds(5));
  // MIN 4,000: D - what was in flight before - less for the first window.
  EXPECT_GE(rig.meter.Served(a, seconds(2), seconds(2) + milliseconds(10)), 40 - 16);
  EXPECT_GE(rig.meter.Least(a, milliseconds(100), seconds(2) + milliseconds(10), seconds(3)), 376);
  // MAX 1,000: 10, the burst and one request.
  EXPECT_LE(rig.meter.Served(b, seconds(3), seconds(3) + milliseconds(10)), 12);
  EXPECT_GE(rig.meter.Served(b, seconds(3), seconds(3) + milliseconds(10)), 9);
  // Both gone: b has nearly all again.
  EXPECT_GE(rig.meter.Served(b, seconds(4), seconds(4) + milliseconds(10)), 80);
}

// A tenant at its MAX of 2,000 whose groups reserve 6,000: they scale, and the neighbour with a
// reservation of 8,000 does not notice.
TEST(History, ReservationsBeyondTheTenantsLimitStayInside) {
  Rig rig(10'000, 8);
  const core::GroupId tenant = rig.Add(Set().Weight(100).Max(2'000));
  const core::GroupId a = rig.Add(tenant, Set().Weight(1).Min(4'000));
  const core::GroupId b = rig.Add(tenant, Set().Weight(1).Min(2'000));
  const core::GroupId c = rig.Add(tenant, Set().Weight(100));
  const core::GroupId neighbour = rig.Add(Set().Weight(1).Min(8'000));
  for (const core::GroupId group : {a, b, c, neighbour}) rig.Saturate(group, 64);
  rig.Run(kLong);
  EXPECT_NEAR(rig.Rate(a, seconds(1), kLong), 1'333, 27);
  EXPECT_NEAR(rig.Rate(b, seconds(1), kLong), 667, 14);
  EXPECT_LE(rig.Rate(c, seconds(1), kLong), 20);
  EXPECT_NEAR(rig.Rate(neighbour, seconds(1), kLong), 8'000, 80);
}

// 1,000 groups of a small reservation that wake together do not push a large one aside.
TEST(History, ManySmallReservationsWakingDoNotDelayALargeOne) {
  Rig rig(10'000, 8);
  const core::GroupId large = rig.Add(Set().Weight(1).Min(4'000));
  rig.Saturate(large, 64);
  rig.Saturate(rig.Add(Set().Weight(1'000)), 64);
  std::vector<World::LoadId> small;
  for (int i = 0; i < 1'000; ++i) {
    LoadSpec load;
    load.group = rig.Add(Set().Weight(1).Min(5));
    load.outstanding = 0;
    small.push_back(rig.world.AddLoad(load));
  }
  for (int k = 0; k < 20; ++k) {
    rig.world.At(seconds(1) + milliseconds(200 * k), [&] {
      for (const World::LoadId load : small) rig.world.Issue(load);
    });
  }
  rig.Run(seconds(5));
  EXPECT_GE(rig.meter.Least(large, milliseconds(100), seconds(1), seconds(5)), 376);
}

// A light group cannot gain by sleeping and returning with bursts of large requests.
TEST(History, BurstsAfterSleepDoNotHurtAHighWeight) {
  Rig rig(10'000, 4, 8);
  const core::GroupId low = rig.Add(Set().Weight(100));
  const core::GroupId high = rig.Add(Set().Weight(1'000));
  LoadSpec bursts;
  bursts.group = low;
  bursts.outstanding = 0;
  bursts.cost = Ops(4);
  const World::LoadId id = rig.world.AddLoad(bursts);
  for (int k = 0; k < 80; ++k)
    rig.world.At(milliseconds(125 * k), [&] { rig.world.Issue(id, 50); });
  LoadSpec steady;
  steady.group = high;
  steady.rate = 1'000;
  steady.cost = Ops(0.5);
  rig.world.AddLoad(steady);
  rig.Run(kLong);
  EXPECT_LE(rig.meter.Latency(high).Quantile(0.99), microseconds(2'500));
}

// The device stands still for 100 of every 500 ms: the reserved tenant waits for that, no longer,
// and loses nothing of its rate.
TEST(History, AStallIsNotHeldAgainstAnybody) {
  WorldOptions options = FixedDepthWorld(10'000, 8, 16);
  options.device.stall_every = milliseconds(500);
  options.device.stall_for = milliseconds(100);
  Rig rig(options);
  const core::GroupId heavy = rig.Add(Set().Weight(100));
  const core::GroupId reserved = rig.Add(Set().Weight(100).Min(300));
  rig.Saturate(heavy, 128, 4);
  LoadSpec load;
  load.group = reserved;
  load.rate = 200;
  rig.world.AddLoad(load);
  rig.Run(kLong);
  EXPECT_GE(rig.Rate(reserved, seconds(1), kLong), 188);
  EXPECT_LE(rig.meter.Latency(reserved).Quantile(0.99), milliseconds(125));
}

}  // namespace
}  // namespace weir::sim

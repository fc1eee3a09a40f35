// Faults of other systems around reservations and weights, as scenarios. Goal: a MIN holds whatever
// the neighbours do, and what is left goes by weight. Method: virtual time, numbers of the fault
// reports; where the attainable bound is known to be lower, docs/scheduler.md has the reason.

#include <gtest/gtest.h>

#include "catalog/config.h"
#include "rig.h"

namespace weir::sim {
namespace {

// A client that thinks between requests lost its reservation to an aggressive one, since it had no
// request waiting at the moment it was due.
// With one request outstanding 800/s cannot be had at all: think time, service and one request of
// the neighbour already take longer than 1.25 ms. It takes two.
TEST(Reservations, HoldForABurstyClient) {
  Rig rig(1'000, 1, 1);
  const core::GroupId bursty = rig.Add(Set().Weight(1).Min(800));
  const core::GroupId greedy = rig.Add(Set().Weight(100));
  LoadSpec load;
  load.group = bursty;
  load.outstanding = 2;
  load.think = microseconds(750);
  load.think_spread = 1.0 / 3;  // 0.5 to 1 ms
  rig.world.AddLoad(load);
  rig.Saturate(greedy, 32);
  rig.Run(seconds(20));
  for (int s = 1; s < 20; ++s) {
    EXPECT_GE(rig.Rate(bursty, seconds(s), seconds(s + 1)), 792) << "second " << s;
  }
  EXPECT_GE(rig.Rate(greedy, seconds(1), seconds(20)), 150);  // and the rest is not wasted
}

// 100 units a second for requests of 5 units are 20 requests a second.
TEST(Reservations, AreInUnitsNotInRequests) {
  Rig rig(1'000, 4);
  const core::GroupId reserved = rig.Add(Set().Weight(1).Min(100));
  rig.Saturate(reserved, 8, 5);
  rig.Saturate(rig.Add(Set().Weight(100)), 32);
  rig.Run(seconds(21));
  EXPECT_NEAR(rig.Rate(reserved, seconds(1), seconds(21)) / 5, 20, 0.3);
}

TEST(Weights, LargeWeightsAreExact) {
  Rig rig(1'000, 4);
  const core::GroupId a = rig.Add(Set().Weight(10'000));
  const core::GroupId b = rig.Add(Set().Weight(20'000));
  for (const core::GroupId group : {a, b}) rig.Saturate(group, 32, 0.25);  // 4 KiB
  rig.Run(seconds(11));
  const double ratio =
      rig.meter.Served(b, seconds(1), seconds(11)) / rig.meter.Served(a, seconds(1), seconds(11));
  EXPECT_NEAR(ratio, 2, 0.02);
}

TEST(Weights, OneToTenThousandIsExact) {
  Rig rig(10'000, 4);
  const core::GroupId a = rig.Add(Set().Weight(1));
  const core::GroupId b = rig.Add(Set().Weight(10'000));
  rig.Saturate(a, 64, 1.0 / 32);  // 512 bytes
  rig.Saturate(b, 1'500, 1.0 / 32);
  rig.Run(seconds(21));
  const double light = rig.meter.Served(a, seconds(1), seconds(21));
  const double heavy = rig.meter.Served(b, seconds(1), seconds(21));
  // Some 640 requests of the light one; a step of the heavy one rounded to a whole number would
  // give 10,034.
  EXPECT_NEAR(heavy / light, 10'000, 20);
}

// Weight 0 is its reservation, then only what all others leave. It must not divide by zero either.
TEST(Weights, ZeroGetsWhatOthersLeave) {
  Rig rig(1'000, 4);
  const core::GroupId a = rig.Add(Set().Weight(50));
  const core::GroupId b = rig.Add(Set().Weight(25));
  const core::GroupId zero = rig.Add(Set().Weight(0));
  for (const core::GroupId group : {a, b}) rig.Saturate(group, 32, 1, Duration(0), seconds(5));
  rig.Saturate(zero, 32);
  rig.Run(seconds(10));
  EXPECT_EQ(rig.meter.Served(zero, milliseconds(10), seconds(5)), 0);
  EXPECT_NEAR(
      rig.meter.Served(a, seconds(1), seconds(5)) / rig.meter.Served(b, seconds(1), seconds(5)), 2,
      0.02);
  EXPECT_NEAR(rig.Rate(zero, seconds(6), seconds(10)), 1'000, 5);
}

TEST(Weights, ZeroKeepsItsReservation) {
  Rig rig(1'000, 4);
  const core::GroupId zero = rig.Add(Set().Weight(0).Min(100));
  rig.Saturate(zero, 32);
  rig.Saturate(rig.Add(Set().Weight(50)), 32);
  rig.Run(seconds(10));
  EXPECT_NEAR(rig.Rate(zero, seconds(1), seconds(10)), 100, 1);
}

// Several groups of weight 0 share what is left alike.
TEST(Weights, ZerosShareTheLeftover) {
  Rig rig(1'000, 4);
  const core::GroupId a = rig.Add(Set().Weight(0));
  const core::GroupId b = rig.Add(Set().Weight(0));
  const core::GroupId limited = rig.Add(Set().Weight(10).Max(400));
  for (const core::GroupId group : {a, b, limited}) rig.Saturate(group, 32);
  rig.Run(seconds(11));
  EXPECT_NEAR(rig.Rate(limited, seconds(1), seconds(11)), 400, 4);
  EXPECT_NEAR(rig.Rate(a, seconds(1), seconds(11)), 300, 5);
  EXPECT_NEAR(rig.Rate(b, seconds(1), seconds(11)), 300, 5);
}

// MIN 8000 + 8000 on a device of 10,000: each gets in proportion to its MIN; who has none, nothing.
TEST(OverCommit, ScalesByMin) {
  Rig rig(10'000, 8);
  const core::GroupId a = rig.Add(Set().Weight(1).Min(8'000));
  const core::GroupId b = rig.Add(Set().Weight(1).Min(8'000));
  const core::GroupId none = rig.Add(Set().Weight(100));
  for (const core::GroupId group : {a, b, none}) rig.Saturate(group, 32);
  rig.Run(seconds(10));
  EXPECT_NEAR(rig.Rate(a, seconds(1), seconds(10)), 5'000, 50);
  EXPECT_NEAR(rig.Rate(b, seconds(1), seconds(10)), 5'000, 50);
  EXPECT_LE(rig.Rate(none, seconds(1), seconds(10)), 20);
}

TEST(OverCommit, ScalesUnequalMinsInProportion) {
  Rig rig(10'000, 8);
  const core::GroupId a = rig.Add(Set().Weight(1'000).Min(12'000));
  const core::GroupId b = rig.Add(Set().Weight(1).Min(4'000));
  for (const core::GroupId group : {a, b}) rig.Saturate(group, 32);
  rig.Run(seconds(10));
  EXPECT_NEAR(rig.Rate(a, seconds(1), seconds(10)), 7'500, 75);
  EXPECT_NEAR(rig.Rate(b, seconds(1), seconds(10)), 2'500, 25);
}

// Weight-only neighbours used to starve for as long as the over-commit had lasted.
TEST(OverCommit, IsForgottenWhenItEnds) {
  Rig rig(10'000, 8);
  const core::GroupId a = rig.Add(Set().Weight(1).Min(8'000));
  const core::GroupId b = rig.Add(Set().Weight(1).Min(8'000));
  const core::GroupId weighted = rig.Add(Set().Weight(100));
  rig.Saturate(a, 32, 1, Duration(0), seconds(5));
  rig.Saturate(b, 32);
  rig.Saturate(weighted, 32);
  rig.Run(seconds(8));
  // G * sum(MIN) / (C - sum(MIN)) with G = 4 (D + H + c) / C = 7.6 ms is 30 ms; then it has its
  // part of every 100 ms.
  EXPECT_GE(
      rig.meter.Served(weighted, seconds(5) + milliseconds(60), seconds(5) + milliseconds(160)),
      190);
  EXPECT_GE(rig.meter.Least(weighted, milliseconds(100), seconds(5) + milliseconds(60), seconds(8)),
            190);
}

TEST(OverCommit, IsWarnedAbout) {
  constexpr const char* kConfig = R"(
    [[unit]]
    name = "a"
    min_iops = 8000
    [[unit]]
    name = "b"
    min_iops = 8000
  )";
  const Result<catalog::Config> config = catalog::ParseConfig(kConfig, "weir.toml");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  std::vector<std::string> warnings;
  ASSERT_TRUE(catalog::Resolve(*config, "", Ops(10'000), &warnings).has_value());
  ASSERT_FALSE(warnings.empty());
  EXPECT_NE(warnings[0].find("16,000"), std::string::npos) << warnings[0];
  warnings.clear();
  ASSERT_TRUE(catalog::Resolve(*config, "", Ops(20'000), &warnings).has_value());
  EXPECT_TRUE(warnings.empty());
}

// A light client of a heavy weight beside a bulk load never queued for long, on any core; here one
// scheduler owns the whole device.
TEST(Weights, LightLoadOfAHighWeightDoesNotQueue) {
  Rig rig(70'000, 7);
  const core::GroupId light = rig.Add(Set().Weight(1'000));
  const core::GroupId bulk = rig.Add(Set().Weight(200));
  LoadSpec load;
  load.group = light;
  load.rate = 9'000;
  rig.world.AddLoad(load);
  rig.Saturate(bulk, 512);
  Duration longest{0};
  rig.world.OnDispatch([&](const core::Request& request) {
    if (request.group == light)
      longest = std::max(longest, request.dispatched_at - request.enqueued_at);
  });
  rig.Run(seconds(10));
  EXPECT_LT(longest, milliseconds(1));
  EXPECT_NEAR(rig.Rate(light, seconds(0), seconds(10)), 9'000, 200);
  EXPECT_NEAR(rig.Rate(bulk, seconds(0), seconds(10)), 61'000, 700);
}

// A group with 1 % of the weight was forced to write 100 MB of metadata. Once all others idle it
// has the whole device, and pays at that share, not at 1 %.
TEST(Weights, DebtIsRepaidAtTheShareOfTheDay) {
  constexpr int kForced = 6'400;  // of 16 KiB: 100 MiB, 640 ms of the device
  Rig rig(10'000, 8);
  const core::GroupId small = rig.Add(Set().Weight(1));
  const core::GroupId large = rig.Add(Set().Weight(99));
  rig.Saturate(large, 64, 1, Duration(0), seconds(2));
  rig.Saturate(small, 8, 1, seconds(1));
  rig.world.At(seconds(1), [&] {
    core::Request forced;
    forced.group = small;
    forced.bytes = 16'384;
    for (int i = 0; i < kForced; ++i) {
      core::Request* request = rig.world.Submit(forced);
      ASSERT_TRUE(rig.world.scheduler().Expedite(request, rig.world.now()));
    }
  });
  rig.Run(seconds(4));
  EXPECT_GE(rig.meter.Served(small, seconds(1), seconds(2)), kForced);
  // From when the last queued requests of the other one are done.
  EXPECT_GE(rig.meter.Served(small, milliseconds(2'010), milliseconds(2'110)), 990);
}

}  // namespace
}  // namespace weir::sim

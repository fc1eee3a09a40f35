// Faults of other systems around limits, as scenarios. Goal: a MAX holds in every window, is
// reached, means what it says and never sticks. Method: virtual time, numbers of the fault reports.

#include <gtest/gtest.h>

#include <cmath>

#include "rig.h"
#include "scenario/sample.h"

namespace weir::sim {
namespace {

// A limit of 30/s with room for one request let through more than 61 in two seconds.
TEST(Limits, NoWindowOvershoots) {
  Rig rig(80, 1);
  const core::GroupId leaf = rig.Add(Set().Max(30, 1));
  LoadSpec demand;
  demand.group = leaf;
  demand.rate = 100;
  rig.world.AddLoad(demand);
  rig.Run(seconds(30));
  for (int k = 0; k < 15; ++k) {
    EXPECT_LE(rig.meter.Served(leaf, seconds(2 * k), seconds(2 * k + 2)), 61) << "bucket " << k;
  }
  // Any window, not only those that start at even seconds: rate * W + burst + one request.
  EXPECT_LE(rig.meter.Most(leaf, seconds(2), seconds(0), seconds(30)), 62);
  EXPECT_NEAR(rig.Rate(leaf, seconds(0), seconds(30)), 30, 0.15);
}

// Every connection brought its own limit along.
TEST(Limits, AreNotMultipliedByConnections) {
  Rig rig(10'000, 8);
  const core::GroupId group = rig.Add(Set().Max(1'000));
  for (int i = 0; i < 100; ++i) rig.Saturate(group, 1);
  rig.Saturate(rig.Add(Set()), 32);
  rig.Run(seconds(10));
  EXPECT_NEAR(rig.Rate(group, seconds(0), seconds(10)), 1'000, 5);
  EXPECT_LE(rig.meter.Most(group, seconds(1), seconds(1), seconds(10)), 1'000 + 10 + 1);
}

// MAX 250 is in units of 16 KiB: 64 KiB reads run at a quarter of it, and the counters say why.
TEST(Limits, CountNormalisedOperationsAndSayWhatBlocks) {
  Rig rig(1'000, 4);
  const core::GroupId group = rig.Add(Set().Max(250, 1));
  rig.Saturate(group, 32, 4);
  core::GroupStats before;
  rig.world.At(seconds(1), [&] { before = rig.world.Stats(group); });
  core::Request probe;
  probe.group = group;
  probe.cost = Ops(4);
  probe.bytes = 65536;
  rig.world.At(seconds(10), [&] {
    const core::Request* waiting = rig.world.Submit(probe);
    const core::Explanation why = rig.world.scheduler().Explain(*waiting, rig.world.now());
    EXPECT_EQ(why.why, core::Explanation::Why::kLimit);
    EXPECT_EQ(why.node, group);
    EXPECT_EQ(why.dimension, Dimension::kNorm);
    EXPECT_EQ(why.scope, Scope::kBoth);
  });
  rig.Run(seconds(11));
  const scenario::GroupSample sample = scenario::SampleOf(before, rig.world.Stats(group), 10);
  EXPECT_NEAR(sample.norm_iops, 250, 250 * 0.005);
  EXPECT_NEAR(sample.raw_iops, 62.5, 62.5 * 0.005);
  EXPECT_NEAR(sample.bytes_per_s, 250 * 16384, 250 * 16384 * 0.005);
  EXPECT_EQ(sample.blocked_by, "MAX_IOPS(norm)");
  EXPECT_GT(sample.blocked_share, 0.9);
}

TEST(Limits, CountRawOperationsWhereThatIsAsked) {
  Rig rig(2'000, 4);
  const core::GroupId group = rig.Add(Set().MaxRaw(250, 1));
  rig.Saturate(group, 32, 4);
  rig.Run(seconds(11));
  EXPECT_NEAR(rig.Rate(group, seconds(1), seconds(11)) / 4, 250, 1.25);
  const scenario::GroupSample sample =
      scenario::SampleOf(core::GroupStats{}, rig.world.Stats(group), 11);
  EXPECT_EQ(sample.blocked_by, "MAX_IOPS(raw)");
}

// A request larger than the bucket was never served, or waited for ever.
TEST(Limits, ARequestLargerThanTheBucketIsServedAndItsDebtPaid) {
  Rig rig(10'000, 4);
  const core::GroupId group = rig.Add(Set().MaxBytes(400 * 1024, 4096));
  std::vector<TimePoint> served;
  rig.world.OnDispatch([&](const core::Request&) { served.push_back(rig.world.now()); });
  rig.Saturate(group, 1, 64);  // 1 MiB
  rig.Run(seconds(12));
  ASSERT_EQ(served.size(), 5u);
  EXPECT_EQ(served[0], TimePoint{});
  // The first one leaves 1 MiB - 4 KiB of debt; the next ones pay for 1 MiB each.
  EXPECT_NEAR(ToSeconds(served[1] - served[0]), 2.55, 0.001);
  for (size_t i = 2; i < served.size(); ++i) {
    EXPECT_NEAR(ToSeconds(served[i] - served[i - 1]), 2.56, 0.001);
  }
}

// 4,095 bytes a millisecond against requests of 4,096: with refills rounded to whole milliseconds
// the second never came, or came late.
TEST(Limits, RefillIsExactBelowAMillisecond) {
  Rig rig(1'000'000, 4);
  const core::GroupId group = rig.Add(Set().MaxBytes(4'095'000, 0));
  std::vector<int64_t> served;
  rig.world.OnDispatch([&](const core::Request&) { served.push_back(ToNanos(rig.world.now())); });
  rig.Saturate(group, 8, 0.25);
  rig.Run(seconds(10));
  ASSERT_GT(served.size(), 9'990u);
  for (size_t i = 1; i < served.size(); ++i) {
    const double ideal = static_cast<double>(i) * 4096e9 / 4'095'000;
    ASSERT_NEAR(static_cast<double>(served[i] - served[0]), ideal, 2'000) << "request " << i;
  }
}

// MAX 1500 became 10,000, or 1,000.
TEST(Limits, AreNotRounded) {
  for (const double rate : {1.0, 3.7, 1'500.0, 1'501.0, 99'999.0}) {
    Rig rig(200'000, 32);
    const core::GroupId group = rig.Add(Set().Max(rate, 1));
    rig.Saturate(group, 64);
    const Duration end = rate < 10 ? seconds(400) : seconds(5);
    rig.Run(end);
    const double got = rig.meter.Served(group, Duration(0), end) - 1;  // less the burst
    EXPECT_NEAR(got / ToSeconds(end) / rate, 1, 0.005) << rate;
  }
}

// Sequential requests of 4 KiB arrive merged to 128 KiB: as one operation they would escape a limit
// on IOPS.
TEST(Limits, MergedRequestsAreChargedForWhatTheyHold) {
  constexpr int kMerged = 32;
  const auto merged = [](Random*, core::Request* request) {
    request->cost = Ops(8);
    request->raw = kMerged * kOp;
    request->bytes = kMerged * 4096;
  };
  Rig rig(10'000, 8);
  const core::GroupId by_norm = rig.Add(Set().Max(1'000));
  const core::GroupId by_raw = rig.Add(Set().MaxRaw(1'000));
  for (const core::GroupId group : {by_norm, by_raw}) {
    LoadSpec load;
    load.group = group;
    load.outstanding = 16;
    load.shape = merged;
    rig.world.AddLoad(load);
  }
  rig.Run(seconds(20));
  // 1,000 units of 16 KiB a second, within the burst of 10 ms and one request.
  EXPECT_NEAR(rig.meter.Served(by_norm, seconds(0), seconds(20)), 20'000, 10 + 8 + 8);
  const core::GroupStats norm = rig.world.Stats(by_norm);
  const core::GroupStats raw = rig.world.Stats(by_raw);
  EXPECT_LE(norm.served[2][0], 20 * 1'000 * 16'384 + 18 * 16'384);
  EXPECT_NEAR(static_cast<double>(raw.served[1][0]) / kOp, 20'000, 2 * kMerged + 10);
  // What was merged shows: raw operations for each request that the device saw.
  EXPECT_EQ(norm.served[1][0] / kOp, kMerged * static_cast<int64_t>(norm.requests));
}

// A limit far below the device's rate and one client: no waiting for a batch of tokens.
TEST(Limits, ALimitThatDoesNotBindCostsNothingAtDepthOne) {
  const auto run = [](const ResourceParams& params) {
    Rig rig(10'000, 8);
    const core::GroupId group = rig.Add(params);
    rig.Saturate(group, 1);
    rig.Run(seconds(5));
    return rig.Rate(group, seconds(0), seconds(5));
  };
  const double raw = run(Set());
  EXPECT_NEAR(raw, 1'250, 1);
  EXPECT_GE(run(Set().Max(5'000)), 0.98 * raw);
  EXPECT_GE(run(Set().Max(1'300, 1)), 0.98 * raw);
}

// A child at its own limit lost its turns to its siblings for good.
TEST(Limits, ALimitedChildIsNotStarved) {
  Rig rig(9'000, 8);
  const core::GroupId t1 = rig.Add(Set().Weight(100).Max(2'000));
  const core::GroupId t2 = rig.Add(Set().Weight(200));
  const core::GroupId g1 = rig.Add(t2, Set().Weight(100).Max(2'000));
  const core::GroupId g2 = rig.Add(t2, Set().Weight(100));
  for (const core::GroupId group : {t1, g1, g2}) rig.Saturate(group, 64);
  rig.Run(seconds(5));
  EXPECT_NEAR(rig.Rate(t1, seconds(1), seconds(5)), 2'000, 20);
  EXPECT_NEAR(rig.Rate(g1, seconds(1), seconds(5)), 2'000, 20);
  EXPECT_NEAR(rig.Rate(g2, seconds(1), seconds(5)), 5'000, 50);
}

// One limit over several groups is split by their weights.
TEST(Limits, ASharedLimitIsSplitByWeight) {
  Rig rig(9'000, 8);
  const core::GroupId shared = rig.Add(Set().Weight(100).Max(3'000));
  const core::GroupId light = rig.Add(shared, Set().Weight(100));
  const core::GroupId heavy = rig.Add(shared, Set().Weight(200));
  const core::GroupId other = rig.Add(Set().Weight(100));
  for (const core::GroupId group : {light, heavy, other}) rig.Saturate(group, 64);
  rig.Run(seconds(5));
  EXPECT_NEAR(rig.Rate(light, seconds(1), seconds(5)), 1'000, 10);
  EXPECT_NEAR(rig.Rate(heavy, seconds(1), seconds(5)), 2'000, 20);
  EXPECT_NEAR(rig.Rate(other, seconds(1), seconds(5)), 6'000, 60);
}

// Reads and writes with one limit for both: reads go first. With two limits each keeps its own.
TEST(Limits, CombinedAndSeparateReadAndWriteLimits) {
  const auto run = [](const ResourceParams& params, double* reads, double* writes) {
    Rig rig(10'000, 8);
    const core::GroupId group = rig.Add(params);
    for (const double write_share : {0.0, 1.0}) {
      LoadSpec load;
      load.group = group;
      load.outstanding = 32;
      load.write_share = write_share;
      rig.world.AddLoad(load);
    }
    rig.Run(seconds(10));
    const core::GroupStats stats = rig.world.Stats(group);
    *reads = static_cast<double>(stats.served[0][0]) / kOp / 10;
    *writes = static_cast<double>(stats.served[0][1]) / kOp / 10;
  };
  double reads = 0;
  double writes = 0;
  run(Set().Max(1'000), &reads, &writes);
  EXPECT_NEAR(reads + writes, 1'000, 5);
  // Writes that have waited for 5 ms get every second turn at most; here all have.
  EXPECT_GE(reads, 0.98 * writes);
  EXPECT_GE(writes, 0.9 * reads);
  run(Set().Max(300, -1, Scope::kRead).Max(700, -1, Scope::kWrite), &reads, &writes);
  EXPECT_NEAR(reads, 300, 3);
  EXPECT_NEAR(writes, 700, 7);
  run(Set().Max(300, -1, Scope::kRead), &reads, &writes);
  EXPECT_NEAR(reads, 300, 3);
  EXPECT_GT(writes, 9'000);
}

// A limit below a cache, in units of its own, looked wrong from above it: the counters of both
// levels, in all three dimensions, explain the ratio.
TEST(Limits, CountersOfBothLevelsExplainTheRatio) {
  Rig rig(10'000, 8);
  const core::GroupId unit = rig.Add(Set().Max(1'000));
  const core::GroupId small = rig.Add(unit, Set());
  const core::GroupId large = rig.Add(unit, Set());
  rig.Saturate(small, 32, 0.5);  // 8 KiB
  rig.Saturate(large, 32, 4);    // 64 KiB
  rig.Run(seconds(10));
  const core::GroupStats whole = rig.world.Stats(unit);
  const core::GroupStats a = rig.world.Stats(small);
  const core::GroupStats b = rig.world.Stats(large);
  for (size_t k = 0; k < kDimensions; ++k) {
    EXPECT_EQ(whole.served[k][0], a.served[k][0] + b.served[k][0]);
  }
  EXPECT_NEAR(static_cast<double>(whole.served[0][0]) / kOp, 10'000, 30);
  EXPECT_NEAR(static_cast<double>(a.served[0][0]) / static_cast<double>(a.served[1][0]), 0.5, 1e-9);
  EXPECT_NEAR(static_cast<double>(b.served[0][0]) / static_cast<double>(b.served[1][0]), 4, 1e-9);
  EXPECT_GT(whole.blocked_ns[0][2], 8'000'000'000);
  EXPECT_EQ(a.blocked_ns[0][2] + b.blocked_ns[0][2], 0);  // not by a limit of their own
}

}  // namespace
}  // namespace weir::sim

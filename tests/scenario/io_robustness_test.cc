// Faults of other systems around changes, completions, deadlines and dependencies, as scenarios.
// Method: virtual time, numbers of the fault reports.

#include <gtest/gtest.h>

#include <algorithm>

#include "rig.h"

namespace weir::sim {
namespace {

// A second change was refused, lost, or leaked.
TEST(LiveChanges, AThousandInASecondAllCountAndTheLastOneWins) {
  constexpr int kLeaves = 300;
  Rig rig(10'000, 4);
  std::vector<core::GroupId> leaves;
  std::vector<ResourceParams> last;
  std::vector<World::LoadId> loads;
  for (int i = 0; i < kLeaves; ++i) {
    leaves.push_back(rig.Add(Set()));
    last.push_back(Set());
    loads.push_back(rig.Saturate(leaves.back(), 4));
  }
  for (int k = 0; k < 1'000; ++k) {
    rig.world.At(seconds(1) + milliseconds(k), [&] {
      Random& random = rig.world.random();
      const auto i = static_cast<size_t>(random.Range(0, kLeaves - 1));
      last[i] = Set()
                    .Weight(random.Range(1, 1'000))
                    .Min(static_cast<double>(random.Range(0, 19)))
                    .Max(static_cast<double>(random.Range(30, 129)), 1);
      const Result<void> set = rig.world.scheduler().SetParams(leaves[i], last[i], rig.world.now());
      ASSERT_TRUE(set.has_value()) << set.error().message;
    });
  }
  rig.Run(seconds(2));
  rig.world.scheduler().CheckStructure(rig.world.now());
  rig.Run(seconds(3));
  EXPECT_GE(rig.Rate(rig.world.scheduler().root(), seconds(2), seconds(3)), 9'900);
  for (size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_EQ(rig.world.Params(leaves[i]), last[i]);
    const int64_t max = last[i].MaxOf(Dimension::kNorm, Scope::kBoth);
    if (max == kUnlimited) continue;
    EXPECT_LE(rig.Rate(leaves[i], seconds(2), seconds(3)), static_cast<double>(max) / kOp + 2);
  }
  // Nothing is left behind once the loads have stopped.
  for (const World::LoadId load : loads) rig.world.StopLoad(load);
  rig.Run(seconds(60));
  EXPECT_EQ(rig.world.scheduler().requests_in_flight(), 0u);
  EXPECT_EQ(rig.world.scheduler().cost_in_flight(), 0);
  const core::GroupStats stats = rig.world.Stats(rig.world.scheduler().root());
  EXPECT_EQ(stats.requests, stats.completed);
  EXPECT_EQ(stats.queued[0] + stats.queued[1], 0u);
}

// A thread that reaps completions late made the device look slow, and the depth collapsed.
TEST(Depth, ALateReaperIsNotASlowDevice) {
  WorldOptions options = FixedDepthWorld(10'000, 8);
  options.scheduler.depth = core::DepthOptions{};  // automatic
  options.reaper_period = milliseconds(10);
  options.reaper_away = milliseconds(5);
  Rig rig(options);
  const core::GroupId group = rig.Add(Set());
  rig.Saturate(group, 1'000);
  rig.Run(seconds(40));
  EXPECT_GE(rig.Rate(group, seconds(20), seconds(40)), 0.95 * 10'000);
  EXPECT_GE(rig.world.scheduler().depth(), 8 * kOp);
}

// Small and large requests together, on a device that needs many operations in flight to be full:
// the bound must leave room for the largest request beside others, and must be found in seconds.
TEST(Depth, HasRoomForOneRequestOfEveryClass) {
  WorldOptions options = FixedDepthWorld(10'000, 8);
  options.scheduler.depth = core::DepthOptions{};  // automatic
  Rig rig(options);
  const core::GroupId group = rig.Add(Set());
  LoadSpec load;
  load.group = group;
  load.outstanding = 128;
  load.shape = [](Random* random, core::Request* request) {
    const double x = random->Uniform();
    request->cost = Ops(x < 0.7 ? 0.5 : x < 0.9 ? 1 : 16);  // 4, 16 and 256 KiB
  };
  rig.world.AddLoad(load);
  int64_t smallest = INT64_MAX;
  rig.world.OnIdle([&] {
    if (rig.world.elapsed() > seconds(1)) {
      smallest = std::min(smallest, rig.world.scheduler().depth());
    }
  });
  rig.Run(seconds(10));
  EXPECT_GE(smallest, Ops(16));
  EXPECT_GE(rig.Rate(group, seconds(5), seconds(10)), 9'000);
}

// A calibration that is wrong by orders of magnitude (the device helper refuses what is
// implausible; this is what passes) strangled the device.
TEST(Depth, AWrongCapacityDoesNotStrangleTheDevice) {
  for (const double told : {2.0, 1'000.0, 10'000'000.0}) {
    WorldOptions options = FixedDepthWorld(10'000, 8);
    options.scheduler.capacity_per_s = Ops(told);
    Rig rig(options);
    const core::GroupId a = rig.Add(Set().Weight(100));
    const core::GroupId b = rig.Add(Set().Weight(200));
    const core::GroupId reserved = rig.Add(Set().Weight(1).Min(2'000));
    for (const core::GroupId group : {a, b, reserved}) rig.Saturate(group, 64);
    rig.Run(seconds(6));
    const double total = rig.Rate(rig.world.scheduler().root(), seconds(1), seconds(6));
    EXPECT_GE(total, 9'900) << told;
    EXPECT_GE(rig.Rate(reserved, seconds(1), seconds(6)), 1'980) << told;
    EXPECT_NEAR(rig.Rate(b, seconds(1), seconds(6)) / rig.Rate(a, seconds(1), seconds(6)), 2, 0.05)
        << told;
  }
}

// 64 of 80 MiB/s while every write turns out up to 30 % dearer or cheaper than it was charged: if
// only what is dearer is deducted, the limit ends far below the target.
TEST(Feedback, CorrectsChargesBothWays) {
  struct Case {
    const char* name;
    double low, high;  // true cost over charged cost
  };
  for (const Case& c : {Case{"noise", 0.7, 1.3}, Case{"always dearer", 1.3, 1.3},
                        Case{"always cheaper", 0.7, 0.7}}) {
    WorldOptions options = FixedDepthWorld(5'120, 8, 64);  // of 16 KiB: 80 MiB/s
    options.report_actual_cost = true;
    Rig rig(options);
    const core::GroupId group = rig.Add(Set().Max(4'096));
    int64_t device_work = 0;
    rig.world.true_cost = [&](const core::Request& request, Random* random) {
      const double factor = c.low + (c.high - c.low) * random->Uniform();
      const auto cost = static_cast<int64_t>(static_cast<double>(request.cost) * factor);
      device_work += cost;
      return cost;
    };
    LoadSpec load;
    load.group = group;
    load.outstanding = 64;
    load.cost = Ops(4);
    load.write_share = 1;
    rig.world.AddLoad(load);
    rig.Run(seconds(20));
    const double bytes_per_s = static_cast<double>(device_work) / kOp * 16'384 / 20;
    EXPECT_NEAR(bytes_per_s / (64 << 20), 1, 0.03) << c.name;
    // The counters hold what the device really did, but for what is in flight.
    const int64_t counted = rig.world.Stats(group).served[0][1];
    EXPECT_NEAR(static_cast<double>(counted) / static_cast<double>(device_work), 1, 0.001)
        << c.name;
  }
}

// Tenant A, held to 31 IOPS, holds the journal that B's fsync needs. Waiting behind A's limit, B
// took seconds. Let pass, B is as fast as alone, and A pays its debt later.
TEST(Dependencies, AnFsyncDoesNotWaitForTheLimitOfTheJournalHolder) {
  const auto run = [](bool with_tenant_a, core::GroupStats* a_stats, double* a_seconds) {
    Rig rig(10'000, 8);
    const core::GroupId a = rig.Add(Set().Max(31, 1));
    const core::GroupId b = rig.Add(Set());
    const core::GroupId journal_of = with_tenant_a ? a : b;
    if (with_tenant_a) rig.Saturate(a, 64);
    // B: every 100 ms an fsync: a journal write in A's name, then a write of its own.
    FineHistogram fsync;
    TimePoint started;
    const core::Request* journal = nullptr;
    const core::Request* own = nullptr;
    core::Request write;
    write.direction = Direction::kWrite;
    write.sync = true;
    write.bytes = 16'384;
    for (int k = 0; k < 100; ++k) {
      rig.world.At(milliseconds(100 * k + 50), [&] {
        started = rig.world.now();
        write.group = journal_of;
        core::Request* request = rig.world.Submit(write);
        journal = request;
        if (with_tenant_a) {
          EXPECT_TRUE(rig.world.scheduler().Expedite(request, rig.world.now()));
        }
      });
    }
    rig.world.OnComplete([&](const core::Request& request) {
      if (&request == journal) {
        journal = nullptr;
        write.group = b;
        own = rig.world.Submit(write);
      } else if (&request == own) {
        own = nullptr;
        fsync.Record(rig.world.now() - started);
      }
    });
    rig.Run(seconds(12));
    EXPECT_EQ(fsync.count(), 100u);
    *a_stats = rig.world.Stats(a);
    *a_seconds = 12;
    return fsync.Quantile(0.99);
  };
  core::GroupStats a;
  double elapsed = 0;
  const Duration alone = run(false, &a, &elapsed);
  const Duration beside = run(true, &a, &elapsed);
  EXPECT_LE(beside, 2 * alone);
  // Journal writes and own reads together stay within A's limit: burst, one request, and what was
  // let pass ahead of its time.
  const double served = static_cast<double>(a.served[0][0] + a.served[0][1]) / kOp;
  EXPECT_LE(served, 31 * elapsed + 2 + 1);
  EXPECT_GE(served, 31 * elapsed - 2);
}

// 20 requests against MAX 1 IOPS with 5 s of patience each.
TEST(Deadlines, RequestsThatCannotMakeItAreRefusedAtOnce) {
  Rig rig(1'000, 4);
  const core::GroupId group = rig.Add(Set().Max(1, 1));
  LoadSpec load;
  load.group = group;
  load.outstanding = 0;
  load.deadline = seconds(5);
  load.fail_fast = true;
  const World::LoadId id = rig.world.AddLoad(load);
  rig.world.At(Duration(1), [&] {
    for (int i = 0; i < 20; ++i) rig.world.Issue(id);
  });
  rig.Run(seconds(30));
  const core::GroupStats stats = rig.world.Stats(group);
  // Two at once (the burst and one request), four more before the fifth second is over; nobody who
  // was queued was disappointed.
  EXPECT_EQ(stats.completed, 6u);
  EXPECT_EQ(stats.completed + rig.world.rejected(id), 20u);
  EXPECT_EQ(stats.expired, 0u);
}

TEST(Deadlines, RequestsThatWaitInVainAreCountedAndCostNothing) {
  Rig rig(1'000, 4);
  const core::GroupId group = rig.Add(Set().Max(1, 1));
  LoadSpec load;
  load.group = group;
  load.outstanding = 0;
  load.deadline = seconds(5);
  const World::LoadId id = rig.world.AddLoad(load);
  const auto issue = [&] { rig.world.Issue(id, 20); };
  rig.world.At(Duration(1), issue);
  rig.Run(milliseconds(5'500));
  const core::GroupStats stats = rig.world.Stats(group);
  EXPECT_EQ(stats.completed, 6u);
  EXPECT_EQ(stats.completed + stats.throttle_timeouts, 20u);
  EXPECT_EQ(stats.expired, stats.throttle_timeouts);
  EXPECT_EQ(stats.queued[0], 0u);
  // The 14 that gave up left no debt: the burst and one request are there again.
  rig.world.At(milliseconds(6'500), issue);
  rig.Run(milliseconds(6'600));
  EXPECT_EQ(rig.world.Stats(group).completed, stats.completed + 2);
}

// A tenant that writes through the cache at its limit of 10 MB/s, 64 MiB ahead, must not delay the
// fsync of its neighbour. (What is accepted ahead is the data path's budget; this is its drain.)
TEST(Dependencies, AThrottledWriterDoesNotDelayANeighboursFsync) {
  const auto run = [](bool with_writer, double* writer_rate) {
    Rig rig(10'000, 8);
    const core::GroupId writer = rig.Add(Set().MaxBytes(10'000'000));
    const core::GroupId tenant = rig.Add(Set());
    LoadSpec dirty;
    dirty.group = writer;
    dirty.outstanding = 4'096;  // of 16 KiB: 64 MiB
    dirty.write_share = 1;
    if (with_writer) rig.world.AddLoad(dirty);
    LoadSpec fsync;
    fsync.group = tenant;
    fsync.write_share = 1;
    fsync.sync = true;
    fsync.think = milliseconds(5);
    rig.world.AddLoad(fsync);
    rig.Run(seconds(20));
    *writer_rate = rig.Rate(writer, seconds(0), seconds(20)) * 16'384;
    return rig.meter.Latency(tenant).Quantile(0.99);
  };
  double rate = 0;
  const Duration alone = run(false, &rate);
  const Duration beside = run(true, &rate);
  EXPECT_NEAR(rate / 10e6, 1, 0.012);  // with the burst of 10 ms
  EXPECT_LE(beside, 2 * alone);
}

}  // namespace
}  // namespace weir::sim

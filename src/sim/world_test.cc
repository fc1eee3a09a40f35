// Goal: loads, hooks and virtual time do what world.h says, so that what is measured on top of them
// is about the scheduler.

#include "sim/world.h"

#include <gtest/gtest.h>

#include "sim/meter.h"

namespace weir::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct OneGroup {
  explicit OneGroup(const WorldOptions& options = FixedDepthWorld(1'000, 1), uint64_t seed = 1)
      : world(options, seed), group(world.AddGroup(world.scheduler().root(), ResourceParams{})) {
    world.OnDispatch([this](const core::Request&) { ++dispatched; });
    world.OnComplete([this](const core::Request&) { ++completed; });
  }
  LoadSpec Load() const {
    LoadSpec load;
    load.group = group;
    return load;
  }
  World world;
  core::GroupId group;
  int dispatched = 0;
  int completed = 0;
};

TEST(World, AClosedLoopKeepsItsNumberOutstanding) {
  OneGroup w;
  LoadSpec load = w.Load();
  load.outstanding = 5;
  const World::LoadId id = w.world.AddLoad(load);
  int most = 0;
  w.world.OnIdle([&] {
    most = std::max(most, static_cast<int>(w.world.issued(id)) - w.completed);
    EXPECT_LE(static_cast<int>(w.world.issued(id)) - w.completed, 5);
  });
  w.world.RunUntil(seconds(1));
  EXPECT_EQ(most, 5);
  EXPECT_EQ(w.completed, 1'000);
}

TEST(World, ThinkTimeIsBetweenCompletionAndTheNextRequest) {
  OneGroup w;
  LoadSpec load = w.Load();
  load.think = milliseconds(4);
  w.world.AddLoad(load);
  w.world.RunUntil(seconds(1));
  EXPECT_EQ(w.completed, 200);  // 1 ms of service, 4 ms of thought
}

TEST(World, RandomThinkTimesHaveTheGivenMean) {
  for (const bool exponential : {false, true}) {
    OneGroup w;
    LoadSpec load = w.Load();
    load.think = milliseconds(4);
    load.think_random = exponential;
    load.think_spread = 0.5;
    w.world.AddLoad(load);
    w.world.RunUntil(seconds(50));
    EXPECT_NEAR(w.completed, 10'000, 300);
  }
}

TEST(World, AnOpenLoopArrivesAtItsRateWhateverTheDeviceDoes) {
  OneGroup w(FixedDepthWorld(100, 1));
  LoadSpec load = w.Load();
  load.rate = 1'000;
  const World::LoadId poisson = w.world.AddLoad(load);
  load.even = true;
  const World::LoadId even = w.world.AddLoad(load);
  w.world.RunUntil(seconds(10));
  EXPECT_NEAR(static_cast<double>(w.world.issued(poisson)), 10'000, 300);
  EXPECT_NEAR(static_cast<double>(w.world.issued(even)), 10'000, 1);
  EXPECT_NEAR(w.completed, 1'000, 2);
}

TEST(World, LoadsStartStopAndBurstWhenTheySay) {
  OneGroup w;
  LoadSpec load = w.Load();
  load.start = seconds(1);
  load.stop = seconds(5);
  load.burst_on = milliseconds(100);
  load.burst_off = milliseconds(300);
  w.world.AddLoad(load);
  Meter meter(&w.world, milliseconds(100));
  w.world.RunUntil(seconds(6));
  for (int k = 0; k < 60; ++k) {
    const bool on = k >= 10 && k < 50 && (k - 10) % 4 == 0;
    EXPECT_NEAR(meter.Served(w.group, milliseconds(100 * k), milliseconds(100 * k + 100)),
                on ? 100 : 0, 1)
        << k;
  }
}

// Sent again at once, requests with a deadline shorter than the queue would never let time pass.
TEST(World, AClosedLoopWhoseRequestsExpireWaitsBeforeItTriesAgain) {
  OneGroup w;
  LoadSpec load = w.Load();
  load.outstanding = 10;
  load.deadline = Duration(1);
  const World::LoadId id = w.world.AddLoad(load);
  w.world.RunUntil(seconds(1));
  EXPECT_GE(w.completed, 300);
  EXPECT_LE(w.world.issued(id), static_cast<uint64_t>(w.completed) + 10 * 100);
}

TEST(World, StopLoadEndsIt) {
  OneGroup w;
  const World::LoadId id = w.world.AddLoad(w.Load());
  w.world.At(milliseconds(500), [&] { w.world.StopLoad(id); });
  w.world.RunUntil(seconds(1));
  EXPECT_EQ(w.completed, w.dispatched);
  EXPECT_NEAR(w.completed, 500, 1);
}

TEST(World, ShapesAndCostsAreTheCallers) {
  OneGroup w;
  LoadSpec load = w.Load();
  load.cost = kOp;
  load.cost_max = 3 * kOp;
  load.write_share = 0.25;
  w.world.AddLoad(load);
  int writes = 0;
  int64_t cost = 0;
  w.world.OnDispatch([&](const core::Request& request) {
    writes += request.direction == Direction::kWrite ? 1 : 0;
    cost += request.cost;
    EXPECT_GE(request.cost, kOp);
    EXPECT_LE(request.cost, 3 * kOp);
  });
  w.world.RunUntil(seconds(20));
  EXPECT_NEAR(static_cast<double>(writes) / w.dispatched, 0.25, 0.02);
  EXPECT_NEAR(static_cast<double>(cost) / kOp / w.dispatched, 2, 0.05);
}

TEST(World, SubmitTakesWhatItIsGivenAndOnlyThat) {
  OneGroup w;
  core::Request request;
  request.group = w.group;
  request.cost = 2 * kOp;
  request.bytes = 12'345;
  const core::Request* mine = nullptr;
  int seen = 0;
  w.world.OnComplete([&](const core::Request& done) {
    EXPECT_EQ(&done, mine);
    EXPECT_EQ(done.bytes, 12'345);
    EXPECT_EQ(World::LoadOf(done), World::kNoLoad);
    EXPECT_EQ(w.world.elapsed(), milliseconds(12));
    ++seen;
  });
  w.world.At(milliseconds(10), [&] { mine = w.world.Submit(request); });
  w.world.RunUntil(seconds(1));
  EXPECT_EQ(seen, 1);
  request.group = core::GroupId{};
  EXPECT_EQ(w.world.Submit(request), nullptr);
}

TEST(World, ARemovedGroupTakesItsLoadsAlong) {
  OneGroup w;
  const core::GroupId other = w.world.AddGroup(w.world.scheduler().root(), ResourceParams{});
  LoadSpec load = w.Load();
  load.outstanding = 50;
  w.world.AddLoad(load);
  load.group = other;
  w.world.AddLoad(load);
  w.world.At(milliseconds(500), [&] { w.world.RemoveGroup(w.group); });
  Meter meter(&w.world, milliseconds(1));
  w.world.RunUntil(seconds(1));
  EXPECT_NEAR(meter.Served(other, milliseconds(500), seconds(1)), 500, 3);
  EXPECT_EQ(w.world.scheduler().requests_in_flight() +
                w.world.Stats(w.world.scheduler().root()).queued[0],
            50u);
}

TEST(World, CallsHappenInOrderAtTheirTime) {
  OneGroup w;
  std::vector<int> order;
  w.world.At(milliseconds(2), [&] { order.push_back(2); });
  w.world.At(milliseconds(1), [&] {
    order.push_back(1);
    w.world.At(milliseconds(0), [&] { order.push_back(11); });  // in the past: now
  });
  w.world.At(milliseconds(2), [&] { order.push_back(3); });
  w.world.RunUntil(milliseconds(1));
  EXPECT_EQ(order, (std::vector<int>{1, 11}));
  w.world.RunUntil(milliseconds(5));
  EXPECT_EQ(order, (std::vector<int>{1, 11, 2, 3}));
  EXPECT_EQ(w.world.elapsed(), milliseconds(5));
}

TEST(World, AnAbsentReaperSeesCompletionsWhenItIsBack) {
  WorldOptions options = FixedDepthWorld(1'000, 1, 1);
  options.reaper_period = milliseconds(10);
  options.reaper_away = milliseconds(5);
  OneGroup w(options);
  w.world.OnComplete([&](const core::Request&) {
    EXPECT_GE(w.world.elapsed() % milliseconds(10), milliseconds(5));
  });
  w.world.AddLoad(w.Load());
  w.world.RunUntil(seconds(1));
  EXPECT_NEAR(w.completed, 500, 1);
}

TEST(World, TheSameSeedGivesTheSameRun) {
  const auto run = [](uint64_t seed) {
    WorldOptions options = FixedDepthWorld(1'000, 4);
    options.device.noise = 0.5;
    OneGroup w(options, seed);
    LoadSpec load = w.Load();
    load.rate = 700;
    w.world.AddLoad(load);
    std::vector<int64_t> times;
    w.world.OnComplete([&](const core::Request&) { times.push_back(ToNanos(w.world.now())); });
    w.world.RunUntil(seconds(1));
    return times;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(Meter, CountsForAllGroupsAbove) {
  World world(FixedDepthWorld(1'000, 1), 1);
  const core::GroupId parent = world.AddGroup(world.scheduler().root(), ResourceParams{});
  const core::GroupId a = world.AddGroup(parent, ResourceParams{});
  const core::GroupId b = world.AddGroup(parent, ResourceParams{});
  Meter meter(&world, milliseconds(10));
  for (const core::GroupId group : {a, b}) {
    LoadSpec load;
    load.group = group;
    load.outstanding = 4;
    world.AddLoad(load);
  }
  world.RunUntil(seconds(1));
  EXPECT_NEAR(meter.Rate(parent, Duration(0), seconds(1)), 1'000, 2);
  EXPECT_DOUBLE_EQ(
      meter.Served(parent, Duration(0), seconds(1)),
      meter.Served(a, Duration(0), seconds(1)) + meter.Served(b, Duration(0), seconds(1)));
  EXPECT_DOUBLE_EQ(meter.Served(world.scheduler().root(), Duration(0), seconds(1)),
                   meter.Served(parent, Duration(0), seconds(1)));
  EXPECT_NEAR(meter.Most(a, milliseconds(100), milliseconds(100), seconds(1)), 50, 1);
  EXPECT_NEAR(meter.Least(a, milliseconds(100), milliseconds(100), seconds(1)), 50, 1);
  EXPECT_NEAR(static_cast<double>(meter.Requests(a)), 500, 2);
  EXPECT_GT(meter.Latency(a).Quantile(0.5), milliseconds(3));
}

}  // namespace
}  // namespace weir::sim

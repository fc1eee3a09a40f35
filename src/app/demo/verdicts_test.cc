// Goal: the demonstration never calls a broken promise kept, nor a kept one broken. Method: runs
// made up with known rates, then spoiled in one place.
#include "app/demo/verdicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace weir::app::demo {
namespace {

struct Rate {
  std::string path;
  int parent;
  double norm;
};

// A run of whole seconds in which each group gets its rate evenly.
RunOutcome Even(const std::vector<Rate>& rates, int seconds) {
  RunOutcome run;
  run.ran = std::chrono::seconds(seconds);
  for (const Rate& rate : rates) {
    run.result.groups.push_back({rate.path, rate.parent, true, {}});
    run.grids.emplace_back(static_cast<size_t>(seconds) * 1000,
                           static_cast<int64_t>(rate.norm * kOp / 1000));
  }
  for (int i = 0; i < seconds; ++i) {
    scenario::Interval interval;
    interval.start_s = i;
    for (const Rate& rate : rates) {
      scenario::GroupSample sample;
      sample.norm_iops = rate.norm;
      sample.raw_iops = rate.norm / 1.25;
      interval.groups.push_back(sample);
    }
    run.result.intervals.push_back(interval);
  }
  return run;
}

RunOutcome GoodTenants() {
  return Even({{"tenant1", -1, 30'000},
               {"tenant2", -1, 15'000},
               {"tenant3", -1, 10'000},
               {"tenant4", -1, 5'000}},
              20);
}

int Missed(const Verdicts& verdicts) {
  return static_cast<int>(
      std::count_if(verdicts.begin(), verdicts.end(), [](const auto& v) { return !v.held; }));
}

TEST(DemoVerdicts, HoldWhenEveryTenantGetsWhatItWasPromised) {
  EXPECT_EQ(Missed(JudgeTenants(GoodTenants(), Scale{})), 0);
}

TEST(DemoVerdicts, OneSecondBelowTheReservationIsAMiss) {
  RunOutcome run = GoodTenants();
  run.result.intervals[15].groups[2].norm_iops = 9'890;
  EXPECT_EQ(Missed(JudgeTenants(run, Scale{})), 1);
  for (DispatchGrid& grid : run.grids) std::fill_n(grid.begin() + 15'400, 31, 0);
  EXPECT_FALSE(JudgeTenants(run, Scale{})[0].held);
  EXPECT_THAT(JudgeTenants(run, Scale{})[0].measured, ::testing::HasSubstr("31 ms"));
  run = GoodTenants();
  run.result.intervals[10].groups[2].norm_iops = 100;  // the second in which it joins
  EXPECT_EQ(Missed(JudgeTenants(run, Scale{})), 0);
}

TEST(DemoVerdicts, ABurstBeyondTheLimitIsAMissEvenIfTheSecondIsNot) {
  RunOutcome run = GoodTenants();
  run.grids[3][7'000] += 60 * kOp;  // burst is 50, and one request more
  for (size_t i = 7'001; i < 7'061; ++i) run.grids[3][i] -= kOp;
  const Verdicts verdicts = JudgeTenants(run, Scale{});
  EXPECT_FALSE(verdicts[1].held) << verdicts[1].measured;
  EXPECT_EQ(Missed(verdicts), 1);
}

TEST(DemoVerdicts, AStrangledTenantIsAMiss) {
  RunOutcome run = GoodTenants();
  for (scenario::Interval& interval : run.result.intervals) interval.groups[3].norm_iops = 4'890;
  EXPECT_FALSE(JudgeTenants(run, Scale{})[2].held);
}

TEST(DemoVerdicts, AWrongRatioInOneWindowOfFiveSecondsIsAMiss) {
  RunOutcome run = GoodTenants();
  for (size_t i = 10; i < 15; ++i) run.result.intervals[i].groups[0].norm_iops = 31'000;
  EXPECT_FALSE(JudgeTenants(run, Scale{})[3].held);
}

TEST(DemoVerdicts, NothingMeasuredIsAMissNotAPass) {
  EXPECT_EQ(Missed(JudgeTenants(RunOutcome{}, Scale{})), 4);
  EXPECT_EQ(Missed(JudgeLoads(RunOutcome{}, Scale{})), 4);
  EXPECT_EQ(Missed(JudgeThroughput({})), 1);
}

TEST(DemoVerdicts, LoadsInsideTheTenant) {
  const std::vector<Rate> good = {{"tenant1", -1, 36'666},  {"tenant2", -1, 18'333},
                                  {"tenant2/A", 1, 1'000},  {"tenant2/B", 1, 2'000},
                                  {"tenant2/C", 1, 10'222}, {"tenant2/D", 1, 5'111}};
  EXPECT_EQ(Missed(JudgeLoads(Even(good, 15), Scale{})), 0);
  std::vector<Rate> bad = good;
  bad[2].norm = 1'010;
  EXPECT_FALSE(JudgeLoads(Even(bad, 15), Scale{})[0].held);
  bad = good;
  bad[3].norm = 1'970;
  EXPECT_FALSE(JudgeLoads(Even(bad, 15), Scale{})[1].held);
  bad = good;
  bad[5].norm = 5'350;
  EXPECT_FALSE(JudgeLoads(Even(bad, 15), Scale{})[2].held);
}

TEST(DemoVerdicts, ALimitOfAFractionIsNotRounded) {
  // 1 % of 98,640 is 986.4: in 15 s four tenths are six requests.
  const Scale scale{0.9864, 1};
  const std::vector<Rate> rates = {{"tenant1", -1, 36'000},  {"tenant2", -1, 18'000},
                                   {"tenant2/A", 1, 986.4},  {"tenant2/B", 1, 1'973},
                                   {"tenant2/C", 1, 10'000}, {"tenant2/D", 1, 5'000}};
  const Verdicts verdicts = JudgeLoads(Even(rates, 15), scale);
  EXPECT_EQ(verdicts[0].measured.find("at most 0.0"), 0u) << verdicts[0].measured;
}

TEST(DemoVerdicts, ThroughputIsComparedPairByPair) {
  // A disk that becomes twice as fast half-way: medians of all slices would mislead.
  std::vector<SlicePair> pairs;
  for (int i = 0; i < 20; ++i) pairs.push_back({i < 10 ? 49'000.0 : 98'000.0, i < 10 ? 5e4 : 1e5});
  EXPECT_NEAR(RatioQuantile(pairs, 0.5), 0.98, 1e-9);
  EXPECT_TRUE(JudgeThroughput(pairs)[0].held);
  for (SlicePair& pair : pairs) pair.scheduled *= 0.98;
  EXPECT_FALSE(JudgeThroughput(pairs)[0].held);
}

// A scan whose service follows each limit from `late` after its change on.
RunOutcome Scan(const scenario::Scenario& scenario, Duration late) {
  RunOutcome run = Even({{"scan", -1, 0}}, 15);
  for (size_t i = 0; i < scenario.changes.size(); ++i) {
    run.changes.push_back({i, scenario.changes[i].at, scenario.changes[i].at});
  }
  std::vector<int64_t>& grid = run.grids[0];
  for (size_t ms = 0; ms < grid.size(); ++ms) {
    const Duration at = std::chrono::milliseconds(ms) - late;
    size_t step = 0;
    while (step < scenario.changes.size() && scenario.changes[step].at <= at) ++step;
    grid[ms] = static_cast<int64_t>(kScanMax[step] * kOp / 1000);
  }
  for (scenario::Interval& interval : run.result.intervals) {
    interval.groups[0].norm_iops = 12'500;
    interval.groups[0].raw_iops = 10'000;
  }
  return run;
}

TEST(DemoVerdicts, ALiveChangeIsTimedFromTheCommandToItsEffect) {
  const auto scenario = LiveChange(Scale{});
  ASSERT_TRUE(scenario.has_value()) << scenario.error().message;
  EXPECT_EQ(Missed(JudgeChanges(Scan(*scenario, Duration(0)), *scenario)), 0);
  EXPECT_EQ(Missed(JudgeChanges(Scan(*scenario, std::chrono::milliseconds(5)), *scenario)), 0);
  const Verdicts late = JudgeChanges(Scan(*scenario, std::chrono::milliseconds(60)), *scenario);
  EXPECT_FALSE(late[0].held) << late[0].measured;
  EXPECT_NEAR(CostOfScanRead(Scan(*scenario, Duration(0))), 1.25, 1e-9);
}

TEST(DemoVerdicts, ChangesThatWereNotMadeAreAMiss) {
  const auto scenario = LiveChange(Scale{});
  ASSERT_TRUE(scenario.has_value()) << scenario.error().message;
  RunOutcome run = Scan(*scenario, Duration(0));
  run.changes.pop_back();
  EXPECT_FALSE(JudgeChanges(run, *scenario)[0].held);
}

}  // namespace
}  // namespace weir::app::demo

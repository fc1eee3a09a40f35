// Goal: a verdict says what was promised and what was measured, and is never HELD by accident.
// Method: made-up runs with known numbers.

#include <gtest/gtest.h>

#include "scenario/report.h"
#include "scenario/report_fixture.h"

namespace weir::scenario {
namespace {

using std::chrono::seconds;

Expect Bounds(Expect::Metric metric, std::string group, double min, double max) {
  Expect expect;
  expect.metric = metric;
  expect.group = std::move(group);
  expect.has_min = min > 0;
  expect.has_max = max > 0;
  expect.min = min;
  expect.max = max;
  return expect;
}

Verdict JudgeOne(const Expect& expect, const RunResult& run) {
  Scenario scenario;
  scenario.duration = seconds(20);
  scenario.expects = {expect};
  const std::vector<Verdict> verdicts = Judge(scenario, run);
  EXPECT_EQ(verdicts.size(), 1u);
  return verdicts.front();
}

TEST(Judge, EveryMetricIsHeldToItsBounds) {
  using Metric = Expect::Metric;
  const RunResult run = MakeRun();
  struct Case {
    Metric metric;
    const char* group;
    double min, max;
    bool held;
  };
  const Case cases[] = {
      {Metric::kNormIops, "tenant2/A", 1999, 2001, true},
      {Metric::kNormIops, "tenant2/A", 2001, 0, false},
      {Metric::kNormIops, "tenant2/A", 0, 1999, false},
      {Metric::kNormIops, "", 59'999, 60'001, true},
      {Metric::kRawIops, "tenant4", 3999, 4001, true},
      {Metric::kRawIops, "tenant4", 4001, 0, false},
      {Metric::kBandwidth, "tenant4", 81.9e6, 82e6, true},
      {Metric::kBandwidth, "tenant4", 0, 81e6, false},
      {Metric::kLatencyP99, "tenant4", 12.6e6, 13.1e6, true},
      {Metric::kLatencyP99, "tenant4", 0, 12e6, false},
      {Metric::kLatencyP99, "tenant2", 0, 40e6, true},  // merged from its leaves
      {Metric::kLatencyP99, "tenant2", 0, 30e6, false},
      {Metric::kWaitP99, "tenant4", 5.6e6, 7.3e6, true},
      {Metric::kWaitP99, "tenant4", 0, 5e6, false},
      {Metric::kUtilisation, "", 0.97, 1.01, true},
      {Metric::kUtilisation, "tenant4", 0.09, 0, false},
  };
  for (const Case& c : cases) {
    const Verdict verdict = JudgeOne(Bounds(c.metric, c.group, c.min, c.max), run);
    EXPECT_EQ(verdict.held, c.held) << verdict.promise << ": " << verdict.measured;
  }
}

TEST(Judge, RatioComparesTwoGroups) {
  Expect expect = Bounds(Expect::Metric::kRatio, "tenant1", 1.96, 2.04);
  expect.other = "tenant2";
  EXPECT_TRUE(JudgeOne(expect, MakeRun()).held);
  expect.other = "tenant4";
  EXPECT_FALSE(JudgeOne(expect, MakeRun()).held);
}

TEST(Judge, OneBadSecondBreaksAPromiseForEverySecond) {
  RunResult run = MakeRun();
  Expect expect = Bounds(Expect::Metric::kNormIops, "tenant3", 9'900, 0);
  expect.from = seconds(11);
  expect.every_second = true;
  EXPECT_TRUE(JudgeOne(expect, run).held);

  run.intervals[15].groups[4].norm_iops = 9'000;
  const Verdict verdict = JudgeOne(expect, run);
  EXPECT_FALSE(verdict.held);
  EXPECT_EQ(verdict.measured, "lowest 9,000, missed in 1 of 9");
  EXPECT_EQ(verdict.promise, "tenant3 norm IOPS at least 9,900 in every second of 11-20 s");

  expect.every_second = false;  // the mean still holds
  expect.min = 9'800;
  EXPECT_TRUE(JudgeOne(expect, run).held);
}

TEST(Judge, OnlyTheWindowCounts) {
  Expect expect = Bounds(Expect::Metric::kNormIops, "tenant3", 0, 1);
  expect.to = seconds(10);
  EXPECT_TRUE(JudgeOne(expect, MakeRun()).held);
  expect.to = seconds(11);
  EXPECT_FALSE(JudgeOne(expect, MakeRun()).held);
}

// A real clock gives intervals that start a little late.
TEST(Judge, DriftingIntervalsStayInTheirSecond) {
  RunResult run = MakeRun();
  for (Interval& interval : run.intervals) {
    interval.start_s += 0.012;
    interval.length_s = 1.0006;
  }
  Expect expect = Bounds(Expect::Metric::kNormIops, "tenant3", 9'999, 10'001);
  expect.from = seconds(10);
  expect.every_second = true;
  EXPECT_TRUE(JudgeOne(expect, run).held);
}

TEST(Judge, NothingMeasuredIsNotHeld) {
  const RunResult run = MakeRun();
  Expect unknown = Bounds(Expect::Metric::kNormIops, "tenant9", 0, 1);
  EXPECT_FALSE(JudgeOne(unknown, run).held);
  EXPECT_EQ(JudgeOne(unknown, run).measured, "no group tenant9 in this run");

  Expect late = Bounds(Expect::Metric::kNormIops, "tenant1", 0, 1e9);
  late.from = seconds(30);
  late.to = seconds(40);
  EXPECT_FALSE(JudgeOne(late, run).held);
  late.every_second = true;
  EXPECT_FALSE(JudgeOne(late, run).held);

  // Latency of a group that sent nothing.
  Expect silent = Bounds(Expect::Metric::kLatencyP99, "tenant3", 0, 1e9);
  silent.to = seconds(5);
  EXPECT_FALSE(JudgeOne(silent, run).held);
  silent.to = seconds(20);
  silent.every_second = true;
  EXPECT_FALSE(JudgeOne(silent, run).held);

  EXPECT_FALSE(JudgeOne(Bounds(Expect::Metric::kNormIops, "", 0, 1), RunResult{}).held);
}

TEST(Judge, PromiseInTheAuthorsWordsIsKept) {
  Expect expect = Bounds(Expect::Metric::kNormIops, "tenant4", 0, 5'000);
  expect.text = "tenant 4 stays below its MAX";
  EXPECT_EQ(JudgeOne(expect, MakeRun()).promise, expect.text);
}

}  // namespace
}  // namespace weir::scenario

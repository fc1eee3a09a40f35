// Goal: a scenario file becomes the run it describes. Method: short files, numbers known
// beforehand.

#include "sim/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

scenario::Scenario Parse(const std::string& text) {
  const Result<scenario::Scenario> scenario = scenario::ParseScenario(text, "test.toml");
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
  return scenario.value_or(scenario::Scenario{});
}

scenario::RunResult RunText(const std::string& text, uint64_t seed = 1) {
  const Result<scenario::RunResult> result = sim::Run(Parse(text), seed, {});
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result.value_or(scenario::RunResult{});
}

constexpr const char* kTwoUnits = R"(
  title = "two"
  duration = "3500ms"
  [sim]
  parallelism = 4
  reference_time = "1ms"
  [[unit]]
  name = "limited"
  max_iops = 400
  [[unit]]
  name = "free"
  [[load]]
  name = "limited"
  group = "limited"
  threads = 4
  depth = 4
  [[load]]
  name = "free"
  group = "free"
  threads = 16
  size = "32KiB"
  start = "1s"
)";

TEST(Simulator, SamplesEverySecondAndTheRest) {
  int calls = 0;
  const Result<scenario::RunResult> result = sim::Run(
      Parse(kTwoUnits), 1, [&](const scenario::RunResult& run, const scenario::Interval& last) {
        ++calls;
        EXPECT_EQ(&run.intervals.back(), &last);
      });
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(result->title, "two");
  EXPECT_DOUBLE_EQ(result->capacity, 4'000);
  ASSERT_EQ(result->groups.size(), 2u);
  EXPECT_EQ(result->groups[0].path, "limited");
  ASSERT_EQ(result->intervals.size(), 4u);
  EXPECT_DOUBLE_EQ(result->intervals[3].start_s, 3);
  EXPECT_DOUBLE_EQ(result->intervals[3].length_s, 0.5);

  const scenario::GroupSample& limited = result->intervals[2].groups[0];
  EXPECT_NEAR(limited.norm_iops, 400, 5);
  EXPECT_EQ(limited.blocked_by, "MAX_IOPS(norm)");
  EXPECT_NEAR(static_cast<double>(limited.queued), 16, 1);
  EXPECT_NEAR(static_cast<double>(limited.latency.count()), 400, 5);
  EXPECT_NEAR(ToSeconds(limited.latency.Quantile(0.5)), 16.0 / 400, 0.004);

  const scenario::GroupSample& free = result->intervals[2].groups[1];
  EXPECT_EQ(result->intervals[0].groups[1].raw_iops, 0);
  EXPECT_NEAR(free.norm_iops, 3'600, 300);  // the depth is still being found
  EXPECT_NEAR(free.raw_iops, free.norm_iops / 2, 1);
  EXPECT_NEAR(free.bytes_per_s, free.raw_iops * 32'768, 1);
  EXPECT_THAT(result->intervals[1].notes, ElementsAre("load free starts"));
}

TEST(Simulator, AppliesChangesWhenTheirTimeComes) {
  const scenario::RunResult run = RunText(std::string(kTwoUnits) + R"(
    [[change]]
    at = "2s"
    target = "limited"
    set = { max_iops = 100, iops_weight = 7 }
  )");
  EXPECT_NEAR(run.intervals[1].groups[0].norm_iops, 400, 5);
  EXPECT_NEAR(run.intervals[3].groups[0].norm_iops, 100, 5);
  ASSERT_EQ(run.intervals[2].notes.size(), 1u);
  EXPECT_THAT(run.intervals[2].notes[0], HasSubstr("limited: "));
  EXPECT_THAT(run.intervals[2].notes[0], HasSubstr("max_iops = 100"));
  EXPECT_EQ(run.groups[0].params.weight, 7);
}

TEST(Simulator, MixesSizesAndDirections) {
  const scenario::RunResult run = RunText(R"(
    duration = "10s"
    [[unit]]
    name = "u"
    [[load]]
    name = "l"
    group = "u"
    threads = 64
    read_share = 0.25
    sizes = [{ size = "4KiB", share = 0.5 }, { size = "64KiB", share = 0.5 }]
  )");
  const scenario::GroupSample& sample = run.intervals.back().groups[0];
  EXPECT_NEAR(sample.read_share, 0.25, 0.03);
  EXPECT_NEAR(sample.norm_iops / sample.raw_iops, (0.5 + 4) / 2, 0.1);
  EXPECT_NEAR(sample.bytes_per_s / sample.raw_iops, 34 * 1024, 1'500);
}

TEST(Simulator, WarnsAboutReservationsBeyondTheDevice) {
  const scenario::RunResult run = RunText(R"(
    duration = "1s"
    [[unit]]
    name = "a"
    min_iops = 9000
    [[unit]]
    name = "b"
    min_iops = 9000
    [[load]]
    name = "a"
    group = "a"
  )");
  ASSERT_EQ(run.warnings.size(), 1u);
}

TEST(Simulator, SaysThatAProfileIsNotUsed) {
  const scenario::RunResult run = RunText(std::string(kTwoUnits) + R"(
    [[device]]
    name = "disk"
    path = "/data"
    profile = "/no/such/profile.json"
  )");
  ASSERT_EQ(run.warnings.size(), 1u);
  EXPECT_THAT(run.warnings[0], HasSubstr("profile of device \"disk\" is not used"));
}

TEST(Simulator, RefusesWhatALimitWouldHoldBackBeyondItsDeadline) {
  const scenario::RunResult run = RunText(R"(
    duration = "10s"
    [[unit]]
    name = "u"
    max_iops = 10
    [[load]]
    name = "l"
    group = "u"
    threads = 20
    deadline = "500ms"
  )");
  EXPECT_GT(run.throttle_timeouts, 0u);
  EXPECT_GT(run.intervals[5].groups[0].timeouts, 0u);
  EXPECT_NEAR(run.intervals[5].groups[0].norm_iops, 10, 1);
  EXPECT_LE(run.intervals[5].groups[0].latency.Quantile(1), std::chrono::milliseconds(510));
}

TEST(Simulator, ASeedReplaysARun) {
  const auto rates = [](const scenario::RunResult& run) {
    std::vector<double> all;
    for (const scenario::Interval& interval : run.intervals) {
      for (const scenario::GroupSample& sample : interval.groups) all.push_back(sample.norm_iops);
    }
    return all;
  };
  const std::string noisy = R"(
    duration = "3s"
    [sim]
    noise = 0.9
    [[unit]]
    name = "u"
    [[load]]
    name = "l"
    group = "u"
    rate = 5000
  )";
  EXPECT_EQ(rates(RunText(noisy, 5)), rates(RunText(noisy, 5)));
  EXPECT_NE(rates(RunText(noisy, 5)), rates(RunText(noisy, 6)));
}

TEST(Simulator, LongRunsOfManyGroupsGetLongerIntervals) {
  std::string text = "duration = \"250s\"\n";
  for (int i = 0; i < 100; ++i) text += "[[unit]]\nname = \"u" + std::to_string(i) + "\"\n";
  text += "[[load]]\nname = \"l\"\ngroup = \"u0\"\nrate = 1\n";
  const scenario::RunResult run = RunText(text);
  EXPECT_EQ(run.intervals.size(), 125u);
  EXPECT_DOUBLE_EQ(run.intervals[0].length_s, 2);
  EXPECT_TRUE(run.warnings.empty());
  const scenario::RunResult judged =
      RunText(text + "[[expect]]\nmetric = \"norm_iops\"\nevery_second = true\nmin = 0\n");
  ASSERT_EQ(judged.warnings.size(), 1u);
  EXPECT_THAT(judged.warnings[0], HasSubstr("intervals of 2 s"));
}

}  // namespace
}  // namespace weir::sim

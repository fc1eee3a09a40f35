// Goal: shorter runs are judged by what they can tell; changes arrive at their times. Method:
// scenarios on a small scratch file.
#include "app/bench_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

namespace weir::app {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr Duration kSecond = std::chrono::seconds(1);

scenario::Scenario Parse(const std::string& text) {
  auto scenario = scenario::ParseScenario(text, "test.toml");
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
  return scenario ? *scenario : scenario::Scenario{};
}

constexpr const char* kLong = R"(
duration = "20s"
[[unit]]
name = "a"
max_iops = 300
[[load]]
name = "early"
group = "a"
threads = 4
[[load]]
name = "late"
group = "a"
start = "10s"
[[change]]
at = "300ms"
target = "a"
set.max_iops = 600
[[change]]
at = "15s"
target = "a"
set.max_iops = 900
[[expect]]
metric = "norm_iops"
group = "a"
to = "5s"
max = 1000
[[expect]]
metric = "norm_iops"
group = "a"
max = 1000
[[expect]]
metric = "norm_iops"
group = "a"
from = "2s"
to = "12s"
max = 1000
)";

TEST(SetDuration, LeavesOutWhatBeginsLaterAndSaysSo) {
  scenario::Scenario scenario = Parse(kLong);
  std::vector<std::string> warnings;
  SetDuration(&scenario, 6 * kSecond, &warnings);
  EXPECT_EQ(scenario.duration, 6 * kSecond);
  EXPECT_THAT(scenario.loads, SizeIs(1));
  EXPECT_THAT(scenario.changes, SizeIs(1));
  // What counts to the end of the run counts to the new one.
  EXPECT_THAT(scenario.expects, SizeIs(2));
  ASSERT_THAT(warnings, SizeIs(3));
  EXPECT_THAT(warnings[0], HasSubstr("late"));
  EXPECT_THAT(warnings[1], HasSubstr("15"));
  EXPECT_THAT(warnings[2], HasSubstr("1 expectation"));
}

TEST(SetDuration, StretchesARun) {
  scenario::Scenario scenario = Parse(kLong);
  std::vector<std::string> warnings;
  SetDuration(&scenario, 60 * kSecond, &warnings);
  EXPECT_TRUE(warnings.empty());
  EXPECT_THAT(scenario.expects, SizeIs(3));
}

TEST(OnlyJudgeable, KeepsWindowsThatRanInFull) {
  const scenario::Scenario scenario = Parse(kLong);
  EXPECT_THAT(OnlyJudgeable(scenario, 4 * kSecond).expects, SizeIs(0));
  EXPECT_THAT(OnlyJudgeable(scenario, 5 * kSecond).expects, SizeIs(1));
  EXPECT_THAT(OnlyJudgeable(scenario, 13 * kSecond).expects, SizeIs(2));
  EXPECT_THAT(OnlyJudgeable(scenario, 20 * kSecond).expects, SizeIs(3));
}

class RunnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    BenchFileOptions options;
    options.path = ::testing::TempDir();
    options.bytes = 32 << 20;
    auto file = BenchFile::Open(options);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    file_ = std::make_unique<BenchFile>(std::move(*file));
    ASSERT_TRUE(file_->LayOut(nullptr).has_value());
    capacity_.iops = 10'000;
  }
  std::unique_ptr<BenchFile> file_;
  Capacity capacity_;
};

TEST_F(RunnerTest, MakesChangesAtTheirTimesAndTheyBind) {
  scenario::Scenario scenario = Parse(kLong);
  std::vector<std::string> warnings;
  SetDuration(&scenario, 2 * kSecond, &warnings);
  StopSignal stop;
  RunOptions options;
  options.session.grid_step = std::chrono::milliseconds(10);
  size_t intervals = 0;
  options.on_interval = [&](const scenario::RunResult& result, const scenario::Interval&) {
    EXPECT_THAT(result.intervals, SizeIs(++intervals));
  };
  auto run = RunScenario(scenario, *file_, capacity_, options, &stop);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_FALSE(run->stopped);
  EXPECT_EQ(run->result.errors, 0u);
  EXPECT_EQ(intervals, 2u);
  ASSERT_THAT(run->changes, SizeIs(1));
  EXPECT_GE(run->changes[0].asked, std::chrono::milliseconds(300));
  EXPECT_GE(run->changes[0].applied, run->changes[0].asked);
  ASSERT_THAT(run->result.intervals[0].notes, SizeIs(1));
  EXPECT_THAT(run->result.intervals[0].notes[0], HasSubstr("600"));
  EXPECT_EQ(run->result.groups[0].params.MaxOf(Dimension::kNorm, Scope::kBoth), 600 * kOp);
  // 300/s until the change, then 600/s, a burst of 10 ms each and a request more.
  double served = 0;
  for (const int64_t cost : run->grids[0]) served += static_cast<double>(cost) / kOp;
  const double before = ToSeconds(run->changes[0].applied);
  EXPECT_LE(served, 300 * before + 600 * (2.0 - before) + 6 + 2);
}

TEST_F(RunnerTest, ASignalEndsTheRunWithWhatThereIs) {
  const scenario::Scenario scenario = Parse(kLong);
  StopSignal stop;
  RunOptions options;
  options.on_interval = [](const scenario::RunResult& result, const scenario::Interval&) {
    // Blocked in this thread: the runner takes it. A second one would end the process.
    if (result.intervals.size() == 1) kill(getpid(), SIGTERM);
  };
  auto run = RunScenario(scenario, *file_, capacity_, options, &stop);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_TRUE(run->stopped);
  EXPECT_EQ(stop.number(), SIGTERM);
  EXPECT_LT(run->ran, 20 * kSecond);
  EXPECT_GE(run->result.intervals.size(), 1u);
}

}  // namespace
}  // namespace weir::app

// Goal: loads are what the scenario says: mixes, rates, think times, bursts, starts and stops; and
// they can be paused and started again. Method: a small scratch file, the scheduler's counters.
// No promise here depends on how fast the machine is.
#include "app/bench_session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/monotonic_clock.h"

namespace weir::app {
namespace {

constexpr Duration kMs = std::chrono::milliseconds(1);
constexpr Duration kPatience = std::chrono::seconds(60);

class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    BenchFileOptions options;
    options.path = ::testing::TempDir();
    options.bytes = 32 << 20;
    auto file = BenchFile::Open(options);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    file_ = std::make_unique<BenchFile>(std::move(*file));
    ASSERT_TRUE(file_->LayOut(nullptr).has_value());
  }

  // One [[load]] in one unit; `unit` and `load` are lines of TOML.
  std::unique_ptr<Session> Make(const std::string& unit, const std::string& load,
                                SessionOptions options = {}) {
    const std::string text = "duration = \"60s\"\n[[unit]]\nname = \"u\"\n" + unit +
                             "\n[[load]]\nname = \"l\"\ngroup = \"u\"\n" + load;
    auto scenario = scenario::ParseScenario(text, "test.toml");
    EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
    if (!scenario) return nullptr;
    Capacity capacity;
    capacity.iops = 10'000;
    auto session = Session::Create(*scenario, *file_, capacity, options, nullptr);
    EXPECT_TRUE(session.has_value()) << session.error().message;
    return session ? std::move(*session) : nullptr;
  }

  // Runs until `done` says so of the sums so far; the sums.
  struct Sums {
    core::GroupStats stats;
    uint64_t completed = 0, failed = 0, timeouts = 0;
    Duration ran{0};
  };
  static Sums RunUntil(Session* session, const std::function<bool(const Sums&)>& done) {
    Sums sums;
    const TimePoint start = MonotonicNow();
    session->Start(start, kNever);
    while (!done(sums) && MonotonicNow() - start < kPatience) {
      std::this_thread::sleep_for(kMs);  // samples; `done` is what is awaited
      Add(session, start, &sums);
    }
    EXPECT_TRUE(session->Pause(kPatience));
    Add(session, start, &sums);
    return sums;
  }
  static void Add(Session* session, TimePoint start, Sums* sums) {
    auto snapshot = session->Take();
    ASSERT_TRUE(snapshot.has_value()) << snapshot.error().message;
    sums->stats = snapshot->groups[0];
    sums->completed += snapshot->meters[0].completed;
    sums->failed += snapshot->meters[0].failed;
    sums->timeouts += snapshot->meters[0].timeouts;
    sums->ran = snapshot->at - start;
  }

  static double Served(const core::GroupStats& stats, Dimension dimension, Direction direction) {
    return static_cast<double>(
        stats.served[static_cast<size_t>(dimension)][static_cast<size_t>(direction)]);
  }

  std::unique_ptr<BenchFile> file_;
};

TEST_F(SessionTest, AClosedLoopKeepsThreadsTimesDepthOutstanding) {
  auto session = Make("max_iops = 200", "threads = 3\ndepth = 5");
  ASSERT_NE(session, nullptr);
  session->Start(MonotonicNow(), kNever);
  uint64_t outstanding = 0;
  const TimePoint start = MonotonicNow();
  while (outstanding != 15 && MonotonicNow() - start < kPatience) {
    auto snapshot = session->Take();
    ASSERT_TRUE(snapshot.has_value());
    outstanding = snapshot->groups[0].queued[0] + snapshot->groups[0].in_flight;
    ASSERT_LE(outstanding, 15u);
  }
  EXPECT_EQ(outstanding, 15u);
  EXPECT_TRUE(session->Pause(kPatience));
}

TEST_F(SessionTest, SizesAndReadsComeInTheirShares) {
  auto session =
      Make("",
           "threads = 4\nread_share = 0.25\n"
           "sizes = [{ size = \"4KiB\", share = 0.75 }, { size = \"64KiB\", share = 0.25 }]");
  ASSERT_NE(session, nullptr);
  const Sums sums = RunUntil(session.get(), [](const Sums& s) { return s.completed >= 4000; });
  EXPECT_EQ(sums.failed, 0u);
  const double reads = Served(sums.stats, Dimension::kRaw, Direction::kRead);
  const double all = reads + Served(sums.stats, Dimension::kRaw, Direction::kWrite);
  const double bytes = Served(sums.stats, Dimension::kBytes, Direction::kRead) +
                       Served(sums.stats, Dimension::kBytes, Direction::kWrite);
  EXPECT_NEAR(reads / all, 0.25, 0.04);  // 5 standard deviations and more
  EXPECT_NEAR(bytes / (all / kOp), 0.75 * 4096 + 0.25 * 65536, 3000);
}

TEST_F(SessionTest, AnOpenLoopArrivesAtItsRateWhateverTheDiskDoes) {
  auto session = Make("", "rate = 2000\nsize = \"4KiB\"");
  ASSERT_NE(session, nullptr);
  const Sums sums = RunUntil(session.get(), [](const Sums& s) { return s.completed >= 2000; });
  const double expected = 2000 * ToSeconds(sums.ran);
  EXPECT_LE(static_cast<double>(sums.completed), expected + 6 * std::sqrt(expected));
  EXPECT_EQ(session->driver().missed_arrivals(), 0u);
}

TEST_F(SessionTest, AnOpenLoopBeyondTheDiskSaysWhatItLeftOut) {
  auto session = Make("max_iops = 100", "rate = 1000000\nsize = \"4KiB\"");
  ASSERT_NE(session, nullptr);
  RunUntil(session.get(), [](const Sums& s) { return s.stats.queued[0] + 200 >= kOpenLoopSlots; });
  session->Start(MonotonicNow(), kNever);
  RunUntil(session.get(), [](const Sums& s) { return s.ran > 50 * kMs; });
  EXPECT_GT(session->driver().missed_arrivals(), 0u);
}

TEST_F(SessionTest, ThinkTimeBoundsTheRate) {
  auto session = Make("", "threads = 2\nthink = \"10ms\"");
  ASSERT_NE(session, nullptr);
  const Sums sums = RunUntil(session.get(), [](const Sums& s) { return s.completed >= 10; });
  EXPECT_LE(static_cast<double>(sums.completed), 2 * (ToSeconds(sums.ran) / 0.010 + 1));
}

TEST_F(SessionTest, NothingIsSentInTheSilentPartOfABurst) {
  SessionOptions options;
  options.grid_step = 5 * kMs;
  auto session = Make("", "threads = 2\nburst_on = \"50ms\"\nburst_off = \"50ms\"", options);
  ASSERT_NE(session, nullptr);
  RunUntil(session.get(), [](const Sums& s) { return s.ran >= 300 * kMs; });
  const DispatchGrid& grid = session->driver().grids()[0];
  int64_t active = 0;
  for (size_t step = 0; step < 60; ++step) {
    const size_t phase = step % 20;  // 0-9: on, 10-19: off; what is sent last may cross the edge
    if (phase < 10) {
      active += grid[step];
    } else if (phase >= 11) {
      EXPECT_EQ(grid[step], 0) << "at " << step * 5 << " ms";
    }
  }
  EXPECT_GT(active, 0);
}

TEST_F(SessionTest, ALoadRunsFromItsStartToItsStop) {
  SessionOptions options;
  options.grid_step = 5 * kMs;
  auto session = Make("", "threads = 4\nstart = \"50ms\"\nstop = \"100ms\"", options);
  ASSERT_NE(session, nullptr);
  RunUntil(session.get(), [](const Sums& s) { return s.ran >= 200 * kMs; });
  const DispatchGrid& grid = session->driver().grids()[0];
  int64_t active = 0;
  for (size_t step = 0; step < 40; ++step) {
    if (step >= 10 && step < 21) {
      active += grid[step];
    } else {
      EXPECT_EQ(grid[step], 0) << "at " << step * 5 << " ms";
    }
  }
  EXPECT_GT(active, 0);
}

TEST_F(SessionTest, PauseGivesUpWhatIsQueuedAndTheLoadStartsAgain) {
  auto session = Make("max_iops = 10", "threads = 64");
  ASSERT_NE(session, nullptr);
  for (int i = 0; i < 5; ++i) {
    // 64 requests would take six seconds at this limit.
    const Sums sums = RunUntil(session.get(), [](const Sums& s) { return s.stats.queued[0] > 0; });
    EXPECT_EQ(sums.stats.queued[0], 0u);
    EXPECT_EQ(sums.stats.in_flight, 0u);
    EXPECT_EQ(sums.failed, 0u);
  }
}

TEST_F(SessionTest, DeadlinesCountAsTimeoutsAndAreTriedAgainLater) {
  auto session = Make("max_iops = 10", "threads = 8\ndeadline = \"2ms\"");
  ASSERT_NE(session, nullptr);
  const Sums sums = RunUntil(session.get(), [](const Sums& s) { return s.timeouts >= 8; });
  EXPECT_EQ(sums.failed, 0u);
  const double retries = ToSeconds(sums.ran) / ToSeconds(kRetryAfterFailure) + 1;
  EXPECT_LE(static_cast<double>(sums.timeouts), 8 * retries);
}

TEST_F(SessionTest, WithoutIsolationNothingWaitsForALimit) {
  SessionOptions options;
  options.isolated = false;
  auto session = Make("max_iops = 1", "threads = 4", options);
  ASSERT_NE(session, nullptr);
  const Sums sums = RunUntil(session.get(), [](const Sums& s) { return s.completed >= 500; });
  EXPECT_GE(sums.completed, 500u);
}

}  // namespace
}  // namespace weir::app

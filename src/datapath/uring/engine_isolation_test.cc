// Groups get what they were promised, on a real file, and changes to them hold at once. Ratios and
// counts only: this says nothing about how fast the machine is.
#include <thread>

#include "base/monotonic_clock.h"
#include "base/random.h"
#include "datapath/uring/test_util.h"

namespace weir::uring {
namespace {

// Keeps `depth` reads of one group outstanding, from callbacks, until told to stop.
class Load {
 public:
  Load(Engine* engine, FileId file, core::GroupId group, int depth)
      : engine_(engine), file_(file), group_(group), buffer_(depth * kBlock), live_(depth) {
    EXPECT_TRUE(engine->Post([this, depth] {
      for (int i = 0; i < depth; ++i) Next(buffer_.get() + i * kBlock);
    }));
  }
  ~Load() { Stop(); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  void Stop() {
    stop_ = true;
    for (int live = live_.load(); live != 0; live = live_.load()) live_.wait(live);
  }
  // What is submitted from here on belongs to `group`.
  void Use(core::GroupId group) {
    const std::lock_guard lock(mutex_);
    group_ = group;
  }
  [[nodiscard]] int64_t done() const { return done_.load(); }
  [[nodiscard]] int64_t failed() const { return failed_.load(); }

 private:
  void Next(std::byte* buffer) {
    const int64_t offset = random_.Range(0, 63) * kBlock;
    const auto id = engine_->Submit(IoRequest::Read(file_, Group(), buffer, kBlock, offset),
                                    [this, buffer](const IoResult& result) {
                                      (result.ok() ? done_ : failed_).fetch_add(1);
                                      stop_ ? Ended() : Next(buffer);
                                    });
    if (!id) Ended();
  }
  core::GroupId Group() {
    const std::lock_guard lock(mutex_);
    return group_;
  }
  void Ended() {
    live_.fetch_sub(1);
    live_.notify_all();
  }

  Engine* engine_;
  FileId file_;
  std::mutex mutex_;
  core::GroupId group_;  // under mutex_
  Aligned buffer_;
  Random random_{1};
  std::atomic<bool> stop_{false};
  std::atomic<int> live_;
  std::atomic<int64_t> done_{0};
  std::atomic<int64_t> failed_{0};
};

ResourceParams MaxNorm(int64_t ops_per_s) {
  ResourceParams params;
  params.MaxOf(Dimension::kNorm, Scope::kBoth) = ops_per_s * kOp;
  return params;
}

class EngineIsolationTest : public testing::Test {
 protected:
  void Make(const EngineOptions& options) {
    engine_ = MakeEngine(options);
    file_ = *engine_->Open(dir_.File(64 * kBlock), O_RDONLY);
  }
  IoResult Read(core::GroupId group, TimePoint deadline = kNever) {
    IoRequest request = IoRequest::Read(file_, group, buffer_, kBlock, 0);
    request.deadline = deadline;
    return engine_->SubmitFuture(request).get();
  }
  Result<OpId> Submit(core::GroupId group, IoCallback callback, TimePoint deadline = kNever) {
    IoRequest request = IoRequest::Read(file_, group, buffer_, kBlock, 0);
    request.deadline = deadline;
    return engine_->Submit(request, callback);
  }

  // After this the next request of a group with MAX 1/s waits for about a second: one passes, and
  // one more as burst.
  void UseUpBurst(core::GroupId group) {
    ASSERT_TRUE(Read(group).ok());
    ASSERT_TRUE(Read(group).ok());
  }

  TempDir dir_;
  std::unique_ptr<Engine> engine_;
  FileId file_;
  char buffer_[kBlock];
};

TEST_F(EngineIsolationTest, AGroupNeverExceedsItsLimitBesideAFreeOne) {
  constexpr int64_t kRate = 400;
  Make(FixedDepth(16));
  const core::GroupId limited = AddGroup(engine_.get(), MaxNorm(kRate));
  const core::GroupId other = AddGroup(engine_.get());
  Load free_load(engine_.get(), file_, other, 2);
  Load load(engine_.get(), file_, limited, 8);
  const TimePoint start = MonotonicNow();
  while (load.done() < kRate / 2) std::this_thread::yield();
  const double elapsed = ToSeconds(MonotonicNow() - start);
  // Served <= rate * W + burst (10 ms) + one request; `done` may have moved on since.
  EXPECT_LE(static_cast<double>(kRate) / 2, kRate * elapsed + kRate * 0.01 + 2);
  const Result<core::GroupStats> stats = engine_->Stats(limited);
  const double served = static_cast<double>(stats->served[0][0]) / static_cast<double>(kOp);
  const double window = ToSeconds(MonotonicNow() - start);
  EXPECT_LE(served, kRate * window + kRate * 0.01 + 2);
  EXPECT_TRUE(stats->blocked_ns[0][2] > 0) << "counted as held back by MAX_IOPS(norm)";
  load.Stop();
  free_load.Stop();
}

TEST_F(EngineIsolationTest, WeightsShareABusyDevice) {
  Make(FixedDepth(4));
  ResourceParams two;
  two.weight = 200;
  const core::GroupId a = AddGroup(engine_.get(), two);
  const core::GroupId b = AddGroup(engine_.get());
  Load load_a(engine_.get(), file_, a, 16);
  Load load_b(engine_.get(), file_, b, 16);
  // Both are backlogged from here on, whatever the machine does.
  while (load_a.done() < 100 || load_b.done() < 100) std::this_thread::yield();
  const auto before = engine_->Stats({a, b});
  while (load_b.done() < 2100) std::this_thread::yield();
  const auto after = engine_->Stats({a, b});
  const auto served = [&](size_t i) {
    return static_cast<double>((*after)[i].served[0][0] - (*before)[i].served[0][0]);
  };
  EXPECT_NEAR(served(0) / served(1), 2.0, 0.05);
}

TEST_F(EngineIsolationTest, WithoutIsolationNothingIsHeldBackButAllIsCounted) {
  EngineOptions options = FixedDepth(1);
  options.isolation = false;
  Make(options);
  const core::GroupId group = AddGroup(engine_.get(), MaxNorm(1));
  Collector reads;
  for (size_t i = 0; i < 50; ++i) ASSERT_TRUE(Submit(group, reads.Keep(i)));
  reads.WaitForAll();
  const Result<core::GroupStats> stats = engine_->Stats(group);
  EXPECT_EQ(stats->requests, 50u);
  EXPECT_EQ(stats->completed, 50u);
  EXPECT_EQ(stats->served[2][0], 50 * kBlock);
  EXPECT_EQ(engine_->Stats(engine_->RootGroup())->completed, 50u);
}

TEST_F(EngineIsolationTest, ADeadlineThatCannotBeMetFailsAtOnce) {
  Make(FixedDepth(16));
  const core::GroupId group = AddGroup(engine_.get(), MaxNorm(1));
  UseUpBurst(group);
  Collector queued;
  for (size_t i = 0; i < 3'600; ++i) ASSERT_TRUE(Submit(group, queued.Keep(i)));
  const TimePoint deadline = MonotonicNow() + std::chrono::minutes(50);
  const IoResult result = Read(group, deadline);
  EXPECT_EQ(result.code, ErrorCode::kDeadlineExceeded);
  EXPECT_LT(result.completed_at, deadline);
  EXPECT_EQ(engine_->TotalStats().failed_fast, 1u);
  EXPECT_EQ(engine_->TotalStats().expired, 0u);
  ASSERT_TRUE(engine_->Stop(StopMode::kCancel));
  EXPECT_EQ(queued.CountOf(ErrorCode::kCancelled), 3'600);
}

TEST_F(EngineIsolationTest, ADeadlineThatPassesInTheQueueEndsTheRequest) {
  Make(FixedDepth(1));
  const core::GroupId group = AddGroup(engine_.get());
  Blocker blocker(engine_.get(), group);
  const TimePoint deadline = MonotonicNow() + std::chrono::milliseconds(5);
  const IoResult result = Read(group, deadline);
  EXPECT_EQ(result.code, ErrorCode::kDeadlineExceeded);
  EXPECT_GE(result.completed_at, deadline);
  EXPECT_EQ(engine_->TotalStats().expired, 1u);
  EXPECT_EQ(engine_->Stats(group)->expired, 1u);
  EXPECT_EQ(Read(group, deadline).code, ErrorCode::kDeadlineExceeded) << "already passed";
  blocker.Release();
  EXPECT_TRUE(Read(group).ok());
}

TEST_F(EngineIsolationTest, AQueuedRequestCanBeExplained) {
  Make(FixedDepth(16));
  const core::GroupId group = AddGroup(engine_.get(), MaxNorm(1));
  UseUpBurst(group);
  Collector reads;
  const Result<OpId> first = Submit(group, reads.Keep(0));
  const Result<OpId> second = Submit(group, reads.Keep(1));
  Result<core::Explanation> why = engine_->Explain(*first);
  ASSERT_TRUE(why) << why.error().message;
  EXPECT_EQ(why->why, core::Explanation::Why::kLimit);
  EXPECT_EQ(why->node, group);
  EXPECT_EQ(why->dimension, Dimension::kNorm);
  why = engine_->Explain(*second);
  ASSERT_TRUE(why);
  EXPECT_EQ(why->ahead, 1u);
  EXPECT_EQ(engine_->Cancel(*second), CancelOutcome::kCancelled);
  EXPECT_EQ(engine_->Cancel(*first), CancelOutcome::kCancelled);
  reads.WaitForAll();
  EXPECT_EQ(engine_->Explain(*first).error().code, ErrorCode::kNotFound);
}

TEST_F(EngineIsolationTest, RemovingAGroupCancelsWhatItHasQueued) {
  Make(FixedDepth(1));
  const core::GroupId stays = AddGroup(engine_.get());
  const core::GroupId goes = AddGroup(engine_.get());
  Blocker blocker(engine_.get(), stays);
  Collector reads;
  for (size_t i = 0; i < 5; ++i) ASSERT_TRUE(Submit(goes, reads.Keep(i)));
  ASSERT_TRUE(engine_->RemoveGroup(goes));
  reads.WaitForAll();
  EXPECT_EQ(reads.CountOf(ErrorCode::kCancelled), 5);
  EXPECT_EQ(engine_->RemoveGroup(goes).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Read(goes).code, ErrorCode::kNotFound);
}

TEST_F(EngineIsolationTest, RemovingAGroupCanHandItsQueueOn) {
  Make(FixedDepth(1));
  const core::GroupId stays = AddGroup(engine_.get());
  const core::GroupId goes = AddGroup(engine_.get());
  Blocker blocker(engine_.get(), stays);
  Collector reads;
  for (size_t i = 0; i < 5; ++i) ASSERT_TRUE(Submit(goes, reads.Keep(i)));
  ASSERT_TRUE(engine_->RemoveGroup(goes, stays));
  blocker.Release();
  reads.WaitForAll();
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(reads.result(i).ok());
  EXPECT_EQ(reads.order(), (std::vector<size_t>{0, 1, 2, 3, 4}));
}

TEST_F(EngineIsolationTest, GroupsComeAndGoUnderLoad) {
  Make(FixedDepth(8));
  const core::GroupId first = AddGroup(engine_.get());
  Load load(engine_.get(), file_, first, 32);
  core::GroupId current = first;
  for (int i = 0; i < 300; ++i) {
    const core::GroupId next = AddGroup(engine_.get());
    load.Use(next);
    if (i % 2 == 0) {
      ASSERT_TRUE(engine_->RemoveGroup(current, next));
    } else {
      ASSERT_TRUE(engine_->RemoveGroup(current));
    }
    current = next;
  }
  const int64_t done = load.done();
  while (load.done() < done + 100) std::this_thread::yield();
  load.Stop();
  const EngineStats stats = engine_->TotalStats();
  EXPECT_EQ(stats.submitted, stats.completed);
  EXPECT_EQ(stats.cost_in_flight, 0);
  EXPECT_EQ(engine_->Stats(engine_->RootGroup())->in_flight, 0u);
}

// Many live changes under load: all accepted, the last one wins.
TEST_F(EngineIsolationTest, AThousandLiveChangesUnderLoad) {
  Make(FixedDepth(8));
  const auto made = engine_->AddGroup(engine_->RootGroup(), ResourceParams{});
  std::vector<core::GroupId> groups;
  for (int i = 0; i < 8; ++i) groups.push_back(*engine_->AddGroup(*made, ResourceParams{}));
  Load a(engine_.get(), file_, groups[0], 8);
  Load b(engine_.get(), file_, groups[1], 8);
  for (int i = 1; i <= 1000; ++i) {
    ResourceParams params = MaxNorm(100'000 + i);
    params.weight = i;
    ASSERT_TRUE(engine_->SetParams(groups[static_cast<size_t>(i) % groups.size()], params));
    if (i % 100 == 0) {
      ASSERT_TRUE(engine_->MoveGroup(groups[2], i % 200 == 0 ? *made : engine_->RootGroup()));
    }
  }
  EXPECT_EQ(engine_->Params(groups[0])->weight, 1000);
  const int64_t done = a.done();
  while (a.done() < done + 50) std::this_thread::yield();
  EXPECT_EQ(a.failed() + b.failed(), 0);
}

TEST_F(EngineIsolationTest, RaisingALimitReleasesTheQueueAtOnce) {
  Make(FixedDepth(64));
  const core::GroupId group = AddGroup(engine_.get(), MaxNorm(1));
  Collector reads;
  for (size_t i = 0; i < 100; ++i) ASSERT_TRUE(Submit(group, reads.Keep(i)));
  ASSERT_TRUE(engine_->SetParams(group, ResourceParams{}));
  reads.WaitForAll();  // would take 100 s otherwise
  EXPECT_EQ(engine_->Stats(group)->completed, 100u);
}

TEST_F(EngineIsolationTest, ASetOfChangesAppliesAsAWhole) {
  Make(FixedDepth(4));
  const core::GroupId group = AddGroup(engine_.get());
  GroupChange good;
  good.group = group;
  good.params.weight = 7;
  GroupChange bad = good;
  bad.params.weight = -1;
  ASSERT_FALSE(engine_->Apply({good, bad}));
  EXPECT_EQ(engine_->Params(group)->weight, 100);
  ASSERT_TRUE(engine_->Apply({good}));
  EXPECT_EQ(engine_->Params(group)->weight, 7);
}

TEST_F(EngineIsolationTest, SyncsAreChargedToTheirGroup) {
  Make(FixedDepth(4));
  const core::GroupId group = AddGroup(engine_.get());
  const Result<FileId> file = engine_->Open(dir_.File(kBlock), O_RDWR);
  for (const IoRequest& request :
       {IoRequest::Fsync(*file, group), IoRequest::Fdatasync(*file, group)}) {
    const IoResult result = engine_->SubmitFuture(request).get();
    EXPECT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result.bytes, 0);
    EXPECT_EQ(result.cost, core::CostModel().Cost(Direction::kWrite, core::Access::kRandom, 4096));
  }
  EXPECT_EQ(engine_->Stats(group)->served[1][1], 2 * kOp);
}

}  // namespace
}  // namespace weir::uring

// Exactly one callback for every accepted request, whatever happens: cancels, full pools, stops at
// any moment, submissions from callbacks and from many threads.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstddef>
#include <thread>

#include "base/monotonic_clock.h"
#include "datapath/uring/test_util.h"

namespace weir::uring {
namespace {

class EngineLifecycleTest : public testing::Test {
 protected:
  void Make(const EngineOptions& options) {
    engine_ = MakeEngine(options);
    group_ = AddGroup(engine_.get());
    file_ = *engine_->Open(dir_.File(64 * kBlock), O_RDONLY);
  }
  IoRequest Read() { return IoRequest::Read(file_, group_, buffer_, kBlock, 0); }

  TempDir dir_;
  std::unique_ptr<Engine> engine_;
  core::GroupId group_;
  FileId file_;
  char buffer_[kBlock];
};

TEST_F(EngineLifecycleTest, OptionsOutOfRangeAreRefused) {
  EngineOptions options;
  options.max_outstanding = 0;
  EXPECT_EQ(Engine::Create(options).error().code, ErrorCode::kInvalidArgument);
  options = {};
  options.max_in_flight = kMaxEngineRing + 1;
  EXPECT_EQ(Engine::Create(options).error().code, ErrorCode::kInvalidArgument);
  options = {};
  options.max_piece_bytes = 1000;
  EXPECT_NE(Engine::Create(options).error().message.find("max_piece_bytes"), std::string::npos);
}

// In a child process that may not call io_uring_setup: the error says so and what to do.
TEST_F(EngineLifecycleTest, WithoutIoUringCreateSaysWhy) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog program{.len = 4, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
      _exit(77);
    }
    const Result<std::unique_ptr<Engine>> engine = Engine::Create({});
    const bool right = !engine && engine.error().code == ErrorCode::kUnavailable &&
                       engine.error().sys_errno == EPERM &&
                       engine.error().message.find("seccomp") != std::string::npos;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// A pool of one request is enough for a chain of them: the op is free when its callback runs.
TEST_F(EngineLifecycleTest, CallbacksMaySubmitAgain) {
  EngineOptions options = FixedDepth(4);
  options.max_outstanding = 1;
  Make(options);
  struct Chain {
    Engine* engine;
    IoRequest request;
    std::atomic<int> left{2000};
    void Next() {
      ASSERT_TRUE(engine->Submit(request, [this](const IoResult& result) {
        ASSERT_TRUE(result.ok());
        if (left.fetch_sub(1) > 1) return Next();
        left.notify_all();
      }));
    }
  } chain{engine_.get(), Read()};
  ASSERT_TRUE(engine_->Post([&] { chain.Next(); }));
  for (int left = chain.left; left != 0; left = chain.left) chain.left.wait(left);
}

// Failures found at once are reported from the round, never from inside Submit.
TEST_F(EngineLifecycleTest, FailingAtOnceInCallbacksDoesNotRecurse) {
  Make(FixedDepth(4));
  struct Chain {
    Engine* engine;
    core::GroupId group;
    std::atomic<int> left{20'000};
    bool inside = false;
    void Next() {
      ASSERT_FALSE(inside);
      inside = true;
      ASSERT_TRUE(engine->Submit(IoRequest::Read(FileId{}, group, nullptr, 1, 0),
                                 [this](const IoResult& result) {
                                   ASSERT_FALSE(inside);
                                   ASSERT_EQ(result.code, ErrorCode::kNotFound);
                                   if (left.fetch_sub(1) > 1) return Next();
                                   left.notify_all();
                                 }));
      inside = false;
    }
  } chain{engine_.get(), group_};
  ASSERT_TRUE(engine_->Post([&] { chain.Next(); }));
  for (int left = chain.left; left != 0; left = chain.left) chain.left.wait(left);
}

TEST_F(EngineLifecycleTest, CallbacksMayUseTheWholeInterface) {
  Make(FixedDepth(4));
  std::promise<void> done;
  const std::string path = dir_.File(kBlock);
  ASSERT_TRUE(engine_->Submit(Read(), [this, &done, &path](const IoResult&) {
    const Result<core::GroupId> group = engine_->AddGroup(engine_->RootGroup(), ResourceParams{});
    EXPECT_TRUE(group);
    EXPECT_TRUE(engine_->Stats(*group));
    const Result<FileId> file = engine_->Open(path, O_RDONLY);
    EXPECT_TRUE(file);
    const Result<BufferRegion> region = engine_->AllocateBuffers(kBlock);
    EXPECT_TRUE(region);
    EXPECT_TRUE(engine_->Close(*file));
    EXPECT_TRUE(engine_->FreeBuffers(*region));
    EXPECT_TRUE(engine_->RemoveGroup(*group));
    EXPECT_EQ(engine_->Stop(StopMode::kDrain).error().code, ErrorCode::kFailedPrecondition);
    done.set_value();
  }));
  done.get_future().wait();
}

TEST_F(EngineLifecycleTest, TooManyOutstandingAreRefusedUntilSomeComplete) {
  EngineOptions options = FixedDepth(1);
  options.max_outstanding = 10;
  Make(options);
  Blocker blocker(engine_.get(), group_);
  Collector reads;
  for (size_t i = 0; i < 9; ++i) ASSERT_TRUE(engine_->Submit(Read(), reads.Keep(i)));
  const Result<OpId> refused = engine_->Submit(Read(), [](const IoResult&) { FAIL(); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(engine_->SubmitFuture(Read()).get().code, ErrorCode::kResourceExhausted);
  blocker.Release();
  reads.WaitForAll();
  EXPECT_TRUE(engine_->SubmitFuture(Read()).get().ok());
}

TEST_F(EngineLifecycleTest, SubmittersMayWaitForRoom) {
  EngineOptions options = FixedDepth(4);
  options.max_outstanding = 2;
  options.block_when_full = true;
  Make(options);
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        ASSERT_TRUE(engine_->Submit(Read(), [&done](const IoResult&) { done.fetch_add(1); }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(engine_->Stop(StopMode::kDrain));
  EXPECT_EQ(done, 1600);
}

TEST_F(EngineLifecycleTest, AWaitingSubmitterIsReleasedByStop) {
  EngineOptions options = FixedDepth(1);
  options.max_outstanding = 1;
  options.block_when_full = true;
  Make(options);
  ResourceParams slow;
  slow.MaxOf(Dimension::kNorm, Scope::kBoth) = 1;
  ASSERT_TRUE(engine_->SetParams(group_, slow));
  // One passes, and one as burst.
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(engine_->SubmitFuture(Read()).get().ok());
  Collector reads;
  ASSERT_TRUE(engine_->Submit(Read(), reads.Keep(0)));  // held back for hours
  std::thread waiting([&] {
    const Result<OpId> id = engine_->Submit(Read(), reads.Keep(1));
    if (!id) {
      EXPECT_EQ(id.error().code, ErrorCode::kFailedPrecondition);
      reads.NotAccepted();
    }
  });
  ASSERT_TRUE(engine_->Stop(StopMode::kCancel));
  waiting.join();
  reads.WaitForAll();
  EXPECT_EQ(reads.result(0).code, ErrorCode::kCancelled);
}

TEST_F(EngineLifecycleTest, AQueuedRequestCanBeCancelledOnce) {
  Make(FixedDepth(1));
  Blocker blocker(engine_.get(), group_);
  Collector reads;
  const Result<OpId> id = engine_->Submit(Read(), reads.Keep(0));
  EXPECT_EQ(engine_->Cancel(*id), CancelOutcome::kCancelled);
  reads.WaitForAll();
  EXPECT_EQ(reads.result(0).code, ErrorCode::kCancelled);
  EXPECT_EQ(engine_->Cancel(*id), CancelOutcome::kUnknown);
  EXPECT_EQ(engine_->Cancel(OpId{}), CancelOutcome::kUnknown);
  EXPECT_EQ(engine_->TotalStats().cancelled, 1u);
  EXPECT_EQ(engine_->Stats(group_)->cancelled, 1u);
}

TEST_F(EngineLifecycleTest, ARequestThatTheKernelHoldsCanBeCancelled) {
  Make(FixedDepth(1));
  Blocker blocker(engine_.get(), group_);
  EXPECT_EQ(engine_->Cancel(blocker.op()), CancelOutcome::kTooLate);
  blocker.done().WaitForAll();
  EXPECT_EQ(blocker.result().code, ErrorCode::kCancelled);
}

TEST_F(EngineLifecycleTest, CancellingARequestInPiecesEndsAllOfThem) {
  EngineOptions options = FixedDepth(1);
  options.max_piece_bytes = kBlock;
  Make(options);
  Blocker blocker(engine_.get(), group_);
  Aligned data(16 * kBlock);
  Collector reads;
  const Result<OpId> id =
      engine_->Submit(IoRequest::Read(file_, group_, data.get(), 16 * kBlock, 0), reads.Keep(0));
  EXPECT_EQ(engine_->Cancel(*id), CancelOutcome::kCancelled);
  reads.WaitForAll();
  EXPECT_EQ(reads.result(0).code, ErrorCode::kCancelled);
  EXPECT_EQ(reads.result(0).bytes, 0);
  EXPECT_EQ(engine_->Stats(group_)->queued[0], 0u);
}

// Goal: cancelling at any moment gives one callback, whose result agrees with what Cancel said.
TEST_F(EngineLifecycleTest, CancelsRaceWithCompletions) {
  constexpr int kThreads = 4;
  constexpr size_t kRequests = 1500;
  Make(FixedDepth(4));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      Collector reads;
      std::vector<OpId> ids;
      for (size_t i = 0; i < kRequests; ++i) {
        ids.push_back(*engine_->Submit(Read(), reads.Keep(i)));
        const size_t victim = i % 3 == 0 ? i : i / 2;
        const CancelOutcome outcome = engine_->Cancel(ids[victim]);
        if (outcome == CancelOutcome::kCancelled) {
          reads.WaitFor(1);
          while (!reads.result(victim).failed) std::this_thread::yield();
          ASSERT_EQ(reads.result(victim).code, ErrorCode::kCancelled);
        }
      }
      reads.WaitForAll();
      EXPECT_EQ(reads.order().size(), kRequests) << "one callback each";
    });
  }
  for (std::thread& thread : threads) thread.join();
  const EngineStats stats = engine_->TotalStats();
  EXPECT_EQ(stats.submitted, kThreads * kRequests);
  EXPECT_EQ(stats.completed, stats.submitted);
}

TEST_F(EngineLifecycleTest, DrainCarriesOutEverythingAccepted) {
  Make(FixedDepth(2));
  Collector reads;
  for (size_t i = 0; i < 500; ++i) ASSERT_TRUE(engine_->Submit(Read(), reads.Keep(i)));
  ASSERT_TRUE(engine_->Stop(StopMode::kDrain));
  EXPECT_EQ(reads.arrived(), 500);
  for (size_t i = 0; i < 500; ++i) ASSERT_TRUE(reads.result(i).ok());
}

TEST_F(EngineLifecycleTest, ADrainThatTakesTooLongCancelsTheRest) {
  Make(FixedDepth(2));
  ResourceParams slow;
  slow.MaxOf(Dimension::kNorm, Scope::kBoth) = kOp / 1000;  // one in 1000 s
  ASSERT_TRUE(engine_->SetParams(group_, slow));
  Collector reads;
  for (size_t i = 0; i < 10; ++i) ASSERT_TRUE(engine_->Submit(Read(), reads.Keep(i)));
  ASSERT_TRUE(engine_->Stop(StopMode::kDrain, std::chrono::milliseconds(10)));
  EXPECT_EQ(reads.arrived(), 10);
  EXPECT_GE(reads.CountOf(ErrorCode::kCancelled), 8);
}

TEST_F(EngineLifecycleTest, AfterStopNothingIsAcceptedButStatisticsRemain) {
  Make(FixedDepth(2));
  ASSERT_TRUE(engine_->SubmitFuture(Read()).get().ok());
  ASSERT_TRUE(engine_->Stop(StopMode::kCancel));
  ASSERT_TRUE(engine_->Stop(StopMode::kDrain)) << "again";
  const Result<OpId> id = engine_->Submit(Read(), [](const IoResult&) { FAIL(); });
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(engine_->SubmitFuture(Read()).get().code, ErrorCode::kFailedPrecondition);
  EXPECT_FALSE(engine_->Post([] {}));
  EXPECT_FALSE(engine_->Open("/dev/null", O_RDONLY));
  EXPECT_EQ(engine_->Stats(group_)->completed, 1u);
  EXPECT_EQ(engine_->TotalStats().completed, 1u);
  EXPECT_EQ(engine_->Cancel(OpId{0, 1}), CancelOutcome::kUnknown);
}

// Goal: Stop at any moment, with 8 threads and callbacks submitting all the time, ends in bounded
// time with one callback for each accepted request.
TEST_F(EngineLifecycleTest, StopUnderLoadLosesNoCallback) {
  for (const StopMode mode : {StopMode::kDrain, StopMode::kCancel}) {
    for (int round = 0; round < 5; ++round) {
      Make(FixedDepth(4));
      std::atomic<int64_t> accepted{0};
      std::atomic<int64_t> called{0};
      struct Again {
        Engine* engine;
        IoRequest request;
        std::atomic<int64_t>* accepted;
        std::atomic<int64_t>* called;
        void Submit() {
          if (engine->Submit(request, [this](const IoResult&) {
                called->fetch_add(1);
                Submit();
              })) {
            accepted->fetch_add(1);
          }
        }
      } again{engine_.get(), Read(), &accepted, &called};
      std::vector<std::thread> threads;
      for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
          if (t == 0) again.Submit();
          while (true) {
            const auto id =
                engine_->Submit(Read(), [&called](const IoResult&) { called.fetch_add(1); });
            if (id) {
              accepted.fetch_add(1);
            } else if (id.error().code == ErrorCode::kFailedPrecondition) {
              break;
            }
          }
        });
      }
      while (called < 200 * (round + 1)) std::this_thread::yield();
      ASSERT_TRUE(engine_->Stop(mode, std::chrono::milliseconds(50)));
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ(accepted, called);
    }
  }
}

TEST_F(EngineLifecycleTest, DestroyingAnEngineWithABlockedRequestEnds) {
  Make(FixedDepth(1));
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Result<FileId> pipe = engine_->Adopt(ends[0]);
  Collector reads;
  ASSERT_TRUE(engine_->Submit(IoRequest::Read(*pipe, group_, buffer_, kBlock, 0), reads.Keep(0)));
  for (size_t i = 1; i < 4; ++i) ASSERT_TRUE(engine_->Submit(Read(), reads.Keep(i)));
  engine_.reset();
  EXPECT_EQ(reads.CountOf(ErrorCode::kCancelled), 4);
  close(ends[1]);
}

TEST_F(EngineLifecycleTest, EnginesAreIndependent) {
  Make(FixedDepth(2));
  auto other = MakeEngine(FixedDepth(2));
  const core::GroupId group = AddGroup(other.get());
  const Result<FileId> file = other->Open(dir_.File(kBlock), O_RDONLY);
  std::promise<bool> done;
  char buffer[kBlock];
  const IoRequest request = IoRequest::Read(*file, group, buffer, kBlock, 0);
  // From a callback of one engine into the other: as from any thread.
  ASSERT_TRUE(engine_->Submit(Read(), [&](const IoResult&) {
    EXPECT_TRUE(
        other->Submit(request, [&done](const IoResult& result) { done.set_value(result.ok()); }));
  }));
  EXPECT_TRUE(done.get_future().get());
}

}  // namespace
}  // namespace weir::uring

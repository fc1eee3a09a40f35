// Goal: a calibration gives a whole, usable profile within its time; cancelled at any moment, or
// with options that cannot be, it leaves nothing behind. Method: real runs on a small scratch file.
// Structure is checked, not numbers: the machine is shared.
#include "device/calibrate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "base/monotonic_clock.h"
#include "device/load_ring.h"
#include "device/scratch_directory.h"

namespace weir::device {
namespace {

namespace fs = std::filesystem;

class CalibrateTest : public testing::Test {
 protected:
  CalibrateTest() {
    std::string name = (ScratchDirectory() / "weir-calibrate-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
    options_.path = directory_.string();
    options_.size = 32 << 20;
    options_.budget = std::chrono::seconds(2);
    options_.sizes = {4096, 16384, 131072};
  }
  ~CalibrateTest() override { fs::remove_all(directory_); }

  fs::path directory_;
  CalibrateOptions options_;
};

TEST_F(CalibrateTest, MeasuresEveryPointAndFitsAUsableProfile) {
  std::set<std::string> steps;
  Result<Profile> profile = Fail(ErrorCode::kInternal, "not measured");
  // A disk that is busy with others needs longer.
  for (const int seconds : {2, 10, 50}) {
    options_.budget = std::chrono::seconds(seconds);
    double done = 0;
    profile = Calibrate(
        options_,
        [&](const CalibrateProgress& progress) {
          EXPECT_GE(progress.done, done);
          EXPECT_LE(progress.done, 1);
          done = progress.done;
          steps.insert(progress.step);
          EXPECT_TRUE(fs::is_empty(directory_));
        },
        nullptr);
    if (profile || profile.error().code != ErrorCode::kDeadlineExceeded) break;
  }
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_TRUE(fs::is_empty(directory_));
  EXPECT_TRUE(steps.contains("random read 16 KiB"));
  EXPECT_TRUE(steps.contains("sequential write 128 KiB"));
  ASSERT_EQ(profile->measurements.size(), 12u);
  for (const Measurement& m : profile->measurements) {
    EXPECT_GT(m.iops, 0);
    EXPECT_GT(m.depth1_latency_ns, 0);
    EXPECT_GE(m.depth, 1);
    EXPECT_GE(m.spread, 0);
  }
  EXPECT_EQ(profile->path, options_.path);
  EXPECT_EQ(profile->measured_at.size(), 20u) << profile->measured_at;
  const Result<core::CostModel> model = profile->Model();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->Cost(Direction::kRead, core::Access::kRandom, core::kReferenceBytes), kOp);
  EXPECT_GE(profile->CapacityPerSecond(), 10 * kOp);
  EXPECT_TRUE(ParseProfile(ProfileJson(*profile), "fresh"));
}

TEST_F(CalibrateTest, CancelledAtAnyMomentItLeavesNothingBehind) {
  options_.budget = kFullBudget;
  for (const int at : {0, 1, 2, 5, 15, 30}) {
    std::atomic<bool> cancel{at == 0};
    int calls = 0;
    const Result<Profile> profile = Calibrate(
        options_,
        [&](const CalibrateProgress&) {
          if (++calls == at) cancel.store(true);
        },
        &cancel);
    ASSERT_FALSE(profile) << at;
    EXPECT_EQ(profile.error().code, ErrorCode::kCancelled) << profile.error().message;
    EXPECT_GE(calls, at);  // it ends soon after, on a busy disk some calls later
    EXPECT_TRUE(fs::is_empty(directory_));
  }
}

TEST_F(CalibrateTest, AnotherThreadMayCancel) {
  options_.budget = kFullBudget;
  std::atomic<bool> cancel{false};
  std::atomic<bool> measuring{false};
  std::thread other([&] {
    measuring.wait(false);
    cancel.store(true);
  });
  const Result<Profile> profile = Calibrate(
      options_,
      [&](const CalibrateProgress& progress) {
        if (progress.step.starts_with("finding") && !measuring.exchange(true)) {
          measuring.notify_all();
        }
      },
      &cancel);
  other.join();
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, ErrorCode::kCancelled);
}

TEST_F(CalibrateTest, RefusesOptionsThatCannotBe) {
  const auto code = [](const CalibrateOptions& options) {
    return Calibrate(options, nullptr, nullptr).error().code;
  };
  CalibrateOptions options = options_;
  options.budget = std::chrono::milliseconds(1);
  EXPECT_EQ(code(options), ErrorCode::kInvalidArgument);
  options = options_;
  options.budget = std::chrono::seconds(-1);
  EXPECT_EQ(code(options), ErrorCode::kInvalidArgument);
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{
           {4096}, {0, 16384}, {-4096, 16384}, {5000, 16384}, {16384, int64_t{1} << 40}}) {
    options = options_;
    options.sizes = sizes;
    EXPECT_EQ(code(options), ErrorCode::kInvalidArgument);
  }
  options = options_;
  options.sizes = {16384, 16 << 20};  // a few requests would fill the whole scratch file
  EXPECT_EQ(code(options), ErrorCode::kInvalidArgument);
  options = options_;
  options.path = directory_.string() + "/missing";
  EXPECT_EQ(code(options), ErrorCode::kNotFound);
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(CalibrateTest, LayOutWritesTheWholeFileOrSaysHowFarItCame) {
  const Result<Target> target = Target::Open({options_.path, options_.size});
  ASSERT_TRUE(target) << target.error().message;
  Result<LoadRing> ring = LoadRing::Open(&*target, nullptr);
  ASSERT_TRUE(ring) << ring.error().message;
  int64_t reported = 0;
  const Result<int64_t> all = ring->LayOut(kNever, [&](int64_t bytes) { reported = bytes; });
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(*all, target->bytes());
  EXPECT_EQ(reported, target->bytes());
  // Out of time at once: what was already submitted, no more.
  const Result<int64_t> some = ring->LayOut(MonotonicNow(), [](int64_t) {});
  ASSERT_TRUE(some) << some.error().message;
  EXPECT_GT(*some, 0);
  EXPECT_LT(*some, target->bytes());
}

TEST_F(CalibrateTest, TheDeadlineEndsEverything) {
  const Result<Target> target = Target::Open({options_.path, options_.size});
  ASSERT_TRUE(target) << target.error().message;
  Result<LoadRing> ring = LoadRing::Open(&*target, nullptr);
  ASSERT_TRUE(ring) << ring.error().message;
  ASSERT_TRUE(ring->LayOut(kNever, [](int64_t) {}));
  ring->SetDeadline(MonotonicNow());
  const Result<Slice> slice = ring->Run({Direction::kWrite, core::Access::kRandom, 16384}, 8,
                                        std::chrono::hours(1), std::chrono::hours(1));
  ASSERT_FALSE(slice);
  EXPECT_EQ(slice.error().code, ErrorCode::kDeadlineExceeded);
}

TEST_F(CalibrateTest, AReadThatFailsIsReportedWithItsErrno) {
  const Result<Target> target = Target::Open({options_.path, options_.size});
  ASSERT_TRUE(target) << target.error().message;
  Result<LoadRing> ring = LoadRing::Open(&*target, nullptr);
  ASSERT_TRUE(ring) << ring.error().message;
  // Nothing was laid out: reads end before their first byte.
  const Result<Slice> slice =
      ring->Run({Direction::kRead, core::Access::kRandom, 16384}, 8, std::chrono::milliseconds(5),
                std::chrono::milliseconds(50));
  ASSERT_FALSE(slice);
  EXPECT_EQ(slice.error().code, ErrorCode::kIo);
  EXPECT_NE(slice.error().message.find("a read of 16 KiB"), std::string::npos)
      << slice.error().message;
}

}  // namespace
}  // namespace weir::device

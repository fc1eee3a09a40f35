// CostLearner: only windows in which the device was kept full teach the cost model anything.
#include "datapath/uring/cost_learner.h"

#include <gtest/gtest.h>

namespace weir::uring {
namespace {

using std::chrono::milliseconds;

constexpr TimePoint kStart = FromNanos(5'000'000'000);

// `count` completions after kStart, every `idle_every`th on a device with room to spare (0: none).
void Complete(CostLearner* learner, int count, int idle_every) {
  static_cast<void>(learner->TakeWindow(kStart));  // the first window starts here
  for (int i = 1; i <= count; ++i) {
    learner->Record(Direction::kWrite, 4096, kOp / 2, idle_every == 0 || i % idle_every != 0);
  }
}

TEST(CostLearnerTest, AFullWindowHoldsWhatCompleted) {
  CostLearner learner(true);
  Complete(&learner, 200, 0);
  EXPECT_FALSE(learner.TakeWindow(kStart + milliseconds(99))) << "too short";
  const auto window = learner.TakeWindow(kStart + milliseconds(110));
  ASSERT_TRUE(window);
  EXPECT_EQ(window->elapsed_ns, 110'000'000);
  const auto size_class = static_cast<size_t>(core::CostModel::ClassOf(4096));
  EXPECT_EQ(window->requests[1][size_class], 200);
  EXPECT_EQ(window->cost[1][size_class], 200 * kOp / 2);
  EXPECT_FALSE(learner.TakeWindow(kStart + milliseconds(220))) << "nothing since";
}

TEST(CostLearnerTest, WindowsThatTellNothingAreDropped) {
  struct Case {
    const char* why;
    bool enabled;
    int count;
    int idle_every;
    int length_ms;
    bool taken;
  };
  for (const Case& c : {Case{"full", true, 200, 0, 110, true},
                        Case{"one completion in fifty idle", true, 200, 50, 110, true},
                        Case{"one in ten idle", true, 200, 10, 110, false},
                        Case{"too few", true, 10, 0, 110, false},
                        Case{"a load that comes and goes", true, 200, 0, 250, false},
                        Case{"switched off", false, 200, 0, 110, false}}) {
    CostLearner learner(c.enabled);
    Complete(&learner, c.count, c.idle_every);
    EXPECT_EQ(learner.TakeWindow(kStart + milliseconds(c.length_ms)).has_value(), c.taken) << c.why;
  }
}

}  // namespace
}  // namespace weir::uring

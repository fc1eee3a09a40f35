// Goal: a pacer gives everything back once, not before its time, and nothing after Clear.
#include "app/bench_pacer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/monotonic_clock.h"

namespace weir::app {
namespace {

// Takes what a pacer gives and notes when.
class Receiver {
 public:
  void Take(const std::vector<Pacer::Entry>& due) {
    const TimePoint now = MonotonicNow();
    const std::lock_guard lock(mutex_);
    for (const Pacer::Entry& entry : due) {
      early_ = early_ || entry.at > now;
      order_kept_ = order_kept_ && entry.at >= last_;
      last_ = entry.at;
      got_.push_back(entry.what);
    }
    changed_.notify_all();
  }
  void Await(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return got_.size() >= count; });
  }
  std::vector<void*> got() {
    const std::lock_guard lock(mutex_);
    return got_;
  }
  [[nodiscard]] bool early() const { return early_; }
  [[nodiscard]] bool order_kept() const { return order_kept_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<void*> got_;
  TimePoint last_{};
  bool early_ = false;
  bool order_kept_ = true;
};

TEST(Pacer, GivesBackInOrderOfTimeAndNeverEarly) {
  Receiver receiver;
  int things[50];
  {
    Pacer pacer([&](const std::vector<Pacer::Entry>& due) { receiver.Take(due); });
    const TimePoint start = MonotonicNow();
    for (int i = 49; i >= 0; --i) {
      pacer.Add(start + std::chrono::milliseconds(20) + std::chrono::microseconds(200 * i),
                &things[i]);
    }
    receiver.Await(50);
  }
  EXPECT_FALSE(receiver.early());
  EXPECT_TRUE(receiver.order_kept());
  EXPECT_EQ(receiver.got().size(), 50u);
}

TEST(Pacer, ASoonerEntryWakesItFromALongerSleep) {
  Receiver receiver;
  int late = 0;
  int soon = 0;
  Pacer pacer([&](const std::vector<Pacer::Entry>& due) { receiver.Take(due); });
  pacer.Add(MonotonicNow() + std::chrono::hours(1), &late);
  pacer.Add(MonotonicNow() + std::chrono::milliseconds(5), &soon);
  receiver.Await(1);
  EXPECT_EQ(receiver.got(), std::vector<void*>{&soon});
}

TEST(Pacer, ClearDropsWhatIsNotDueAndWaitsForWhatIs) {
  std::atomic<bool> inside{false};
  std::atomic<bool> left{false};
  Pacer pacer([&](const std::vector<Pacer::Entry>&) {
    inside = true;
    inside.notify_all();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    left = true;
  });
  int thing = 0;
  pacer.Add(MonotonicNow() + std::chrono::hours(1), &thing);
  pacer.Add(MonotonicNow(), &thing);
  inside.wait(false);
  pacer.Clear();
  EXPECT_TRUE(left);
}

TEST(Pacer, TakesEntriesFromManyThreadsAndFromInside) {
  Receiver receiver;
  int thing = 0;
  std::atomic<int> again{100};
  Pacer* self = nullptr;
  Pacer pacer([&](const std::vector<Pacer::Entry>& due) {
    for (size_t i = 0; i < due.size(); ++i) {
      if (again.fetch_sub(1) > 0) self->Add(MonotonicNow(), &thing);
    }
    receiver.Take(due);
  });
  self = &pacer;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i)
        pacer.Add(MonotonicNow() + std::chrono::microseconds(i), &thing);
    });
  }
  for (std::thread& thread : threads) thread.join();
  receiver.Await(500);
  EXPECT_EQ(receiver.got().size(), 500u);
}

}  // namespace
}  // namespace weir::app

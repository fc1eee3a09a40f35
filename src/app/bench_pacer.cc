#include "app/bench_pacer.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "app/bench_priority.h"
#include "base/monotonic_clock.h"

namespace weir::app {

namespace {

bool Later(const Pacer::Entry& a, const Pacer::Entry& b) { return a.at > b.at; }

}  // namespace

Pacer::Pacer(Due due) : due_(std::move(due)), thread_([this] { Run(); }) {}

Pacer::~Pacer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Pacer::Add(TimePoint at, void* what) {
  bool sooner = false;
  {
    const std::lock_guard lock(mutex_);
    heap_.push_back({at, what});
    std::push_heap(heap_.begin(), heap_.end(), Later);
    sooner = at < sleeps_until_;
    if (sooner) sleeps_until_ = at;  // one call is enough
  }
  if (sooner) wake_.notify_one();
}

void Pacer::Clear() {
  std::unique_lock lock(mutex_);
  heap_.clear();
  idle_.wait(lock, [this] { return !delivering_; });
}

void Pacer::Run() {
  prctl(PR_SET_TIMERSLACK, 1000UL);  // the default of 50 us would stretch every think time
  RaisePriority();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const TimePoint now = MonotonicNow();
    std::vector<Entry> due;
    while (!heap_.empty() && heap_.front().at <= now) {
      std::pop_heap(heap_.begin(), heap_.end(), Later);
      due.push_back(heap_.back());
      heap_.pop_back();
    }
    if (!due.empty()) {
      delivering_ = true;
      lock.unlock();
      due_(std::move(due));
      lock.lock();
      delivering_ = false;
      idle_.notify_all();
      continue;
    }
    if (heap_.empty()) {
      sleeps_until_ = kNever;
      wake_.wait(lock);
    } else {
      sleeps_until_ = heap_.front().at;
      wake_.wait_until(lock, std::chrono::steady_clock::time_point(
                                 std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                     sleeps_until_.time_since_epoch())));
    }
    sleeps_until_ = TimePoint{};  // awake: it looks at the heap anyway
  }
}

}  // namespace weir::app

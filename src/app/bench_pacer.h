// A timer service for one receiver: what was added is handed back, in batches, once its time has
// come. For think times, arrival rates, bursts and starts of loads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/time.h"

namespace weir::app {

class Pacer {
 public:
  struct Entry {
    TimePoint at{};
    void* what = nullptr;
  };
  // Called on the pacer's thread with everything that is due, in order of time, without a lock.
  using Due = std::function<void(std::vector<Entry>)>;

  explicit Pacer(Due due);
  ~Pacer();  // entries that are not due are dropped
  Pacer(const Pacer&) = delete;
  Pacer& operator=(const Pacer&) = delete;

  // Threads: any. Cost: a short lock; one futex call if the pacer must wake sooner than it meant
  // to.
  void Add(TimePoint at, void* what);
  // Drops what is not due yet. After it returns `due` is not running and gets nothing old.
  void Clear();

 private:
  void Run();

  const Due due_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<Entry> heap_;  // under mutex_; earliest first
  TimePoint sleeps_until_{};
  bool delivering_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weir::app

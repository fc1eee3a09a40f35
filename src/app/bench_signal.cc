#include "app/bench_signal.h"

#include <pthread.h>

#include <algorithm>

#include "base/monotonic_clock.h"

namespace weir::app {

StopSignal::StopSignal() {
  sigemptyset(&watched_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&watched_, signal);
  pthread_sigmask(SIG_BLOCK, &watched_, &before_);
}

StopSignal::~StopSignal() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool StopSignal::WaitUntil(TimePoint when) {
  while (number_ == 0) {
    const Duration left = when - MonotonicNow();
    if (left <= Duration(0)) return Poll();
    if (Take(left)) return true;
  }
  return true;
}

bool StopSignal::Poll() { return number_ != 0 || Take(Duration(0)); }

bool StopSignal::Take(Duration wait) {
  const int64_t ns = std::max<int64_t>(0, wait.count());
  const timespec timeout{static_cast<time_t>(ns / 1'000'000'000),
                         static_cast<long>(ns % 1'000'000'000)};
  const int signal = sigtimedwait(&watched_, nullptr, &timeout);
  if (signal < 0) return false;  // the time is up, or another signal: the caller looks again
  number_ = signal;
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  return true;
}

}  // namespace weir::app

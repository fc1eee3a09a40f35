// Ctrl-C as a value: waits end early, the caller cleans up and prints what it has.
#pragma once

#include <csignal>

#include "base/time.h"

namespace weir::app {

// While one lives, SIGINT, SIGTERM and SIGHUP do not end the process; the waits below report them.
// After the first one they work as usual again, so that a second Ctrl-C ends a process that hangs.
// Make it before any other thread starts (threads inherit the mask). Threads: one.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Sleeps until `when` (CLOCK_MONOTONIC) or a signal. True if there has been one, now or before.
  bool WaitUntil(TimePoint when);
  // Without waiting.
  bool Poll();
  // The first signal's number; 0 = none so far.
  [[nodiscard]] int number() const { return number_; }

 private:
  bool Take(Duration wait);

  sigset_t watched_{};
  sigset_t before_{};
  int number_ = 0;
};

}  // namespace weir::app

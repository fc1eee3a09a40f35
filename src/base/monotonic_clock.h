// The clock of the edges. Not to be included by PURE parts (see base/time.h).
#pragma once

#include "base/time.h"

namespace weir {

// CLOCK_MONOTONIC. Threads: any.
[[nodiscard]] inline TimePoint MonotonicNow() {
  return TimePoint(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

}  // namespace weir

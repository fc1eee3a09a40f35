// Time as the pure parts see it: a point in time is given, never asked for.
//
// EngineClock has no now(): code under src/core, src/sim and src/scenario cannot read a clock even
// by accident. Edges read it with MonotonicNow() of base/monotonic_clock.h.
#pragma once

#include <chrono>
#include <cstdint>

namespace weir {

using Duration = std::chrono::nanoseconds;

struct EngineClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<EngineClock, duration>;
  static constexpr bool is_steady = true;
};

// Nanoseconds since an arbitrary start. Virtual in the simulator, CLOCK_MONOTONIC in production.
using TimePoint = EngineClock::time_point;

inline constexpr TimePoint kNever = TimePoint(Duration(INT64_MAX / 4));

constexpr TimePoint FromNanos(int64_t ns) { return TimePoint(Duration(ns)); }
constexpr int64_t ToNanos(TimePoint t) { return t.time_since_epoch().count(); }
constexpr int64_t ToNanos(Duration d) { return d.count(); }
constexpr double ToSeconds(Duration d) { return static_cast<double>(d.count()) / 1e9; }

}  // namespace weir

// A limit: a leaky bucket in its time form (generic cell rate algorithm).
//
// The bucket is described by one point in time, `tat`: when what was charged so far will have
// drained at `rate`. It is open while the level, tat - now, is at most the burst. Divisions carry
// their remainder, so no rate is ever rounded.
// Source: ITU-T Recommendation I.371, annex A (virtual scheduling algorithm).
#pragma once

#include <algorithm>
#include <cstdint>

namespace weir::core {

inline constexpr int64_t kNanosPerSecond = 1'000'000'000;
// Far beyond any run, and small enough that sums of three do not overflow.
inline constexpr int64_t kFarFuture = INT64_MAX / 4;

// Nanoseconds that `amount` takes at `rate` per second, with the remainder carried in *remainder.
// Requires: amount >= 0, rate > 0. Saturates at kFarFuture / 2.
inline int64_t ScaledNanos(int64_t amount, int64_t rate, int64_t* remainder) {
  if (amount < 4'000'000'000) {
    const int64_t numerator = amount * kNanosPerSecond + *remainder;
    const int64_t quotient = numerator / rate;
    *remainder = numerator - quotient * rate;
    return quotient;
  }
  const __int128 numerator = static_cast<__int128>(amount) * kNanosPerSecond + *remainder;
  const __int128 quotient = numerator / rate;
  if (quotient > kFarFuture / 2) {
    *remainder = 0;
    return kFarFuture / 2;
  }
  *remainder = static_cast<int64_t>(numerator - quotient * rate);
  return static_cast<int64_t>(quotient);
}

inline int64_t NanosAt(int64_t amount, int64_t rate) {
  int64_t remainder = 0;
  return ScaledNanos(amount, rate, &remainder);
}

struct alignas(64) Bucket {
  int64_t tat = 0;
  int64_t remainder = 0;
  int64_t burst_ns = 0;
  int64_t rate = 0;  // units per second
  // A burst that was not configured: the longest of what the whole tree needs (a turn that comes
  // late must not cost rate) and one of its own largest requests.
  bool automatic_burst = true;
  int64_t burst_base_ns = 0;
  int64_t largest = 0;

  [[nodiscard]] int64_t OpenAt() const { return tat - burst_ns; }

  void Charge(int64_t amount, int64_t now, int64_t default_burst_ns) {
    if (tat < now) {
      tat = now;
      remainder = 0;
      largest = 0;
    }
    if (automatic_burst && (amount > largest || burst_base_ns != default_burst_ns)) {
      largest = std::max(largest, amount);
      burst_base_ns = default_burst_ns;
      burst_ns = std::min(std::max(default_burst_ns, NanosAt(largest, rate)), kFarFuture / 2);
    }
    tat = std::min(tat + ScaledNanos(amount, rate, &remainder), kFarFuture);
  }
  // Takes back part of what was charged.
  void Refund(int64_t amount) { tat -= NanosAt(amount, rate); }

  // Changes the rate and the burst (in units, -1 = automatic). What may still pass at once, or is
  // owed, stays the same number of units, clipped to the new burst. (The level in units could be
  // many seconds of a much lower rate.)
  void SetRate(int64_t new_rate, int64_t new_burst, int64_t now, int64_t default_burst_ns) {
    const bool is_new = rate == 0;
    const int64_t credit_ns = burst_ns - std::max<int64_t>(0, tat - now);
    const __int128 credit = static_cast<__int128>(credit_ns) * rate / new_rate;
    remainder = 0;
    rate = new_rate;
    automatic_burst = new_burst < 0;
    burst_base_ns = default_burst_ns;
    burst_ns = automatic_burst ? std::max(default_burst_ns, NanosAt(largest, rate))
                               : NanosAt(new_burst, rate);
    burst_ns = std::min(burst_ns, kFarFuture / 2);
    const __int128 clipped = std::clamp<__int128>(credit, -kFarFuture / 2, burst_ns);
    tat = is_new ? now : now + burst_ns - static_cast<int64_t>(clipped);
  }
};

}  // namespace weir::core

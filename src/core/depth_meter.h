// Cuts the stream of a device's completions into epochs and measures each: its rate, whether the
// bound on the cost in flight was used, and whether the device ran dry. PURE; one owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace weir::core {

struct DepthEpoch {
  double rate = 0;         // cost per ns
  bool saturated = false;  // the bound was reached at half of the instants at least
  double dry = 0;          // share of the time at whose end everything in flight came back together
};

class DepthMeter {
 public:
  // The next `skip` completions still belong to another bound; the epoch begins after them.
  void Restart(uint64_t skip) { skip_ = skip; }

  // A completion: `in_flight` and `requests_in_flight` before it, `bound` on the cost in flight.
  // True if an epoch ended before this completion; `*epoch` is set then, and the completion counts
  // for the next one unless Restart() is called. Inline: once for each request.
  bool OnComplete(int64_t cost, int64_t in_flight, uint64_t requests_in_flight, int64_t bound,
                  TimePoint now, DepthEpoch* epoch) {
    if (now == instant_) {
      instant_cost_ += cost;
      ++instant_requests_;
      return false;
    }
    EndInstant();
    const bool over = IsOver();
    if (over) Finish(epoch);
    gap_before_ = now - instant_;
    instant_ = now;
    instant_cost_ = cost;
    instant_requests_ = 1;
    instant_in_flight_ = requests_in_flight;
    instant_full_ = in_flight >= bound ? 1 : 0;
    return over;
  }

 private:
  // An epoch has at least so many completions, so many times what is in flight, so long, and so
  // many of the longest recent gaps between completions.
  static constexpr uint64_t kCompletions = 48;
  static constexpr uint64_t kGenerations = 3;
  static constexpr Duration kLength = std::chrono::milliseconds(4);
  static constexpr int kGaps = 8;
  // As far as gaps lengthen it: those that large requests make too.
  static constexpr Duration kMaxGap = std::chrono::milliseconds(4);

  void EndInstant() {
    cost_ += instant_cost_;
    requests_ += instant_requests_;
    ++instants_;
    full_ += instant_full_;
    const bool together = instant_requests_ >= 2 && instant_requests_ >= instant_in_flight_;
    if (together || gap_before_ > kMaxGap) {
      TakeGap(together);
    } else {
      longest_gap_ = std::max(longest_gap_, gap_before_);
    }
    if (skip_ == 0) return;
    skip_ -= std::min(skip_, instant_requests_);
    Begin();
  }

  [[nodiscard]] bool IsOver() const {
    if (skip_ != 0 || requests_ < std::max(kCompletions, kGenerations * instant_in_flight_)) {
      return false;
    }
    return instant_ - begin_ >= std::max(kLength, longest_gap_ * kGaps) && IsAligned();
  }

  void Begin();
  void TakeGap(bool together);
  [[nodiscard]] bool IsAligned() const;
  void Finish(DepthEpoch* epoch);

  // Completions that are seen at the same time are one instant: an epoch consists of whole ones.
  TimePoint instant_{};
  Duration gap_before_{0};  // since the instant before
  int64_t instant_cost_ = 0;
  uint64_t instant_requests_ = 0;   // completed in it
  uint64_t instant_in_flight_ = 0;  // before its first completion
  uint32_t instant_full_ = 0;

  uint32_t instants_ = 0;
  uint32_t full_ = 0;
  uint64_t skip_ = 1;  // what came before the first instant is no epoch
  TimePoint begin_{};
  int64_t cost_ = 0;
  uint64_t requests_ = 0;
  Duration dry_{0};
  Duration longest_gap_{0};  // recent
};

}  // namespace weir::core

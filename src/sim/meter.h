// What each group of a World got, in windows of fixed length, and the latency of its requests:
// what checks and experiments ask after a run. PURE.
#pragma once

#include <cstdint>
#include <vector>

#include "base/histogram.h"
#include "sim/world.h"

namespace weir::sim {

class Meter {
 public:
  // Counts from now on. `window` is the resolution of all questions. The world must outlive it.
  Meter(World* world, Duration window);
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  // Dispatched to `group` and below in [from, to), in normalised ops (an inner group's requests
  // count for the groups above that it had at that time). Times are rounded down to windows.
  [[nodiscard]] double Served(core::GroupId group, Duration from, Duration to) const;
  [[nodiscard]] double Rate(core::GroupId group, Duration from, Duration to) const;  // per second
  // The least and most of all sums over `length` (a multiple of the window) that start at a window
  // in [from, to - length].
  [[nodiscard]] double Least(core::GroupId group, Duration length, Duration from,
                             Duration to) const;
  [[nodiscard]] double Most(core::GroupId group, Duration length, Duration from, Duration to) const;

  [[nodiscard]] uint64_t Requests(core::GroupId leaf) const;
  // Enqueue to completion, of requests completed so far (ResetLatency() forgets them).
  [[nodiscard]] const FineHistogram& Latency(core::GroupId leaf) const;
  void ResetLatency();

 private:
  struct Record {
    std::vector<int64_t> cost;  // by window
    uint64_t requests = 0;
    FineHistogram latency;
  };
  Record& At(core::GroupId group);
  [[nodiscard]] int64_t Sum(core::GroupId group, size_t first, size_t last) const;

  World* world_;
  Duration window_;
  std::vector<Record> records_;  // by group index
};

}  // namespace weir::sim

// A storage device in virtual time: parallel slots, noise, slow phases and stalls. PURE.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/resource_params.h"
#include "base/time.h"

namespace weir::sim {

struct DeviceOptions {
  int parallelism = 8;               // slots; each serves one request at a time
  Duration reference_time{800'000};  // of one normalised op in one slot
  double noise = 0;                  // 0..1: service times vary uniformly by +- this share
  double write_factor = 1;           // true cost of a write over the cost it is charged
  // In the first `stall_for` of every `stall_every` (not of the first) nothing moves. Requests that
  // start in the first `slow_for` of every `slow_every` take `slow_factor` times as long. 0 =
  // never.
  Duration stall_every{0}, stall_for{0};
  Duration slow_every{0}, slow_for{0};
  double slow_factor = 1;
};

class VirtualDevice {
 public:
  explicit VirtualDevice(const DeviceOptions& options);

  // Takes a request of `cost` (1/65536 op) that arrives at `now`; requests queue for the first
  // slot that is free. Returns when it completes; always later than `now`.
  // Requires: `now` does not run backwards. Cost: O(log parallelism).
  [[nodiscard]] TimePoint Submit(int64_t cost, Direction direction, TimePoint now, Random* random);

  // Normalised op per second at full load, without stalls and slow phases.
  [[nodiscard]] double capacity() const;

 private:
  [[nodiscard]] int64_t Finish(int64_t start, int64_t work) const;

  DeviceOptions options_;
  std::vector<int64_t> free_at_;  // a min-heap: when each slot is free
};

}  // namespace weir::sim

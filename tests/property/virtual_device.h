// A device of some slots in virtual time: a request takes the slot that is free first and keeps it
// for a time in proportion to its cost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/resource_params.h"

namespace weir::property {

struct DeviceOptions {
  int slots = 8;
  double ops_per_s = 10'000;   // of cost kOp, all slots together
  double noise = 0;            // service time varies by this share, both ways
  int64_t stall_every_ns = 0;  // 0 = never; nothing completes for stall_ns each time
  int64_t stall_ns = 0;
};

class VirtualDevice {
 public:
  VirtualDevice(const DeviceOptions& options, uint64_t seed)
      : options_(options), random_(seed), free_at_(static_cast<size_t>(options.slots), 0) {}

  // Sends a request; returns when it completes.
  int64_t Send(int64_t cost, int64_t now_ns) {
    int64_t& slot = *std::min_element(free_at_.begin(), free_at_.end());
    double ns = static_cast<double>(cost) / kOp * 1e9 * options_.slots / options_.ops_per_s;
    if (options_.noise > 0) ns *= 1 + options_.noise * (2 * random_.Uniform() - 1);
    int64_t done = std::max(now_ns, slot) + std::max<int64_t>(1, static_cast<int64_t>(ns));
    if (options_.stall_every_ns > 0) {
      const int64_t since = done % options_.stall_every_ns;
      if (done >= options_.stall_every_ns && since < options_.stall_ns) {
        done += options_.stall_ns - since;
      }
    }
    slot = done;
    return done;
  }

 private:
  DeviceOptions options_;
  Random random_;
  std::vector<int64_t> free_at_;
};

}  // namespace weir::property

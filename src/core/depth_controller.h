// Finds the smallest bound on the cost in flight that still gives the device's full rate.
//
// Isolation is lost once requests queue inside the device, so the bound D must be small; the
// device idles when it is too small. The controller compares completion *rates* at D and at 3/4 D
// in turn (a paired probe): latencies mislead on noisy devices, rates do not, and neither a stall
// nor a late reaper looks like a slower device. Once D stays, it probes a quarter of the time.
// docs/scheduler.md tells what was tried.
#pragma once

#include <cstdint>

#include "base/resource_params.h"
#include "base/time.h"

namespace weir::core {

// All depths are costs, in 1/65536 normalised op.
struct DepthOptions {
  bool automatic = true;
  int64_t initial = 8 * kOp;
  int64_t min = kOp;
  int64_t max = 4096 * kOp;
};

class DepthController {
 public:
  explicit DepthController(const DepthOptions& options);

  // Reports a completion of `cost`, with `in_flight` the cost in flight before it. Returns true if
  // depth() or headroom() changed.
  bool OnComplete(int64_t cost, int64_t in_flight, uint64_t requests_in_flight, TimePoint now);

  // The largest recent request. D leaves room for one of these even at 3/4: below that a large
  // request closes the door on all others, the rates are equal, and the probe would stay there.
  void SetLargest(int64_t cost);

  void Fix(int64_t depth);

  [[nodiscard]] int64_t depth() const { return current_; }
  [[nodiscard]] int64_t headroom() const { return current_ / 8 > kOp ? current_ / 8 : kOp; }

 private:
  struct Side {
    int64_t cost = 0;
    int64_t time_ns = 0;
  };
  void Apply(int64_t depth);
  void StartEpoch(TimePoint now);
  void NextEpoch(uint64_t requests_in_flight, TimePoint now);
  void Decide();

  DepthOptions options_;
  bool automatic_;
  int64_t floor_;
  int64_t full_;           // D
  int64_t current_;        // D, or 3/4 D in a probing epoch
  bool was_full_ = false;  // in flight reached the bound in this epoch
  uint64_t skip_ = 0;      // completions that still belong to the previous bound
  uint64_t completions_ = 0;
  int64_t epoch_cost_ = 0;
  TimePoint epoch_start_{};
  TimePoint last_completion_{};
  Duration gap_{0};         // longest between completions in this epoch,
  Duration recent_gap_{0};  // and slowly decaying
  Side sides_[2];           // at D, at 3/4 D
  int position_ = 0;        // in the probing order
  int rest_ = 0;            // epochs at D left before the next probe
  int stable_ = 0;          // decisions in a row that kept D
};

}  // namespace weir::core

// Finds the smallest bound on the cost in flight that still gives the device's full rate.
//
// Isolation is lost once requests queue inside the device, so the bound D must be small; the
// device idles when it is too small. The controller compares completion *rates* at D and at 3/4 D
// in turn (a paired probe): latencies mislead on noisy devices, rates do not, and neither a stall
// nor a late reaper looks like a slower device. Once D stays, it probes a sixth of the time.
// docs/scheduler.md has the rules.
#pragma once

#include <cstdint>

#include "base/resource_params.h"
#include "base/time.h"
#include "core/depth_meter.h"

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
  // Epochs come as full, probe, full, ...: each probe is compared with the full ones around it.
  enum class Step : uint8_t { kBefore, kProbe, kAfter };

  void Apply(int64_t depth);
  void OnEpoch(const DepthEpoch& epoch);
  void StartProbe();
  void Compare();
  void Move(double log_ratio);
  void EndReach(double log_ratio);

  DepthOptions options_;
  bool automatic_;
  int64_t largest_;  // request; no bound is below it
  int64_t floor_;
  int64_t full_;     // D
  int64_t current_;  // D, or what is tried instead of it
  DepthMeter meter_;

  Step step_ = Step::kBefore;
  int rests_ = 0;  // full epochs still to come before the next probe
  double rate_before_ = 0;
  double rate_probe_ = 0;
  double dry_ = 0;  // of the last full epoch

  // ln(rate of the probe / rate at D): how many, mean, sum of squared deviations.
  int ratios_ = 0;
  double mean_ = 0;
  double squares_ = 0;
  double usual_variance_;  // of one ratio, as seen in decisions before
  int stable_ = 0;         // decisions to keep D, in a row

  // Reaching for 4 D because the device runs dry.
  int64_t reach_from_ = 0;  // D before; 0 = not reaching
  int reach_wait_ = 0;      // decisions until the next try
  int reach_failed_ = 0;    // in a row
};

}  // namespace weir::core

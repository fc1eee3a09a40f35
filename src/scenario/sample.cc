#include "scenario/sample.h"

#include <algorithm>

namespace weir::scenario {
namespace {

double Delta(const core::GroupStats& before, const core::GroupStats& after, Dimension dimension,
             Direction direction) {
  const auto k = static_cast<size_t>(dimension);
  const auto d = static_cast<size_t>(direction);
  return static_cast<double>(after.served[k][d] - before.served[k][d]);
}

double DeltaBothWays(const core::GroupStats& before, const core::GroupStats& after,
                     Dimension dimension) {
  return Delta(before, after, dimension, Direction::kRead) +
         Delta(before, after, dimension, Direction::kWrite);
}

void SetPhases(const core::GroupStats& before, const core::GroupStats& after, GroupSample* sample) {
  double by_phase[core::kPhases];
  double sum = 0;
  for (size_t i = 0; i < core::kPhases; ++i) {
    by_phase[i] = static_cast<double>(after.norm_by_phase[i] - before.norm_by_phase[i]);
    sum += by_phase[i];
  }
  if (sum <= 0) return;
  sample->by_reservation = by_phase[static_cast<size_t>(core::Phase::kReservation)] / sum;
  sample->by_leftover = by_phase[static_cast<size_t>(core::Phase::kLeftover)] / sum;
  // What was let pass for the sake of others is paid back from the weighted share.
  sample->by_weight = 1 - sample->by_reservation - sample->by_leftover;
}

void SetBlocked(const core::GroupStats& before, const core::GroupStats& after, double seconds,
                GroupSample* sample) {
  int64_t longest = 0;
  for (size_t k = 0; k < kDimensions; ++k) {
    for (size_t s = 0; s < kScopes; ++s) {
      const int64_t ns = after.blocked_ns[k][s] - before.blocked_ns[k][s];
      if (ns <= longest) continue;
      longest = ns;
      sample->blocked_by = LimitName(static_cast<Dimension>(k), static_cast<Scope>(s));
    }
  }
  sample->blocked_share = std::min(1.0, static_cast<double>(longest) / (seconds * 1e9));
}

}  // namespace

GroupSample SampleOf(const core::GroupStats& before, const core::GroupStats& after,
                     double seconds) {
  GroupSample sample;
  constexpr auto kOneOp = static_cast<double>(kOp);
  const double raw = DeltaBothWays(before, after, Dimension::kRaw);
  sample.norm_iops = DeltaBothWays(before, after, Dimension::kNorm) / kOneOp / seconds;
  sample.raw_iops = raw / kOneOp / seconds;
  sample.bytes_per_s = DeltaBothWays(before, after, Dimension::kBytes) / seconds;
  if (raw > 0) sample.read_share = Delta(before, after, Dimension::kRaw, Direction::kRead) / raw;
  SetPhases(before, after, &sample);
  SetBlocked(before, after, seconds, &sample);
  sample.queued = after.queued[0] + after.queued[1];
  sample.timeouts = after.expired - before.expired;
  sample.wait = after.wait.Since(before.wait);
  return sample;
}

}  // namespace weir::scenario

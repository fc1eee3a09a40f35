#include "control/sampler.h"

#include <algorithm>
#include <utility>

#include "base/monotonic_clock.h"

namespace weir::control {
namespace {

std::shared_ptr<const Snapshot> Start() {
  auto start = std::make_shared<Snapshot>();
  start->at = MonotonicNow();
  start->plan = std::make_shared<Plan>();
  return start;
}

}  // namespace

Sampler::Sampler(Engine* engine, const PlanHolder* plans)
    : engine_(engine), plans_(plans), start_(Start()) {}

Result<std::shared_ptr<const Snapshot>> Sampler::Take() {
  Result<std::shared_ptr<const Snapshot>> taken = TakeOf(plans_->Current());
  // A plan may change while a large tree is read in parts.
  for (int again = 0; !taken && taken.error().code == ErrorCode::kNotFound && again < 3; ++again) {
    taken = TakeOf(plans_->Current());
  }
  if (!taken) return taken;
  kept_.push_back(*taken);
  size_t groups = 0;
  for (const auto& snapshot : kept_) groups += snapshot->groups.size();
  while (kept_.size() > 2 && (kept_.size() > kMaxKept || groups > kMaxKeptGroups)) {
    groups -= kept_.front()->groups.size();
    kept_.pop_front();
  }
  return taken;
}

Result<std::shared_ptr<const Snapshot>> Sampler::TakeOf(std::shared_ptr<const Plan> plan) {
  auto snapshot = std::make_shared<Snapshot>();
  const std::vector<core::GroupId>& groups = plan->groups;
  for (size_t begin = 0; begin < groups.size(); begin += kGroupsAtOnce) {
    const auto from = groups.begin() + static_cast<ptrdiff_t>(begin);
    const size_t count = std::min(kGroupsAtOnce, groups.size() - begin);
    auto part = engine_->Stats({from, from + static_cast<ptrdiff_t>(count)});
    if (!part) return tl::unexpected(std::move(part.error()));
    snapshot->groups.insert(snapshot->groups.end(), part->begin(), part->end());
  }
  snapshot->engine = engine_->TotalStats();
  snapshot->at = MonotonicNow();
  snapshot->plan = std::move(plan);
  snapshot->sequence = next_++;
  return snapshot;
}

std::shared_ptr<const Snapshot> Sampler::Before(uint64_t sequence, TimePoint now,
                                                Duration least) const {
  for (const auto& snapshot : kept_) {
    if (sequence != 0 && snapshot->sequence == sequence) return snapshot;
  }
  for (auto snapshot = kept_.rbegin(); snapshot != kept_.rend(); ++snapshot) {
    if (now - (*snapshot)->at >= least) return *snapshot;
  }
  return start_;
}

core::GroupStats StatsBefore(const Snapshot& before, const Snapshot& now, size_t i) {
  const core::GroupId group = now.plan->groups[i];
  const std::vector<core::GroupId>& groups = before.plan->groups;
  if (i < groups.size() && groups[i] == group) return before.groups[i];
  const auto found = std::find(groups.begin(), groups.end(), group);
  if (found == groups.end()) return {};
  return before.groups[static_cast<size_t>(found - groups.begin())];
}

}  // namespace weir::control

#include "sim/meter.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace weir::sim {

Meter::Meter(World* world, Duration window) : world_(world), window_(window) {
  WEIR_CHECK(window.count() > 0);
  world_->OnDispatch([this](const core::Request& request) {
    const auto slot = static_cast<size_t>(world_->elapsed() / window_);
    ++At(request.group).requests;
    for (core::GroupId group = request.group; group.index != UINT32_MAX;
         group = world_->Parent(group)) {
      std::vector<int64_t>& cost = At(group).cost;
      if (cost.size() <= slot) cost.resize(slot + 1);
      cost[slot] += request.cost;
    }
  });
  world_->OnComplete([this](const core::Request& request) {
    At(request.group).latency.Record(world_->now() - request.enqueued_at);
  });
}

Meter::Record& Meter::At(core::GroupId group) {
  if (records_.size() <= group.index) records_.resize(group.index + 1);
  return records_[group.index];
}

int64_t Meter::Sum(core::GroupId group, size_t first, size_t last) const {
  if (group.index >= records_.size()) return 0;
  const std::vector<int64_t>& cost = records_[group.index].cost;
  first = std::min(first, cost.size());
  last = std::clamp(last, first, cost.size());
  return std::accumulate(cost.begin() + static_cast<ptrdiff_t>(first),
                         cost.begin() + static_cast<ptrdiff_t>(last), int64_t{0});
}

double Meter::Served(core::GroupId group, Duration from, Duration to) const {
  return static_cast<double>(
             Sum(group, static_cast<size_t>(from / window_), static_cast<size_t>(to / window_))) /
         static_cast<double>(kOp);
}

double Meter::Rate(core::GroupId group, Duration from, Duration to) const {
  return Served(group, from, to) / ToSeconds(to - from);
}

double Meter::Least(core::GroupId group, Duration length, Duration from, Duration to) const {
  double least = Served(group, from, from + length);
  for (Duration start = from; start + length <= to; start += window_) {
    least = std::min(least, Served(group, start, start + length));
  }
  return least;
}

double Meter::Most(core::GroupId group, Duration length, Duration from, Duration to) const {
  double most = 0;
  for (Duration start = from; start + length <= to; start += window_) {
    most = std::max(most, Served(group, start, start + length));
  }
  return most;
}

uint64_t Meter::Requests(core::GroupId leaf) const {
  return leaf.index < records_.size() ? records_[leaf.index].requests : 0;
}

const FineHistogram& Meter::Latency(core::GroupId leaf) const {
  static const FineHistogram kEmpty;
  return leaf.index < records_.size() ? records_[leaf.index].latency : kEmpty;
}

void Meter::ResetLatency() {
  for (Record& record : records_) record.latency = FineHistogram{};
}

}  // namespace weir::sim

#include "sim/virtual_device.h"

#include <algorithm>
#include <functional>

namespace weir::sim {

VirtualDevice::VirtualDevice(const DeviceOptions& options) : options_(options) {
  options_.parallelism = std::max(1, options_.parallelism);
  free_at_.assign(static_cast<size_t>(options_.parallelism), 0);
}

double VirtualDevice::capacity() const {
  return options_.parallelism / ToSeconds(options_.reference_time);
}

TimePoint VirtualDevice::Submit(int64_t cost, Direction direction, TimePoint now, Random* random) {
  std::pop_heap(free_at_.begin(), free_at_.end(), std::greater<>());
  const int64_t start = std::max(free_at_.back(), ToNanos(now));
  double work = static_cast<double>(options_.reference_time.count()) * static_cast<double>(cost) /
                static_cast<double>(kOp);
  if (direction == Direction::kWrite) work *= options_.write_factor;
  if (options_.noise > 0) work *= 1 + options_.noise * (2 * random->Uniform() - 1);
  if (options_.slow_every.count() > 0 &&
      start % options_.slow_every.count() < options_.slow_for.count()) {
    work *= options_.slow_factor;
  }
  const int64_t finish = Finish(start, std::max<int64_t>(1, static_cast<int64_t>(work)));
  free_at_.back() = finish;
  std::push_heap(free_at_.begin(), free_at_.end(), std::greater<>());
  return FromNanos(finish);
}

// Work stands still during stalls.
int64_t VirtualDevice::Finish(int64_t start, int64_t work) const {
  const int64_t every = options_.stall_every.count();
  const int64_t length = std::min(options_.stall_for.count(), every - 1);
  if (every <= 0 || length <= 0) return start + work;
  int64_t at = start;
  if (at >= every && at % every < length) at += length - at % every;
  const int64_t per_period = every - length;
  const int64_t next_stall = (at / every + 1) * every;
  if (at + work <= next_stall) return at + work;
  work -= next_stall - at;
  const int64_t whole = (work - 1) / per_period;
  return next_stall + whole * every + length + (work - whole * per_period);
}

}  // namespace weir::sim

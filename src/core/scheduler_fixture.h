// For unit tests: a scheduler with a fixed depth, requests that live as long as the test, and a
// clock moved by hand.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "core/scheduler.h"

namespace weir::core {

inline constexpr int64_t kMillisecondNs = 1'000'000;
inline constexpr int64_t kSecondNs = 1'000 * kMillisecondNs;

class SchedulerFixture : public testing::Test {
 protected:
  explicit SchedulerFixture(int64_t depth = 1'000 * kOp) : scheduler_(Options(depth)) {}

  static SchedulerOptions Options(int64_t depth) {
    SchedulerOptions options;
    options.depth.automatic = false;
    options.depth.initial = options.depth.max = depth;
    options.depth.min = std::min(depth, kOp);
    return options;
  }

  [[nodiscard]] TimePoint now() const { return FromNanos(now_ns_); }
  void Advance(int64_t ns) { now_ns_ += ns; }

  GroupId Add(GroupId parent, const ResourceParams& params = {}) {
    const Result<GroupId> id = scheduler_.AddGroup(parent, params, now());
    EXPECT_TRUE(id.has_value()) << id.error().message;
    return *id;
  }
  GroupId Add(const ResourceParams& params = {}) { return Add(scheduler_.root(), params); }
  static ResourceParams Weight(int64_t weight) {
    ResourceParams params;
    params.weight = weight;
    return params;
  }
  static ResourceParams Min(int64_t ops) {
    ResourceParams params;
    params.MinOf(Dimension::kNorm) = ops * kOp;
    return params;
  }
  // Burst of one op.
  static ResourceParams Max(int64_t ops, Scope scope = Scope::kBoth) {
    ResourceParams params;
    params.MaxOf(Dimension::kNorm, scope) = ops * kOp;
    params.BurstOf(Dimension::kNorm, scope) = 0;
    return params;
  }

  Request* Make(GroupId group, Direction direction = Direction::kRead, int64_t cost = kOp) {
    Request& r = requests_.emplace_back();
    r.group = group;
    r.direction = direction;
    r.cost = cost;
    r.bytes = cost / 4;
    return &r;
  }
  Request* Queue(GroupId group, Direction direction = Direction::kRead, int64_t cost = kOp) {
    Request* r = Make(group, direction, cost);
    Queue(r);
    return r;
  }
  void Queue(Request* r) {
    const Result<void> queued = scheduler_.Enqueue(r, now());
    EXPECT_TRUE(queued.has_value()) << queued.error().message;
  }
  Request* Dispatch() { return scheduler_.Dispatch(now()); }
  std::vector<Request*> DispatchAll() {
    std::vector<Request*> all;
    while (Request* r = Dispatch()) all.push_back(r);
    scheduler_.CheckStructure(now());
    return all;
  }
  void Complete(Request* r) { scheduler_.Complete(r, now()); }
  [[nodiscard]] GroupStats Stats(GroupId group) { return *scheduler_.Stats(group, now()); }

  int64_t now_ns_ = 0;
  Scheduler scheduler_;
  std::deque<Request> requests_;
};

}  // namespace weir::core

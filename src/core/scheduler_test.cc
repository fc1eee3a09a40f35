// Goal: the data path keeps its promises call by call: order, limits, cancel, expedite, deadlines,
// explanations, counters. Method: single requests, a clock moved by hand. Shares and bounds over
// time are tested in tests/property.
#include "core/scheduler.h"

#include <cstdlib>
#include <new>
#include <optional>
#include <string>

#include "core/scheduler_fixture.h"

namespace {
// Counts allocations of this binary, for the data path must do none.
long allocations = 0;
}  // namespace

// Not inline: the compiler would take free() for a mistake. Both forms of new, since one delete
// serves both.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
[[gnu::noinline]] void* operator new(size_t size) {
  if (void* p = operator new(size, std::nothrow)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace weir::core {
namespace {

class DataPath : public SchedulerFixture {};

TEST_F(DataPath, RequestsOfOneFifoLeaveInOrder) {
  const GroupId g = Add();
  std::vector<Request*> queued;
  for (int i = 0; i < 10; ++i) queued.push_back(Queue(g));
  EXPECT_EQ(DispatchAll(), queued);
}

TEST_F(DataPath, BadRequestsAreRefusedUntouched) {
  const GroupId g = Add();
  const GroupId parent = Add();
  Add(parent);
  const auto refused = [&](Request r) -> std::optional<ErrorCode> {
    const Result<void> result = scheduler_.Enqueue(&r, now());
    if (result) return std::nullopt;
    return result.error().code;
  };
  Request good;
  good.group = g;
  Request bad = good;
  bad.group = GroupId{};
  EXPECT_EQ(refused(bad), ErrorCode::kNotFound);
  bad.group = parent;
  EXPECT_EQ(refused(bad), ErrorCode::kFailedPrecondition);
  for (int64_t cost : {int64_t{0}, int64_t{-1}, INT64_MAX}) {
    bad = good;
    bad.cost = cost;
    EXPECT_EQ(refused(bad), ErrorCode::kInvalidArgument) << cost;
    bad = good;
    bad.raw = cost;
    EXPECT_EQ(refused(bad), ErrorCode::kInvalidArgument) << cost;
  }
  bad = good;
  bad.bytes = -1;
  EXPECT_EQ(refused(bad), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Dispatch(), nullptr);
  EXPECT_EQ(Stats(g).queued[0], 0u);
}

TEST_F(DataPath, ReadsGoFirstAndWritesAreNotForgotten) {
  const GroupId g = Add();
  for (int i = 0; i < 3; ++i) Queue(g, Direction::kWrite);
  for (int i = 0; i < 12; ++i) Queue(g);
  std::string order;
  for (const Request* r : DispatchAll()) order += r->direction == Direction::kRead ? 'r' : 'w';
  EXPECT_EQ(order, "rrrrwrrrrwrrrrw");
}

TEST_F(DataPath, AWriteThatAgedTakesEverySecondTurn) {
  const GroupId g = Add();
  for (int i = 0; i < 3; ++i) Queue(g, Direction::kWrite);
  Advance(6 * kMillisecondNs);
  for (int i = 0; i < 5; ++i) Queue(g);
  std::string order;
  for (const Request* r : DispatchAll()) order += r->direction == Direction::kRead ? 'r' : 'w';
  EXPECT_EQ(order, "rwrwrwrr");
}

TEST_F(DataPath, AnFsyncWaiterLiftsWrites) {
  const GroupId g = Add();
  for (int i = 0; i < 8; ++i) {
    Request* r = Make(g, Direction::kWrite);
    r->sync = i == 7;
    Queue(r);
  }
  for (int i = 0; i < 8; ++i) Queue(g);
  std::string order;
  for (const Request* r : DispatchAll()) order += r->direction == Direction::kRead ? 'r' : 'w';
  EXPECT_EQ(order.substr(0, 10), "wwwwrwwwwr");
}

TEST_F(DataPath, ALimitOpensWhenNextWakeupSays) {
  const GroupId g = Add(Max(1'000));
  for (int i = 0; i < 3; ++i) Queue(g);
  EXPECT_NE(Dispatch(), nullptr);
  EXPECT_EQ(Dispatch(), nullptr);
  EXPECT_EQ(scheduler_.NextWakeup(now()), FromNanos(kMillisecondNs));
  Advance(kMillisecondNs - 1);
  EXPECT_EQ(Dispatch(), nullptr);
  Advance(1);
  EXPECT_NE(Dispatch(), nullptr);
}

TEST_F(DataPath, NothingToWaitForMeansNever) {
  const GroupId g = Add();
  EXPECT_EQ(scheduler_.NextWakeup(now()), kNever);
  Queue(g);
  DispatchAll();
  EXPECT_EQ(scheduler_.NextWakeup(now()), kNever);
}

TEST_F(DataPath, AnOversizeRequestPassesAndLeavesDebt) {
  const GroupId g = Add(Max(100));
  Queue(g, Direction::kRead, 64 * kOp);
  Queue(g);
  EXPECT_EQ(DispatchAll().size(), 1u);
  Advance(640 * kMillisecondNs - 1);
  EXPECT_EQ(Dispatch(), nullptr);
  Advance(1);
  EXPECT_NE(Dispatch(), nullptr);
}

TEST_F(DataPath, ALimitOfOneDirectionLeavesTheOtherOpen) {
  const GroupId g = Add(Max(1, Scope::kWrite));
  for (int i = 0; i < 3; ++i) Queue(g, Direction::kWrite);
  for (int i = 0; i < 3; ++i) Queue(g);
  int writes = 0;
  for (const Request* r : DispatchAll()) writes += r->direction == Direction::kWrite ? 1 : 0;
  EXPECT_EQ(writes, 1);
  EXPECT_EQ(Stats(g).requests, 4u);
}

TEST_F(DataPath, CancelTakesOutAQueuedRequestOnly) {
  const GroupId g = Add();
  Request* first = Queue(g);
  Request* second = Queue(g);
  EXPECT_TRUE(scheduler_.Cancel(first, now()));
  EXPECT_FALSE(scheduler_.Cancel(first, now()));
  EXPECT_EQ(Dispatch(), second);
  EXPECT_FALSE(scheduler_.Cancel(second, now()));
  Complete(second);
  EXPECT_FALSE(scheduler_.Cancel(second, now()));
  const GroupStats stats = Stats(g);
  EXPECT_EQ(stats.cancelled, 1u);
  EXPECT_EQ(stats.requests, 1u);
  Queue(first);  // free to be used again
  EXPECT_EQ(Dispatch(), first);
}

TEST_F(DataPath, ExpediteGoesAheadOfLimitsAndOthersAndIsCharged) {
  const GroupId limited = Add(Max(1)), other = Add();
  Queue(limited);
  Request* urgent = Queue(limited);
  EXPECT_NE(Dispatch(), nullptr);
  Queue(other);
  EXPECT_TRUE(scheduler_.Expedite(urgent, now()));
  EXPECT_FALSE(scheduler_.Expedite(urgent, now()));
  EXPECT_EQ(Dispatch(), urgent);
  EXPECT_EQ(urgent->phase, Phase::kExpedited);
  EXPECT_EQ(Stats(limited).served[0][0], 2 * kOp);
  Queue(limited);
  EXPECT_EQ(DispatchAll().size(), 1u);  // the other group's
  Advance(2 * kSecondNs);
  EXPECT_EQ(DispatchAll().size(), 1u);
}

TEST_F(DataPath, AnExpeditedRequestCanBeCancelledOrExpire) {
  const GroupId g = Add();
  Request* a = Queue(g);
  Request* b = Make(g);
  b->deadline = FromNanos(5);
  Queue(b);
  EXPECT_TRUE(scheduler_.Expedite(a, now()));
  EXPECT_TRUE(scheduler_.Expedite(b, now()));
  EXPECT_TRUE(scheduler_.Cancel(a, now()));
  Advance(5);
  EXPECT_EQ(scheduler_.PopExpired(now()), b);
  EXPECT_EQ(Dispatch(), nullptr);
  scheduler_.CheckStructure(now());
}

TEST_F(DataPath, RequestsExpireAtTheirDeadlineEarliestFirst) {
  const GroupId g = Add(Max(1)), h = Add();
  Queue(g);
  DispatchAll();
  const auto queue = [&](GroupId group, int64_t deadline) {
    Request* r = Make(group);
    r->deadline = FromNanos(deadline);
    Queue(r);
    return r;
  };
  Request* late = queue(g, 300);
  Request* early = queue(g, 100);
  Request* served = queue(h, 100);
  EXPECT_EQ(Dispatch(), served);
  EXPECT_EQ(scheduler_.NextWakeup(now()), FromNanos(100));
  Advance(99);
  EXPECT_EQ(scheduler_.PopExpired(now()), nullptr);
  Advance(1);
  EXPECT_EQ(scheduler_.PopExpired(now()), early);
  EXPECT_EQ(scheduler_.PopExpired(now()), nullptr);
  Advance(200);
  EXPECT_EQ(scheduler_.PopExpired(now()), late);
  const GroupStats stats = Stats(g);
  EXPECT_EQ(stats.expired, 2u);
  EXPECT_EQ(stats.throttle_timeouts, 2u);  // a limit held them back
}

TEST_F(DataPath, PredictWaitKnowsTheLimitAndTheQueueAhead) {
  const GroupId g = Add(Max(1'000));
  const auto predicted = [&] {
    return ToNanos(scheduler_.PredictWait(g, Direction::kRead, kOp, kOp, 16'384, now()));
  };
  EXPECT_EQ(predicted(), 0);
  Queue(g);
  DispatchAll();
  EXPECT_NEAR(static_cast<double>(predicted()), kMillisecondNs, 1);
  for (int i = 0; i < 20; ++i) Queue(g);
  EXPECT_NEAR(static_cast<double>(predicted()), 21 * kMillisecondNs, 21);
}

TEST_F(DataPath, ExplainNamesWhatHoldsARequestBack) {
  const GroupId tenant = Add(Max(1, Scope::kRead)), g = Add(tenant), other = Add();
  Request* first = Queue(g);
  EXPECT_EQ(scheduler_.Explain(*first, now()).why, Explanation::Why::kBehindSiblings);
  Request* second = Queue(g);
  EXPECT_EQ(scheduler_.Explain(*second, now()).why, Explanation::Why::kBehindOwnQueue);
  EXPECT_EQ(scheduler_.Explain(*second, now()).ahead, 1u);
  Advance(10);
  EXPECT_EQ(Dispatch(), first);
  EXPECT_EQ(scheduler_.Explain(*first, now()).why, Explanation::Why::kNotQueued);
  const Explanation e = scheduler_.Explain(*second, now());
  EXPECT_EQ(e.why, Explanation::Why::kLimit);
  EXPECT_EQ(e.node, tenant);
  EXPECT_EQ(e.dimension, Dimension::kNorm);
  EXPECT_EQ(e.scope, Scope::kRead);
  EXPECT_EQ(e.since, FromNanos(10));
  EXPECT_EQ(e.until, FromNanos(10 + kSecondNs));
  Request* big = Queue(other, Direction::kRead, 2'000 * kOp);
  Request* next = Queue(other);
  EXPECT_EQ(Dispatch(), big);
  EXPECT_EQ(scheduler_.Explain(*next, now()).why, Explanation::Why::kDeviceBusy);
}

TEST_F(DataPath, OnlyDueRequestsUseTheHeadroom) {
  scheduler_.SetDepth(8 * kOp);
  const GroupId reserved = Add(Min(1'000)), weighted = Add(Weight(10'000));
  for (int i = 0; i < 20; ++i) Queue(weighted);
  EXPECT_EQ(DispatchAll().size(), 8u);
  EXPECT_FALSE(scheduler_.HasEligible(now()));
  Queue(reserved);
  const std::vector<Request*> more = DispatchAll();
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0]->group, reserved);
  EXPECT_EQ(more[0]->phase, Phase::kReservation);
  Queue(reserved);
  EXPECT_EQ(DispatchAll().size(), 0u) << "one op of headroom is used";
  Complete(more[0]);
  EXPECT_EQ(DispatchAll().size(), 0u) << "the next is not due yet";
  Advance(ToNanos(scheduler_.NextWakeup(now())) - now_ns_);
  EXPECT_EQ(DispatchAll().size(), 1u);
}

TEST_F(DataPath, CountersTellByWhichPromiseARequestWasServed) {
  const GroupId reserved = Add(Min(1)), weighted = Add(), leftover = Add(Weight(0));
  for (const GroupId g : {reserved, weighted, leftover}) Queue(g);
  const std::vector<Request*> served = DispatchAll();
  ASSERT_EQ(served.size(), 3u);
  EXPECT_EQ(served[0]->phase, Phase::kReservation);
  EXPECT_EQ(served[1]->phase, Phase::kWeight);
  EXPECT_EQ(served[2]->phase, Phase::kLeftover);
  const GroupStats root = Stats(scheduler_.root());
  EXPECT_EQ(root.requests, 3u);
  for (int phase = 0; phase < 3; ++phase) {
    EXPECT_EQ(root.requests_by_phase[static_cast<size_t>(phase)], 1u);
    EXPECT_EQ(root.norm_by_phase[static_cast<size_t>(phase)], kOp);
  }
}

TEST_F(DataPath, ACorrectedCostIsCarriedBothWays) {
  const GroupId g = Add(Max(1'000));
  Request* r = Queue(g);
  DispatchAll();
  scheduler_.Complete(r, now(), 3 * kOp);
  EXPECT_EQ(Stats(g).served[0][0], 3 * kOp);
  Queue(g);
  EXPECT_EQ(scheduler_.NextWakeup(now()), FromNanos(3 * kMillisecondNs));
  Advance(3 * kMillisecondNs);
  r = Dispatch();
  ASSERT_NE(r, nullptr);
  scheduler_.Complete(r, now(), kOp / 2);
  EXPECT_EQ(Stats(g).served[0][0], 3 * kOp + kOp / 2);
  Queue(g);
  EXPECT_EQ(scheduler_.NextWakeup(now()), FromNanos(now_ns_ + kMillisecondNs / 2));
  EXPECT_EQ(scheduler_.cost_in_flight(), 0);
}

TEST_F(DataPath, DoesNotAllocate) {
  const GroupId tenant = Add(Min(500));
  std::vector<GroupId> groups;
  for (int i = 0; i < 50; ++i) {
    ResourceParams params = Max(100);
    params.MinOf(Dimension::kNorm) = 10 * kOp;
    params.MinOf(Dimension::kBytes) = 100'000;
    groups.push_back(Add(tenant, params));
  }
  for (const GroupId g : groups) {
    for (int i = 0; i < 20; ++i) Make(g, i % 3 == 0 ? Direction::kWrite : Direction::kRead);
  }
  for (size_t i = 0; i < requests_.size(); i += 7) requests_[i].deadline = FromNanos(kSecondNs);
  std::vector<Request*> in_flight;
  in_flight.reserve(requests_.size());
  const long before = allocations;
  for (Request& r : requests_) ASSERT_TRUE(scheduler_.Enqueue(&r, now()));
  for (size_t i = 0; i < requests_.size(); i += 11) (void)scheduler_.Cancel(&requests_[i], now());
  for (size_t i = 5; i < requests_.size(); i += 11) (void)scheduler_.Expedite(&requests_[i], now());
  for (int step = 0; step < 2'000; ++step) {
    while (Request* r = Dispatch()) in_flight.push_back(r);
    while (scheduler_.PopExpired(now()) != nullptr) {
    }
    if (!in_flight.empty()) {
      scheduler_.Complete(in_flight.back(), now(), step % 2 == 0 ? kOp / 2 : 0);
      in_flight.pop_back();
    }
    (void)scheduler_.NextWakeup(now());
    Advance(kMillisecondNs);
  }
  EXPECT_EQ(allocations, before);
}

// At weight 1 each request of the largest cost moves virtual time by 2^50: it wraps around every
// 16,384 requests. Shares, wakes and the weight-0 class must not notice.
TEST_F(DataPath, VirtualTimeMayWrapAround) {
  constexpr int64_t kCost = int64_t{1} << 40;
  scheduler_.SetDepth(4 * kCost);
  const GroupId a = Add(Weight(1)), b = Add(Weight(2)), sleeper = Add(Weight(1));
  const GroupId zero = Add(Weight(0)), other_zero = Add(Weight(0));
  std::vector<Request*> idle;
  for (const GroupId g : {a, b}) {
    for (int i = 0; i < 4; ++i) Queue(g, Direction::kRead, kCost);
  }
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      Advance(1'000);
      Request* r = Dispatch();
      ASSERT_NE(r, nullptr);
      Complete(r);
      Queue(r);
    }
  };
  Request* rare = Make(sleeper, Direction::kRead, kCost);
  for (int round = 0; round < 40; ++round) {
    const int64_t served_a = Stats(a).served[0][0], served_b = Stats(b).served[0][0];
    run(3'000);
    EXPECT_NEAR(static_cast<double>(Stats(a).served[0][0] - served_a) / kCost, 1'000, 2) << round;
    EXPECT_NEAR(static_cast<double>(Stats(b).served[0][0] - served_b) / kCost, 2'000, 2) << round;
    // Whoever wakes after long sleep is served within a few turns, and takes no more than its part.
    Queue(rare);
    int turns = 0;
    for (Request* r = nullptr; r != rare; ++turns) {
      ASSERT_LT(turns, 10) << round;
      r = Dispatch();
      ASSERT_NE(r, nullptr);
      Complete(r);
      if (r != rare) Queue(r);
    }
    scheduler_.CheckStructure(now());
  }
  // The same among groups of weight 0, once they are alone.
  while (Request* r = Dispatch()) idle.push_back(r);
  for (Request& r : requests_) (void)scheduler_.Cancel(&r, now());
  for (Request* r : idle) Complete(r);
  for (const GroupId g : {zero, other_zero}) {
    for (int i = 0; i < 4; ++i) Queue(g, Direction::kRead, kCost);
  }
  run(50'000);
  EXPECT_NEAR(static_cast<double>(Stats(zero).served[0][0]) / kCost, 25'000, 2);
}

}  // namespace
}  // namespace weir::core

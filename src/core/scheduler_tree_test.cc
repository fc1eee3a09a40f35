// Goal: the tree and its parameters change under load without losing, mixing up or double counting
// a request, and wrong changes are refused and change nothing.
// Method: single requests, a clock moved by hand; CheckStructure recomputes everything.
#include "core/scheduler_fixture.h"

namespace weir::core {
namespace {

class Tree : public SchedulerFixture {
 protected:
  static ErrorCode CodeOf(const auto& result) {
    EXPECT_FALSE(result.has_value());
    return result.has_value() ? ErrorCode::kInternal : result.error().code;
  }
};

TEST_F(Tree, WrongParametersAreRefusedAndChangeNothing) {
  const GroupId g = Add(Min(10));
  const ResourceParams before = *scheduler_.Params(g);
  std::vector<ResourceParams> wrong(6, before);
  wrong[0].MinOf(Dimension::kRaw) = -1;
  wrong[1].MaxOf(Dimension::kBytes, Scope::kRead) = 0;
  wrong[2].MaxOf(Dimension::kNorm, Scope::kBoth) = 9 * kOp;  // below MIN
  wrong[3].BurstOf(Dimension::kNorm, Scope::kBoth) = -2;
  wrong[4].weight = -1;
  wrong[5].weight = kMaxWeight + 1;
  for (const ResourceParams& params : wrong) {
    EXPECT_EQ(CodeOf(scheduler_.SetParams(g, params, now())), ErrorCode::kInvalidArgument);
    EXPECT_EQ(CodeOf(scheduler_.AddGroup(g, params, now())), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(*scheduler_.Params(g), before);
  EXPECT_TRUE(scheduler_.Children(g).empty());
}

TEST_F(Tree, RatesAboveTheMaximumCountAsTheMaximum) {
  ResourceParams params;
  params.MaxOf(Dimension::kBytes, Scope::kBoth) = kUnlimited - 1;
  params.MinOf(Dimension::kBytes) = kMaxRate + 1;
  const GroupId g = Add(params);
  for (int i = 0; i < 100; ++i) Queue(g);
  EXPECT_EQ(DispatchAll().size(), 100u);
}

TEST_F(Tree, IsAtMostEightLevelsDeep) {
  GroupId g = scheduler_.root();
  for (int i = 0; i < kMaxDepth; ++i) g = Add(g);
  EXPECT_EQ(CodeOf(scheduler_.AddGroup(g, {}, now())), ErrorCode::kResourceExhausted);
  Queue(g);
  EXPECT_EQ(DispatchAll().size(), 1u);
  const GroupId two = Add(), below = Add(two);
  Add(below);
  const GroupId seventh = *scheduler_.AddGroup(scheduler_.root(), {}, now());
  GroupId deep = seventh;
  for (int i = 0; i < kMaxDepth - 2; ++i) deep = Add(deep);
  EXPECT_EQ(CodeOf(scheduler_.MoveGroup(two, deep, now())), ErrorCode::kResourceExhausted);
}

TEST_F(Tree, UnknownGroupsAreNotFound) {
  const GroupId gone = Add();
  std::vector<Request*> orphans;
  ASSERT_TRUE(scheduler_.RemoveGroup(gone, now(), &orphans));
  const GroupId newer = Add();  // takes the same place
  EXPECT_EQ(newer.index, gone.index);
  EXPECT_NE(newer, gone);
  EXPECT_EQ(CodeOf(scheduler_.AddGroup(gone, {}, now())), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(scheduler_.RemoveGroup(gone, now(), &orphans)), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(scheduler_.MoveGroup(gone, newer, now())), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(scheduler_.MoveGroup(newer, gone, now())), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(scheduler_.SetParams(gone, {}, now())), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(scheduler_.Params(gone)), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(scheduler_.TakeQueued(gone, now(), &orphans)), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(scheduler_.Stats(gone, now())), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(scheduler_.Enqueue(Make(gone), now())), ErrorCode::kNotFound);
}

TEST_F(Tree, ARemovedGroupGivesBackItsQueueAndCompletesWhatIsInFlight) {
  const GroupId tenant = Add(), g = Add(tenant);
  Request* in_flight = Queue(g);
  EXPECT_EQ(Dispatch(), in_flight);
  const std::vector<Request*> queued = {Queue(g), Queue(g)};
  std::vector<Request*> orphans;
  ASSERT_TRUE(scheduler_.RemoveGroup(g, now(), &orphans));
  EXPECT_EQ(orphans, queued);
  EXPECT_EQ(DispatchAll().size(), 0u);
  EXPECT_EQ(scheduler_.requests_in_flight(), 1u);
  Complete(in_flight);
  EXPECT_EQ(scheduler_.cost_in_flight(), 0);
  const GroupStats stats = Stats(tenant);
  EXPECT_EQ(stats.completed, 1u);
  EXPECT_EQ(stats.served[0][0], kOp);
  // The tenant is a leaf again: the orphans can go there.
  for (Request* r : orphans) {
    r->group = tenant;
    Queue(r);
  }
  EXPECT_EQ(DispatchAll(), queued);
}

TEST_F(Tree, AParentOrTheRootIsNotRemoved) {
  const GroupId tenant = Add();
  Add(tenant);
  std::vector<Request*> orphans;
  EXPECT_EQ(CodeOf(scheduler_.RemoveGroup(tenant, now(), &orphans)),
            ErrorCode::kFailedPrecondition);
  EXPECT_EQ(CodeOf(scheduler_.RemoveGroup(scheduler_.root(), now(), &orphans)),
            ErrorCode::kFailedPrecondition);
}

TEST_F(Tree, ALeafBecomesAParentOnceItsQueueIsTaken) {
  const GroupId tenant = Add();
  Request* in_flight = Queue(tenant);
  EXPECT_EQ(Dispatch(), in_flight);
  Queue(tenant);
  Queue(tenant, Direction::kWrite);
  EXPECT_EQ(CodeOf(scheduler_.AddGroup(tenant, {}, now())), ErrorCode::kFailedPrecondition);
  std::vector<Request*> taken;
  ASSERT_TRUE(scheduler_.TakeQueued(tenant, now(), &taken));
  EXPECT_EQ(taken.size(), 2u);
  const GroupId child = Add(tenant);
  for (Request* r : taken) {
    r->group = child;
    Queue(r);
  }
  EXPECT_EQ(DispatchAll().size(), 2u);
  Complete(in_flight);
  const GroupStats stats = Stats(tenant);
  EXPECT_EQ(stats.served[0][0] + stats.served[0][1], 3 * kOp);
  EXPECT_EQ(stats.departed[0][0], kOp);  // what it served as a leaf
  EXPECT_EQ(stats.completed, 1u);
  EXPECT_EQ(Stats(child).requests, 2u);
}

TEST_F(Tree, WhatAFormerLeafStillHasUnderWayReconciles) {
  const GroupId tenant = Add();
  Request* in_flight = Queue(tenant);
  EXPECT_EQ(Dispatch(), in_flight);
  Request* expedited = Queue(tenant, Direction::kWrite, 3 * kOp);
  EXPECT_TRUE(scheduler_.Expedite(expedited, now()));
  const GroupId child = Add(tenant);
  Queue(child);
  EXPECT_EQ(DispatchAll().size(), 2u);  // checks the sums
  scheduler_.Complete(in_flight, now(), 5 * kOp);
  scheduler_.Complete(expedited, now(), kOp);
  scheduler_.CheckStructure(now());
  const GroupStats stats = Stats(tenant);
  EXPECT_EQ(stats.departed[0][0], 5 * kOp);
  EXPECT_EQ(stats.departed[0][1], kOp);
}

TEST_F(Tree, AMovedGroupTakesAllBelowItAlong) {
  const GroupId from = Add(), to = Add(), moved = Add(from), leaf = Add(moved), stays = Add(from);
  Queue(leaf);
  EXPECT_EQ(DispatchAll().size(), 1u);
  Queue(leaf);
  Queue(stays);
  ASSERT_TRUE(scheduler_.MoveGroup(moved, to, now()));
  scheduler_.CheckStructure(now());
  EXPECT_EQ(scheduler_.Children(to), std::vector<GroupId>{moved});
  EXPECT_EQ(DispatchAll().size(), 2u);
  EXPECT_EQ(Stats(from).served[0][0], 2 * kOp);
  EXPECT_EQ(Stats(from).departed[0][0], kOp);
  EXPECT_EQ(Stats(to).served[0][0], kOp);
  EXPECT_EQ(Stats(to).departed[0][0], -kOp);  // brought along
  EXPECT_EQ(Stats(moved).served[0][0], 2 * kOp);
}

TEST_F(Tree, AGroupIsNotMovedIntoItselfOrIntoAQueue) {
  const GroupId a = Add(), below = Add(a), b = Add();
  Queue(b);
  for (const GroupId to : {a, below, b}) {
    EXPECT_EQ(CodeOf(scheduler_.MoveGroup(a, to, now())), ErrorCode::kFailedPrecondition);
  }
  EXPECT_EQ(CodeOf(scheduler_.MoveGroup(scheduler_.root(), b, now())),
            ErrorCode::kFailedPrecondition);
  EXPECT_EQ(scheduler_.Children(scheduler_.root()).size(), 2u);
}

TEST_F(Tree, ARemovedGroupsExpeditedRequestIsStillServed) {
  const GroupId tenant = Add(), g = Add(tenant);
  Request* r = Queue(g);
  ASSERT_TRUE(scheduler_.Expedite(r, now()));
  std::vector<Request*> orphans;
  ASSERT_TRUE(scheduler_.RemoveGroup(g, now(), &orphans));
  EXPECT_TRUE(orphans.empty());
  EXPECT_EQ(Dispatch(), r);
  Complete(r);
  scheduler_.CheckStructure(now());
  EXPECT_EQ(scheduler_.requests_in_flight(), 0u);
}

TEST_F(Tree, DebtOfALimitIsKeptInUnitsWhenTheRateChanges) {
  const GroupId g = Add(Max(1));
  Queue(g, Direction::kRead, 100 * kOp);
  Queue(g);
  EXPECT_EQ(DispatchAll().size(), 1u);  // 100 op of debt
  ASSERT_TRUE(scheduler_.SetParams(g, Max(1'000), now()));
  EXPECT_EQ(scheduler_.NextWakeup(now()), FromNanos(100 * kMillisecondNs));
  ASSERT_TRUE(scheduler_.SetParams(g, {}, now()));
  EXPECT_EQ(DispatchAll().size(), 1u);
}

TEST_F(Tree, ManyChangesLeakNoGroups) {
  std::vector<Request*> orphans;
  for (int i = 0; i < 1'000; ++i) {
    const GroupId a = Add(), b = Add(a);
    Queue(b);
    Request* r = Dispatch();
    ASSERT_NE(r, nullptr);
    ASSERT_TRUE(scheduler_.RemoveGroup(b, now(), &orphans));
    ASSERT_TRUE(scheduler_.RemoveGroup(a, now(), &orphans));
    Complete(r);
    EXPECT_LT(a.index, 4u);
  }
  EXPECT_EQ(Stats(scheduler_.root()).completed, 1'000u);
}

}  // namespace
}  // namespace weir::core

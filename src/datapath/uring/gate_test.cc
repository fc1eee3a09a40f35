// Gate: a set of changes to the tree applies as a whole or not at all, with and without isolation.
#include "datapath/uring/gate.h"

#include <gtest/gtest.h>

namespace weir::uring {
namespace {

using Kind = GroupChange::Kind;

constexpr TimePoint kNow = FromNanos(1'000'000);

ResourceParams Weight(int64_t weight) {
  ResourceParams params;
  params.weight = weight;
  return params;
}

GroupChange Add(core::GroupId parent, int64_t weight = 100) {
  GroupChange change;
  change.kind = Kind::kAdd;
  change.parent = parent;
  change.params = Weight(weight);
  return change;
}
GroupChange Set(core::GroupId group, int64_t weight) {
  GroupChange change;
  change.kind = Kind::kSetParams;
  change.group = group;
  change.params = Weight(weight);
  return change;
}
GroupChange Move(core::GroupId group, core::GroupId parent) {
  GroupChange change;
  change.kind = Kind::kMove;
  change.group = group;
  change.parent = parent;
  return change;
}
GroupChange Remove(core::GroupId group) {
  GroupChange change;
  change.kind = Kind::kRemove;
  change.group = group;
  return change;
}

class GateTest : public testing::TestWithParam<bool> {
 protected:
  GateTest() : gate_(Options()) {}
  static EngineOptions Options() {
    EngineOptions options;
    options.isolation = GetParam();
    return options;
  }
  Result<std::vector<core::GroupId>> Apply(const std::vector<GroupChange>& changes) {
    return gate_.Apply(changes, kNow, &orphans_);
  }
  core::GroupId root() { return gate_.scheduler()->root(); }
  size_t ChildrenOf(core::GroupId group) { return gate_.scheduler()->Children(group).size(); }
  void Queue(Op* op, core::GroupId group) {
    Piece* piece = &op->first;
    piece->op = op;
    piece->request.group = group;
    piece->request.context = piece;
    ASSERT_TRUE(gate_.Enqueue(piece, kNow));
  }

  Gate gate_;
  std::vector<core::Request*> orphans_;
};

TEST_P(GateTest, BuildsATreeInOneSet) {
  GroupChange child = Add({}, 7);
  child.parent_change = 0;
  const auto groups = Apply({Add(root()), child, Add(root())});
  ASSERT_TRUE(groups) << groups.error().message;
  ASSERT_EQ(groups->size(), 3u);
  EXPECT_EQ(ChildrenOf(root()), 2u);
  EXPECT_EQ(gate_.scheduler()->Children((*groups)[0]), std::vector<core::GroupId>{(*groups)[1]});
}

TEST_P(GateTest, ABadElementLeavesEverythingAsItWas) {
  const auto made = Apply({Add(root(), 10), Add(root(), 20), Add(root(), 30)});
  ASSERT_TRUE(made);
  const core::GroupId a = (*made)[0];
  const core::GroupId b = (*made)[1];
  const core::GroupId c = (*made)[2];
  GroupChange under_later = Add({});
  under_later.parent_change = 9;
  for (const GroupChange& bad :
       {Set(a, -1), Set(core::GroupId{}, 1), Move(a, a), Remove(root()), Remove(core::GroupId{}),
        Remove(a), under_later, Add(core::GroupId{77, 7})}) {
    // Remove(a) is bad because c has moved below it.
    const auto groups = Apply({Set(a, 99), Move(c, a), Add(root()), bad});
    ASSERT_FALSE(groups);
    EXPECT_NE(groups.error().message.find("change 3"), std::string::npos) << groups.error().message;
    EXPECT_EQ(gate_.scheduler()->Params(a)->weight, 10);
    EXPECT_EQ(ChildrenOf(root()), 3u);
    EXPECT_EQ(ChildrenOf(a), 0u);
    EXPECT_EQ(gate_.scheduler()->Params(b)->weight, 20);
  }
}

TEST_P(GateTest, RemovesATreeInOneSetChildrenFirst) {
  GroupChange child = Add({});
  child.parent_change = 0;
  const auto made = Apply({Add(root()), child});
  ASSERT_TRUE(made);
  EXPECT_FALSE(Apply({Remove((*made)[0]), Remove((*made)[1])}));
  EXPECT_EQ(ChildrenOf(root()), 1u);
  EXPECT_TRUE(Apply({Remove((*made)[1]), Remove((*made)[0])}));
  EXPECT_EQ(ChildrenOf(root()), 0u);
  EXPECT_FALSE(Apply({Remove((*made)[0])})) << "already removed";
}

TEST_P(GateTest, RemovingTwiceInOneSetIsRefused) {
  const auto made = Apply({Add(root())});
  EXPECT_FALSE(Apply({Remove((*made)[0]), Remove((*made)[0])}));
  EXPECT_EQ(ChildrenOf(root()), 1u);
}

TEST_P(GateTest, QueuedRequestsOfARemovedGroupAreGivenBackOrMoved) {
  const auto made = Apply({Add(root()), Add(root()), Add(root())});
  ASSERT_TRUE(made);
  Op lost;
  Op moved;
  Queue(&lost, (*made)[0]);
  Queue(&moved, (*made)[1]);
  GroupChange keep = Remove((*made)[1]);
  keep.queued_to = (*made)[2];
  ASSERT_TRUE(Apply({Remove((*made)[0]), keep}));
  ASSERT_EQ(orphans_.size(), 1u);
  EXPECT_EQ(PieceOf(orphans_[0])->op, &lost);
  EXPECT_EQ(gate_.Stats((*made)[2], kNow)->queued[0], 1u);
  Piece* next = gate_.Dispatch(kNow);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->op, &moved);
  gate_.Complete(next, kNow);
  EXPECT_EQ(gate_.Stats((*made)[2], kNow)->completed, 1u);
}

TEST_P(GateTest, TheTakingOverGroupMustExistAndBeALeaf) {
  GroupChange child = Add({});
  child.parent_change = 1;
  const auto made = Apply({Add(root()), Add(root()), child, Add(root())});
  ASSERT_TRUE(made);
  for (const core::GroupId target : {core::GroupId{}, (*made)[0], (*made)[1], root()}) {
    GroupChange remove = Remove((*made)[0]);
    remove.queued_to = target;
    EXPECT_FALSE(Apply({remove}));
  }
  GroupChange remove = Remove((*made)[0]);
  remove.queued_to = (*made)[3];
  EXPECT_FALSE(Apply({remove, Remove((*made)[3])})) << "goes away in the same set";
  EXPECT_TRUE(Apply({remove}));
}

TEST_P(GateTest, CountsForTheGroupAndAllAbove) {
  GroupChange child = Add({});
  child.parent_change = 0;
  const auto made = Apply({Add(root()), child});
  Op op;
  op.first.request.bytes = 4096;
  Queue(&op, (*made)[1]);
  ASSERT_EQ(gate_.Dispatch(kNow), &op.first);
  gate_.Complete(&op.first, kNow + Duration(5));
  for (const core::GroupId group : {root(), (*made)[0], (*made)[1]}) {
    const Result<core::GroupStats> stats = gate_.Stats(group, kNow);
    ASSERT_TRUE(stats);
    EXPECT_EQ(stats->served[2][0], 4096);
    EXPECT_EQ(stats->served[0][0], kOp);
    EXPECT_EQ(stats->requests, 1u);
    EXPECT_EQ(stats->completed, 1u);
    EXPECT_EQ(stats->in_flight, 0u);
  }
  EXPECT_FALSE(gate_.Stats(core::GroupId{}, kNow));
  Op to_parent;
  to_parent.first.request.group = (*made)[0];
  EXPECT_FALSE(gate_.Enqueue(&to_parent.first, kNow)) << "not a leaf";
}

INSTANTIATE_TEST_SUITE_P(IsolationOnAndOff, GateTest, testing::Bool(),
                         [](const auto& mode) { return mode.param ? "on" : "off"; });

}  // namespace
}  // namespace weir::uring

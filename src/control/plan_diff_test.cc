// Goal: after the changes the tree is exactly the new one; groups that stay keep id, counters and
// queue; what was queued elsewhere goes on where it should; no step is refused by the scheduler.
// Method: random pairs of configurations, the production scheduler, requests in every leaf.
#include "control/plan_diff.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>

#include "control/random_config.h"
#include "core/scheduler.h"

namespace weir::control {
namespace {

using catalog::TreeNode;

struct Tree {
  std::vector<TreeNode> nodes;
  std::vector<core::GroupId> groups;
};

uint64_t Id(core::GroupId group) {
  return static_cast<uint64_t>(group.index) << 32 | group.generation;
}

// Makes the changes as Engine::Apply does: removals last, queued requests to `queued_to`.
class Applier {
 public:
  Applier() : scheduler_(core::SchedulerOptions{}) {}

  void Apply(const PlanDiff& diff, const std::vector<TreeNode>& nodes, Tree* tree) {
    std::vector<core::GroupId> done;
    for (const GroupChange& change : diff.changes) done.push_back(ApplyOne(change, done));
    for (const GroupChange& change : diff.changes) {
      if (change.kind == GroupChange::Kind::kRemove) Remove(change);
    }
    tree->nodes = nodes;
    tree->groups.clear();
    for (const NodePlace& place : diff.places) {
      tree->groups.push_back(place.change < 0 ? place.group
                                              : done[static_cast<size_t>(place.change)]);
    }
    scheduler_.CheckStructure(FromNanos(0));
  }

  // The scheduler has these nodes and no others, where they belong.
  void Check(const Tree& tree) {
    std::map<uint64_t, std::set<uint64_t>> children;
    for (size_t i = 0; i < tree.nodes.size(); ++i) {
      const int parent = tree.nodes[i].parent;
      children[Id(parent < 0 ? root() : tree.groups[static_cast<size_t>(parent)])].insert(
          Id(tree.groups[i]));
      const auto params = scheduler_.Params(tree.groups[i]);
      ASSERT_TRUE(params.has_value()) << tree.nodes[i].path;
      EXPECT_EQ(*params, tree.nodes[i].params) << tree.nodes[i].path;
    }
    const auto check = [&](core::GroupId group, const std::string& what) {
      std::set<uint64_t> actual;
      for (const core::GroupId child : scheduler_.Children(group)) actual.insert(Id(child));
      EXPECT_EQ(actual, children[Id(group)]) << what;
    };
    check(root(), "root");
    for (size_t i = 0; i < tree.nodes.size(); ++i) check(tree.groups[i], tree.nodes[i].path);
  }

  void EnqueueEverywhere(const Tree& tree) {
    for (size_t i = 0; i < tree.nodes.size(); ++i) {
      if (!tree.nodes[i].leaf) continue;
      core::Request& request = requests_.emplace_back();
      request.group = tree.groups[i];
      ASSERT_TRUE(scheduler_.Enqueue(&request, FromNanos(0)).has_value()) << tree.nodes[i].path;
    }
  }
  uint64_t Queued(core::GroupId group) {
    return scheduler_.Stats(group, FromNanos(0)).value().queued[0];
  }
  [[nodiscard]] size_t requests() const { return requests_.size(); }
  [[nodiscard]] core::GroupId root() const { return scheduler_.root(); }

 private:
  core::GroupId ApplyOne(const GroupChange& change, const std::vector<core::GroupId>& done) {
    const core::GroupId parent = change.parent_change < 0
                                     ? change.parent
                                     : done.at(static_cast<size_t>(change.parent_change));
    const TimePoint now = FromNanos(0);
    if (change.kind == GroupChange::Kind::kAdd) {
      const auto added = scheduler_.AddGroup(parent, change.params, now);
      EXPECT_TRUE(added.has_value()) << added.error().message;
      return added.value_or(core::GroupId{});
    }
    Result<void> ok;
    if (change.kind == GroupChange::Kind::kSetParams) {
      ok = scheduler_.SetParams(change.group, change.params, now);
    } else if (change.kind == GroupChange::Kind::kMove) {
      ok = scheduler_.MoveGroup(change.group, parent, now);
    }
    EXPECT_TRUE(ok.has_value()) << ok.error().message;
    return change.group;
  }
  void Remove(const GroupChange& change) {
    std::vector<core::Request*> queued;
    const auto removed = scheduler_.RemoveGroup(change.group, FromNanos(0), &queued);
    ASSERT_TRUE(removed.has_value()) << removed.error().message;
    for (core::Request* request : queued) {
      ASSERT_TRUE(change.queued_to.has_value());
      request->group = *change.queued_to;
      const auto again = scheduler_.Enqueue(request, FromNanos(0));
      ASSERT_TRUE(again.has_value()) << again.error().message;
    }
  }

  std::deque<core::Request> requests_;
  core::Scheduler scheduler_;
};

std::vector<TreeNode> NodesOf(const catalog::Config& config) {
  auto nodes = catalog::Resolve(config, "", 0, nullptr);
  EXPECT_TRUE(nodes.has_value());
  WithUnmatched(&*nodes);
  return *nodes;
}

std::string LastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }
std::string FirstPart(const std::string& path) { return path.substr(0, path.find('/')); }

// By unit and name, leaves and inner nodes apart.
std::map<std::string, core::GroupId> ByName(const Tree& tree) {
  std::map<std::string, core::GroupId> names;
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    const TreeNode& node = tree.nodes[i];
    const std::string name = node.parent < 0 ? "" : LastPart(node.path);
    names[FirstPart(node.path) + "/" + name + (node.leaf ? " leaf" : "")] = tree.groups[i];
  }
  return names;
}

TEST(PlanDiff, AnyPlanBecomesAnyOther) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Applier applier;
    Tree tree;
    for (int step = 0; step < 6; ++step) {
      const std::vector<TreeNode> next = NodesOf(RandomConfig(&random));
      const Tree before = tree;
      applier.Apply(Diff(tree.nodes, tree.groups, next, applier.root()), next, &tree);
      ASSERT_NO_FATAL_FAILURE(applier.Check(tree));
      const auto old_names = ByName(before);
      for (const auto& [name, group] : ByName(tree)) {
        if (const auto old = old_names.find(name); old != old_names.end()) {
          EXPECT_EQ(old->second, group) << name;
        }
      }
      uint64_t queued = 0;
      for (size_t i = 0; i < tree.nodes.size(); ++i) {
        if (tree.nodes[i].leaf) queued += applier.Queued(tree.groups[i]);
      }
      EXPECT_EQ(queued, applier.requests());  // none is lost, all are in leaves of the plan
      applier.EnqueueEverywhere(tree);
      if (HasFailure()) return;
    }
  }
}

TEST(PlanDiff, TheSamePlanAgainIsNoChange) {
  Random random(3);
  for (int i = 0; i < 50; ++i) {
    const std::vector<TreeNode> nodes = NodesOf(RandomConfig(&random));
    std::vector<core::GroupId> groups;
    for (uint32_t n = 0; n < nodes.size(); ++n) groups.push_back({n + 1, 0});
    const PlanDiff diff = Diff(nodes, groups, nodes, {0, 0});
    EXPECT_TRUE(diff.changes.empty());
    EXPECT_TRUE(diff.summary.empty());
  }
}

// A unit with plans one within the other, the deepest there may be.
std::vector<TreeNode> Chain(const std::string& plans) {
  std::string toml = "[[group]]\nname=\"g\"\n[[unit]]\nname=\"u\"\nplan=\"";
  toml += std::string(1, plans.front()) + "\"\n";
  for (size_t i = 0; i < plans.size(); ++i) {
    toml += "[[plan]]\nname=\"" + std::string(1, plans[i]) + "\"\n[[plan.directive]]\n";
    toml += i + 1 < plans.size() ? "subplan=\"" + std::string(1, plans[i + 1]) + "\"\n"
                                 : "group=\"g\"\n";
  }
  return NodesOf(catalog::ParseConfig(toml, "t").value());
}

TEST(PlanDiff, PlansNestedTheOtherWayRoundNeverPassTheMaximumDepth) {
  Applier applier;
  Tree tree;
  for (const char* plans : {"abcdef", "fedcba", "cdefab", "bfcead", "af", "zbcdef", "abcdef"}) {
    const std::vector<TreeNode> next = Chain(plans);
    applier.Apply(Diff(tree.nodes, tree.groups, next, applier.root()), next, &tree);
    ASSERT_NO_FATAL_FAILURE(applier.Check(tree));
    ASSERT_FALSE(HasFailure()) << plans;
    applier.EnqueueEverywhere(tree);
  }
}

std::vector<TreeNode> NodesOf(const std::string& toml) {
  const auto config = catalog::ParseConfig(toml, "t");
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return NodesOf(*config);
}

constexpr char kPlan[] =
    "[[plan]]\nname=\"p\"\n[[plan.directive]]\ngroup=\"a\"\nweight_iops=50\n[[group]]\nname="
    "\"a\"\n";

class TwoPlans : public ::testing::Test {
 protected:
  // Groups get the ids 1, 2, ...; the root is 0.
  PlanDiff FromTo(const std::string& before, const std::string& after) {
    before_ = NodesOf(before);
    groups_.clear();
    for (uint32_t n = 0; n < before_.size(); ++n) groups_.push_back({n + 1, 0});
    return Diff(before_, groups_, NodesOf(after), {0, 0});
  }
  core::GroupId Group(const std::string& path) const {
    for (size_t i = 0; i < before_.size(); ++i) {
      if (before_[i].path == path) return groups_[i];
    }
    return {};
  }
  std::vector<TreeNode> before_;
  std::vector<core::GroupId> groups_;
};

TEST_F(TwoPlans, AUnitThatGetsAPlanGoesOnAsItsOtherGroups) {
  const PlanDiff diff =
      FromTo("[[unit]]\nname=\"u\"\nmax_iops=1000\n",
             std::string("[[unit]]\nname=\"u\"\nmax_iops=1000\nplan=\"p\"\n") + kPlan);
  // u, u/a, u/OTHER_GROUPS, unmatched
  ASSERT_EQ(diff.places.size(), 4u);
  EXPECT_GE(diff.places[0].change, 0);
  EXPECT_EQ(diff.places[2].group, Group("u"));
  EXPECT_EQ(diff.places[3].group, Group("unmatched"));
}

TEST_F(TwoPlans, WhatWasQueuedInARemovedGroupStaysInItsUnit) {
  const std::string unit = "[[unit]]\nname=\"u\"\nplan=\"p\"\n";
  const std::string more = "[[group]]\nname=\"b\"\n[[plan.directive]]\ngroup=\"b\"\n";
  const PlanDiff diff = FromTo(unit + kPlan + more + "[[unit]]\nname=\"v\"\n", unit + kPlan);
  ASSERT_EQ(diff.changes.size(), 2u);
  EXPECT_EQ(diff.changes[0].group, Group("v"));
  EXPECT_EQ(diff.changes[0].queued_to, Group("unmatched"));
  EXPECT_EQ(diff.changes[1].group, Group("u/b"));
  EXPECT_EQ(diff.changes[1].queued_to, Group("u/OTHER_GROUPS"));
}

TEST_F(TwoPlans, TheSummarySaysWhatChangesInTheWordsOfTheFile) {
  const PlanDiff diff = FromTo(
      std::string("[[unit]]\nname=\"u\"\nmax_iops=1000\nplan=\"p\"\n[[unit]]\nname=\"old\"\n") +
          kPlan,
      std::string("[[unit]]\nname=\"u\"\nmax_iops=2000\niops_weight=7\nplan=\"p\"\n"
                  "[[unit]]\nname=\"new\"\nmin_bandwidth=\"1MB/s\"\n") +
          kPlan);
  EXPECT_EQ(diff.summary,
            (std::vector<std::string>{"change u: max_iops 1,000/s -> 2,000/s, weight 100 -> 7",
                                      "add new: min_bandwidth 0 B/s -> 1.0 MB/s", "remove old"}));
}

}  // namespace
}  // namespace weir::control

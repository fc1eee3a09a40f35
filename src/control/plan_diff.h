// What has to change so that one resolved tree of groups becomes another.
//
// PURE.
#pragma once

#include <string>
#include <vector>

#include "catalog/config.h"
#include "core/request.h"
#include "datapath/uring/engine.h"

namespace weir::control {

// Where a node of the new tree is after the changes.
struct NodePlace {
  core::GroupId group{};  // a group that was there before
  int change = -1;        // >= 0: the group that this change adds, instead
};

struct PlanDiff {
  // For Engine::Apply, as one set. Requests queued in a group that goes away continue in its
  // unit's OTHER_GROUPS where that stays, else in `unmatched`.
  std::vector<GroupChange> changes;
  std::vector<NodePlace> places;  // of the new nodes, in their order
  // One line each, for people: "add tp/oltp: ...", "change tp: max_iops 10,000/s -> 20,000/s",
  // "move tp/ap to tp/batch/ap", "remove tp/x".
  std::vector<std::string> summary;
};

// `groups` are those of `before`. Both trees are catalog::Resolve's with WithUnmatched.
//
// A group stays (keeps its id, counters, credit and debt) when a group of its name stays in its
// unit, at whatever level. A unit that gets a plan goes on as its OTHER_GROUPS, so that what is
// queued stays under the unit's limits; a unit that loses its plan is what was its OTHER_GROUPS.
// At no step is the tree deeper than core::kMaxDepth. Cost: O((nodes + moves) * depth).
[[nodiscard]] PlanDiff Diff(const std::vector<catalog::TreeNode>& before,
                            const std::vector<core::GroupId>& groups,
                            const std::vector<catalog::TreeNode>& after, core::GroupId root);

// Adds the leaf `unmatched` unless a unit has the name. Returns the index of the leaf of what no
// match names.
int WithUnmatched(std::vector<catalog::TreeNode>* nodes);

// "min_iops 0 -> 500/s, weight 100 -> 200"; empty when equal. Weights of groups are shown in
// percent, as they were written.
[[nodiscard]] std::string DescribeChange(const ResourceParams& before, const ResourceParams& after,
                                         bool is_unit);

}  // namespace weir::control

#include "control/plan_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/units.h"
#include "catalog/config_keys.h"
#include "core/scheduler.h"

namespace weir::control {
namespace {

using catalog::TreeNode;

constexpr int kNone = -1;

std::string_view UnitOf(std::string_view path) { return path.substr(0, path.find('/')); }

// A group's name is unique below its unit, so unit and name are what it is known by.
std::string KeyOf(const TreeNode& node) {
  const size_t last = node.path.rfind('/');
  if (last == std::string::npos) return node.path;
  return std::string(UnitOf(node.path)) + node.path.substr(last);
}

std::string OtherGroupsOf(std::string_view unit) {
  return fmt::format("{}/{}", unit, catalog::kOtherGroups);
}

using Index = std::unordered_map<std::string, int>;

Index IndexOf(const std::vector<TreeNode>& nodes) {
  Index index;
  for (size_t i = 0; i < nodes.size(); ++i) index.emplace(KeyOf(nodes[i]), static_cast<int>(i));
  return index;
}

class Differ {
 public:
  Differ(const std::vector<TreeNode>& before, const std::vector<core::GroupId>& groups,
         const std::vector<TreeNode>& after, core::GroupId root)
      : before_(before), groups_(groups), after_(after), root_(root), old_index_(IndexOf(before)) {}

  PlanDiff Take() {
    FindPartners();
    const bool too_deep = TooDeepOnTheWay();
    if (too_deep) DetachAll();
    for (size_t i = 0; i < after_.size(); ++i) Place(i, too_deep);
    RemoveTheRest();
    return std::move(diff_);
  }

 private:
  [[nodiscard]] int OldOf(const std::string& key) const {
    const auto found = old_index_.find(key);
    return found == old_index_.end() ? kNone : found->second;
  }
  [[nodiscard]] const TreeNode& Old(int i) const { return before_[static_cast<size_t>(i)]; }

  // The node of the old tree that goes on as new node `i`.
  [[nodiscard]] int PartnerOf(const TreeNode& node) const {
    const std::string key = KeyOf(node);
    const int same = OldOf(key);
    if (same != kNone && Old(same).leaf == node.leaf) return same;
    const std::string unit(UnitOf(node.path));
    if (node.parent < 0 && node.leaf && same != kNone) return OldOf(OtherGroupsOf(unit));
    if (node.leaf && key == OtherGroupsOf(unit) && same == kNone) {
      const int old_unit = OldOf(unit);
      if (old_unit != kNone && Old(old_unit).leaf) return old_unit;
    }
    return kNone;
  }

  void FindPartners() {
    partner_.assign(after_.size(), kNone);
    successor_.assign(before_.size(), kNone);
    for (size_t i = 0; i < after_.size(); ++i) {
      const int old = PartnerOf(after_[i]);
      partner_[i] = old;
      if (old != kNone) successor_[static_cast<size_t>(old)] = static_cast<int>(i);
    }
  }

  // The parent that goes on as the new node's parent is the one it has.
  [[nodiscard]] bool Moves(size_t i) const {
    const int old_parent = Old(partner_[i]).parent;
    const int parent = after_[i].parent;
    if (parent < 0) return old_parent >= 0;
    return old_parent < 0 || partner_[static_cast<size_t>(parent)] != old_parent;
  }

  // Would a subtree, moved with what hangs on it until its own turn, pass the maximum depth?
  [[nodiscard]] bool TooDeepOnTheWay() const {
    std::vector<std::vector<int>> children(before_.size());
    for (size_t i = 0; i < before_.size(); ++i) {
      if (before_[i].parent >= 0) {
        children[static_cast<size_t>(before_[i].parent)].push_back(static_cast<int>(i));
      }
    }
    std::vector<int> level(after_.size(), 1);
    for (size_t i = 0; i < after_.size(); ++i) {
      if (after_[i].parent >= 0) level[i] = level[static_cast<size_t>(after_[i].parent)] + 1;
      if (partner_[i] == kNone || !Moves(i)) continue;
      if (level[i] + HeightOf(partner_[i], children) > core::kMaxDepth) return true;
    }
    return false;
  }
  // An upper bound: some of what was below may have left before.
  static int HeightOf(int node, const std::vector<std::vector<int>>& children) {
    int height = 0;
    for (const int child : children[static_cast<size_t>(node)]) {
      height = std::max(height, 1 + HeightOf(child, children));
    }
    return height;
  }

  // Every node that will move or go is hung on the root first: what is left has its final shape.
  void DetachAll() {
    for (size_t j = 0; j < before_.size(); ++j) {
      if (before_[j].parent < 0) continue;
      const int next = successor_[j];
      if (next != kNone ? !Moves(static_cast<size_t>(next))
                        : successor_[static_cast<size_t>(before_[j].parent)] == kNone) {
        continue;
      }
      GroupChange& change = Add(GroupChange::Kind::kMove);
      change.group = groups_[j];
      change.parent = root_;
    }
  }

  void SetParent(size_t i, GroupChange* change) const {
    const int parent = after_[i].parent;
    change->parent = parent < 0 ? root_ : diff_.places[static_cast<size_t>(parent)].group;
    change->parent_change = parent < 0 ? -1 : diff_.places[static_cast<size_t>(parent)].change;
  }

  void Place(size_t i, bool detached) {
    const TreeNode& node = after_[i];
    const int old = partner_[i];
    if (old == kNone) {
      diff_.places.push_back({{}, static_cast<int>(diff_.changes.size())});
      GroupChange& change = Add(GroupChange::Kind::kAdd);
      SetParent(i, &change);
      change.params = node.params;
      const std::string what = DescribeChange(ResourceParams{}, node.params, node.parent < 0);
      diff_.summary.push_back(fmt::format("add {}{}", node.path, what.empty() ? "" : ": " + what));
      return;
    }
    const core::GroupId group = groups_[static_cast<size_t>(old)];
    diff_.places.push_back({group, -1});
    const bool moves = Moves(i);
    if (moves && !(detached && node.parent < 0 && Old(old).parent >= 0)) {
      GroupChange& change = Add(GroupChange::Kind::kMove);
      change.group = group;
      SetParent(i, &change);
    }
    if (Old(old).path != node.path) {
      diff_.summary.push_back(fmt::format("move {} to {}", Old(old).path, node.path));
    }
    if (Old(old).params == node.params) return;
    GroupChange& change = Add(GroupChange::Kind::kSetParams);
    change.group = group;
    change.params = node.params;
    diff_.summary.push_back(fmt::format(
        "change {}: {}", node.path, DescribeChange(Old(old).params, node.params, node.parent < 0)));
  }

  // Where requests queued in old node `j` go on: a leaf before and after.
  [[nodiscard]] std::optional<core::GroupId> HeirOf(size_t j) const {
    if (!before_[j].leaf) return std::nullopt;
    const std::string unit(UnitOf(before_[j].path));
    for (const std::string& key : {OtherGroupsOf(unit), OtherGroupsOf(catalog::kUnmatched),
                                   std::string(catalog::kUnmatched)}) {
      const int heir = OldOf(key);
      if (heir == kNone || !Old(heir).leaf || successor_[static_cast<size_t>(heir)] == kNone) {
        continue;
      }
      return groups_[static_cast<size_t>(heir)];
    }
    return std::nullopt;
  }

  void RemoveTheRest() {
    for (size_t n = before_.size(); n > 0; --n) {
      const size_t j = n - 1;
      if (successor_[j] != kNone) continue;
      const std::optional<core::GroupId> heir = HeirOf(j);
      GroupChange& change = Add(GroupChange::Kind::kRemove);
      change.group = groups_[j];
      change.queued_to = heir;
      diff_.summary.push_back(fmt::format("remove {}", before_[j].path));
    }
  }

  GroupChange& Add(GroupChange::Kind kind) {
    GroupChange& change = diff_.changes.emplace_back();
    change.kind = kind;
    return change;
  }

  const std::vector<TreeNode>& before_;
  const std::vector<core::GroupId>& groups_;
  const std::vector<TreeNode>& after_;
  const core::GroupId root_;
  const Index old_index_;
  std::vector<int> partner_;    // new -> old
  std::vector<int> successor_;  // old -> new
  PlanDiff diff_;
};

}  // namespace

PlanDiff Diff(const std::vector<TreeNode>& before, const std::vector<core::GroupId>& groups,
              const std::vector<TreeNode>& after, core::GroupId root) {
  return Differ(before, groups, after, root).Take();
}

int WithUnmatched(std::vector<TreeNode>* nodes) {
  const std::string other = OtherGroupsOf(catalog::kUnmatched);
  int found = kNone;
  for (size_t i = 0; i < nodes->size(); ++i) {
    const TreeNode& node = (*nodes)[i];
    if (node.leaf && (node.path == catalog::kUnmatched || KeyOf(node) == other)) {
      found = static_cast<int>(i);
    }
  }
  if (found != kNone) return found;
  TreeNode node;
  node.path = catalog::kUnmatched;
  nodes->push_back(std::move(node));
  return static_cast<int>(nodes->size()) - 1;
}

std::string DescribeChange(const ResourceParams& before, const ResourceParams& after,
                           bool is_unit) {
  std::string text;
  const auto add = [&](std::string_view key, const std::string& from, const std::string& to) {
    text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", key, from, to);
  };
  for (const Dimension d : {Dimension::kNorm, Dimension::kRaw, Dimension::kBytes}) {
    if (before.MinOf(d) != after.MinOf(d)) {
      add(catalog::MinKey(d), catalog::FormatRate(d, before.MinOf(d)),
          catalog::FormatRate(d, after.MinOf(d)));
    }
    for (const Scope s : {Scope::kBoth, Scope::kRead, Scope::kWrite}) {
      if (before.MaxOf(d, s) == after.MaxOf(d, s)) continue;
      add(catalog::MaxKey(d, s), catalog::FormatRate(d, before.MaxOf(d, s)),
          catalog::FormatRate(d, after.MaxOf(d, s)));
    }
  }
  if (before.weight != after.weight) {
    const double scale = is_unit ? 1 : 100;  // groups: hundredths of a percent
    add("weight", fmt::format("{:g}", static_cast<double>(before.weight) / scale),
        fmt::format("{:g}", static_cast<double>(after.weight) / scale));
  }
  if (text.empty() && before != after) text = "burst";
  return text;
}

}  // namespace weir::control

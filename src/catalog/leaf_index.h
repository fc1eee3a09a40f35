// Finds the leaf of a resolved tree that a mapping names: "unit", "unit/group" or the full path.
//
// PURE.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "catalog/config.h"

namespace weir::catalog {

class LeafIndex {
 public:
  // `nodes` must outlive the index unchanged.
  explicit LeafIndex(const std::vector<TreeNode>& nodes);

  // Index into the nodes. A unit with a plan stands for its OTHER_GROUPS; a group is found below
  // its unit at any depth, since its name is unique there. Errors: kNotFound, with the nearest or
  // the known names; kInvalidArgument: a subplan, which is no leaf.
  [[nodiscard]] Result<int> Find(std::string_view target) const;

 private:
  [[nodiscard]] Result<int> LeafOf(int node) const;
  [[nodiscard]] std::string Known(std::string_view target) const;

  const std::vector<TreeNode>& nodes_;
  std::unordered_map<std::string, int> by_name_;  // full path, and "unit/last part"
};

}  // namespace weir::catalog

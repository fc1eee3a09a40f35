#include "catalog/leaf_index.h"

#include <fmt/format.h>

#include "base/text.h"

namespace weir::catalog {
namespace {

std::string_view UnitOf(std::string_view path) { return path.substr(0, path.find('/')); }

}  // namespace

LeafIndex::LeafIndex(const std::vector<TreeNode>& nodes) : nodes_(nodes) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string& path = nodes[i].path;
    by_name_.emplace(path, static_cast<int>(i));
    const size_t last = path.rfind('/');
    if (last == std::string::npos) continue;
    by_name_.emplace(std::string(UnitOf(path)) + path.substr(last), static_cast<int>(i));
  }
}

Result<int> LeafIndex::LeafOf(int node) const {
  const TreeNode& found = nodes_[static_cast<size_t>(node)];
  if (found.leaf) return node;
  const auto other = by_name_.find(fmt::format("{}/{}", found.path, kOtherGroups));
  if (other != by_name_.end() && found.parent < 0) return other->second;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is a subplan, which only its groups run in; known: {}",
                          Quote(found.path), Known(found.path)));
}

std::string LeafIndex::Known(std::string_view target) const {
  std::vector<std::string> names;
  const std::string_view unit = UnitOf(target);
  for (const TreeNode& node : nodes_) {
    if (node.leaf && UnitOf(node.path) == unit) names.push_back(node.path);
  }
  for (const TreeNode& node : nodes_) {
    if (names.size() >= 100) break;
    if (node.parent < 0 && UnitOf(node.path) != unit) names.push_back(node.path);
  }
  return names.empty() ? "none" : JoinNames(names);
}

Result<int> LeafIndex::Find(std::string_view target) const {
  const auto found = by_name_.find(std::string(target));
  if (found != by_name_.end()) return LeafOf(found->second);
  std::vector<std::string> names;
  for (const auto& [name, node] : by_name_) names.push_back(name);
  const std::string match = ClosestMatch(target, names);
  return Fail(ErrorCode::kNotFound,
              fmt::format("there is no unit or group {}; {}", Quote(target),
                          match.empty() ? "known: " + Known(target)
                                        : fmt::format("did you mean {}?", Quote(match))));
}

}  // namespace weir::catalog

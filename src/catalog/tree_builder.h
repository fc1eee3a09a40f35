// Turns units and the plans they use into the tree of absolute parameters. Internal to the catalog.
//
// PURE.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "catalog/config.h"
#include "catalog/config_check.h"
#include "catalog/table_reader.h"

namespace weir::catalog {

class TreeBuilder {
 public:
  // All must outlive the builder. `warnings` may be null.
  TreeBuilder(const Config& config, const PlanIndex& plans, Problems* problems,
              std::vector<std::string>* warnings);

  // Adds the unit and all below it. Requires: CheckConfig found nothing.
  void AddUnit(const Unit& unit);

  [[nodiscard]] std::vector<TreeNode> Take() { return std::move(nodes_); }

 private:
  struct Node;  // a node whose children are to be added
  void AddDirectives(const Unit& unit, const Plan& plan, const Node& node, int level);
  void AddDirective(const Unit& unit, const Plan& plan, const Directive& directive,
                    const Node& node, int level);
  ResourceParams Part(const Unit& unit, const Plan& plan, const Directive& directive,
                      const Node& node);
  void CheckHasBase(const Plan& plan, const Directive& directive, const Node& node);
  void AddOtherGroups(const Node& node);
  bool Register(const Unit& unit, const Plan& plan, const Directive& directive,
                const std::string& path);
  int Append(std::string path, int parent, const ResourceParams& params, bool leaf);
  void Warn(int line, std::string message);

  const Config& config_;
  const PlanIndex& plans_;
  Problems* problems_;
  std::vector<std::string>* warnings_;
  std::vector<TreeNode> nodes_;
  std::unordered_map<std::string_view, std::string> seen_;  // groups and subplans of this unit
};

// Sum of the units' reservations on `device` against `capacity`.
void CheckCapacity(const Config& config, std::string_view device, int64_t capacity,
                   Problems* problems, std::vector<std::string>* warnings);

// True if `unit` is on `device` ("" = the only one).
[[nodiscard]] bool IsOn(const Config& config, const Unit& unit, std::string_view device);

}  // namespace weir::catalog

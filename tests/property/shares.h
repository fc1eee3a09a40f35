// Compares what each group of a steady case was served with the fluid allocation.
#pragma once

#include <vector>

#include "meters.h"
#include "world.h"

namespace weir::property {

class Shares {
 public:
  // Starts counting.
  explicit Shares(World* world);

  // Compares what was served since then. Reports invariant 3 (invariant 9 where reservations do
  // not fit) for a group that is off by more than the tolerance, and 5 for one that waited too
  // long between two turns. Returns the worst deviation over the tolerance.
  double Judge(bool verbose, const ProgressMeter& progress, const OnViolation& on_violation);

 private:
  [[nodiscard]] std::vector<FluidNode> FluidTree();
  // Ops served per unit of a dimension: what a limit in that dimension means in ops.
  [[nodiscard]] double OpsPerUnit(const MirrorNode& node, int dimension) const;

  [[nodiscard]] double Tolerance(const std::vector<FluidNode>& nodes,
                                 const std::vector<double>& expected, int node, double seconds,
                                 bool over_commit) const;
  [[nodiscard]] double AmongSiblings(const std::vector<FluidNode>& nodes,
                                     const std::vector<double>& expected, int node, double seconds,
                                     bool over_commit) const;
  [[nodiscard]] double HoldSeconds() const;

  World* world_;
  int64_t from_ns_;
  std::vector<double> before_;
};

}  // namespace weir::property

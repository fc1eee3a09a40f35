// What each node should get in the long run: hierarchical water filling, in floating point.
//
// A node gets max(MIN, its weighted share), capped by MAX; what nobody claims goes to weight 0.
// Where the reservations of siblings do not fit, each gets capacity * MIN / sum(MIN), and the MINs
// of everything below scale alike.
#pragma once

#include <vector>

namespace weir::property {

inline constexpr double kNoCap = 1e18;

struct FluidNode {
  std::vector<int> children;
  double weight = 1;
  double min = 0;       // ops per second
  double cap = kNoCap;  // limit or demand
};

// nodes[0] is the root. Returns ops per second of each.
std::vector<double> Fill(const std::vector<FluidNode>& nodes, double capacity);

// What a node claims from its parent by reservation, its own or those of its children together, if
// all are scaled by `scale`. Never more than it can take.
double Claim(const std::vector<FluidNode>& nodes, int node, double scale = 1);
// What a node can take: its cap, and that of its children together.
double EffectiveCap(const std::vector<FluidNode>& nodes, int node);

}  // namespace weir::property

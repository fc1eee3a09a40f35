#include "shares.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "core/scheduler_impl.h"  // kMinHold

namespace weir::property {

Shares::Shares(World* world) : world_(world), from_ns_(world->driver().now()) {
  for (size_t i = 0; i < world->driver().mirror().size(); ++i) {
    before_.push_back(world->driver().Served(static_cast<int>(i)));
  }
}

double Shares::OpsPerUnit(const MirrorNode& node, int dimension) const {
  const size_t k = static_cast<size_t>(dimension);
  const double ops = static_cast<double>(node.served[0][0] + node.served[0][1]) / kOp;
  const double units = static_cast<double>(node.served[k][0] + node.served[k][1]);
  return units > 0 ? ops / units : 1;
}

std::vector<FluidNode> Shares::FluidTree() {
  const Mirror& mirror = world_->driver().mirror();
  std::vector<FluidNode> nodes(mirror.size());
  for (size_t i = 0; i < mirror.size(); ++i) {
    const MirrorNode& node = mirror.node(static_cast<int>(i));
    nodes[i].children = node.children;
    nodes[i].weight = static_cast<double>(node.params.weight);
    nodes[i].min = ClaimOf(node.params);
    for (int b = 0; b < kBuckets; ++b) {
      const double rate = static_cast<double>(node.limits[static_cast<size_t>(b)].rate);
      if (rate > 0) nodes[i].cap = std::min(nodes[i].cap, rate * OpsPerUnit(node, b / kScopes));
    }
  }
  return nodes;
}

// How far a share may be off, in ops of the whole run.
double Shares::Tolerance(const std::vector<FluidNode>& nodes, const std::vector<double>& expected,
                         int node, double seconds, bool over_commit) const {
  const double largest = static_cast<double>(world_->largest_cost()) / kOp;
  // 2 %, what a run of this length cannot tell, and three requests.
  double ops = 0.02 * expected[static_cast<size_t>(node)] * seconds +
               0.004 * world_->ops_per_s() * std::sqrt(seconds) + 3 * largest;
  // What is off above is off below.
  for (int i = node; i > 0; i = world_->driver().mirror().node(i).parent) {
    ops += AmongSiblings(nodes, expected, i, seconds, over_commit);
  }
  return ops;
}

// What the known residual errors (README.md, "Tolerances") may shift among the siblings of a node.
double Shares::AmongSiblings(const std::vector<FluidNode>& nodes,
                             const std::vector<double>& expected, int node, double seconds,
                             bool over_commit) const {
  const double largest = static_cast<double>(world_->largest_cost()) / kOp;
  const int parent = world_->driver().mirror().node(node).parent;
  const std::vector<int>& siblings = nodes[static_cast<size_t>(parent)].children;
  double leftover = 0;  // of a child of weight 0
  for (const int i : siblings) {
    const FluidNode& sibling = nodes[static_cast<size_t>(i)];
    const double share = expected[static_cast<size_t>(i)];
    if (Claim(nodes, i) > 0 || share > 0.99 * EffectiveCap(nodes, i)) continue;
    if (sibling.weight == 0) leftover = std::max(leftover, share);
  }
  double ops = 0, reserved = 0;
  for (const int i : siblings) {
    const FluidNode& sibling = nodes[static_cast<size_t>(i)];
    const double claim = Claim(nodes, i), cap = EffectiveCap(nodes, i);
    reserved += claim;
    // A limit near the share: whenever the group's turn comes later than its burst allows for, it
    // loses rate to its siblings.
    if (cap < 1.5 * expected[static_cast<size_t>(i)]) ops += 0.1 * cap * seconds;
    // Among groups of weight 0, service by reservation counts only up to eight requests ahead.
    if (claim > 0 && sibling.weight == 0 && leftover > 0.85 * claim) ops += 0.1 * claim * seconds;
  }
  // Service by reservation may lead by eight requests.
  if (reserved > 0) ops += 8 * largest;
  // Lateness up to the hold bound is repaid once, ahead of all that is served by weight.
  if (over_commit) ops += HoldSeconds() * reserved;
  return ops;
}

double Shares::HoldSeconds() const {
  const Driver& driver = world_->driver();
  const int64_t in_flight = driver.options().depth * 9 / 8 + kOp + world_->largest_cost();
  const double in_device = static_cast<double>(in_flight) / kOp;
  return std::max(static_cast<double>(core::kMinHold) / 1e9, 4 * in_device / world_->ops_per_s());
}

double Shares::Judge(bool verbose, const ProgressMeter& progress, const OnViolation& on_violation) {
  Driver& driver = world_->driver();
  const std::vector<FluidNode> nodes = FluidTree();
  const double seconds = static_cast<double>(driver.now() - from_ns_) / 1e9;
  const double capacity =
      std::min((driver.Served(0) - before_[0]) / seconds, EffectiveCap(nodes, 0));
  const std::vector<double> expected = Fill(nodes, capacity);
  const bool over_commit = Claim(nodes, 0) > world_->ops_per_s();
  const double largest = static_cast<double>(world_->largest_cost()) / kOp;
  double worst = 0;
  for (size_t i = 1; i < nodes.size(); ++i) {
    const double got = (driver.Served(static_cast<int>(i)) - before_[i]) / seconds;
    const double want = expected[i];
    const double tolerance =
        Tolerance(nodes, expected, static_cast<int>(i), seconds, over_commit) / seconds;
    const double off = std::fabs(got - want) / tolerance;
    worst = std::max(worst, off);
    const MirrorNode& node = driver.mirror().node(static_cast<int>(i));
    char line[256];
    std::snprintf(line, sizeof line,
                  "group %zu in %d%s: got %.1f, fluid share %.1f, MIN %.1f, weight %.0f, cap %.1f, "
                  "longest gap %.0f ms",
                  i, node.parent, node.leaf() ? "" : " (inner)", got, want, nodes[i].min,
                  nodes[i].weight, std::min(nodes[i].cap, 1e9),
                  static_cast<double>(progress.LongestGap(node.index)) / 1e6);
    if (verbose) std::printf("%s %s\n", off > 1 ? "**" : "  ", line);
    if (off > 1) on_violation(over_commit ? 9 : 3, line);
  }
  if (verbose) {
    std::printf("capacity %.0f of %.0f, %.1f s, largest %.1f, mean %.2f, D %.1f\n", capacity,
                world_->ops_per_s(), seconds, largest, world_->mean_cost(),
                static_cast<double>(driver.options().depth) / kOp);
  }
  return worst;
}

}  // namespace weir::property

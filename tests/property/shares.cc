#include "shares.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

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
    // 2 %, what the run is too short to tell, and three requests.
    const double tolerance =
        0.02 * want + 0.004 * world_->ops_per_s() / std::sqrt(seconds) + 3 * largest / seconds;
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

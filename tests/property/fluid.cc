#include "fluid.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace weir::property {

namespace {

const FluidNode& At(const std::vector<FluidNode>& nodes, int i) {
  return nodes[static_cast<size_t>(i)];
}

// The x >= 0 at which the growing function f reaches `target`, between 1e-9 and 1e18.
double Solve(const std::function<double(double)>& f, double target) {
  double low = -9 * std::log(10.0), high = 18 * std::log(10.0);
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (f(std::exp(middle)) < target ? low : high) = middle;
  }
  return std::exp(high);
}

struct Child {
  int index;
  double weight, low, high, share = 0;
};

double Sum(const std::vector<Child>& children, const std::function<double(const Child&)>& f) {
  double sum = 0;
  for (const Child& c : children) sum += f(c);
  return sum;
}

// Shares of `capacity` among children whose reservations fit.
void FillByWeight(std::vector<Child>* children, double capacity) {
  const auto weighted = [](const Child& c, double level) {
    return c.weight > 0 ? std::clamp(level * c.weight, c.low, c.high) : c.low;
  };
  const auto total = [&](double level) {
    return Sum(*children, [&](const Child& c) { return weighted(c, level); });
  };
  double level = 1e18;
  double rest = capacity - total(level);
  if (rest <= 0) level = Solve(total, capacity);
  for (Child& c : *children) c.share = weighted(c, level);
  if (rest <= 0) return;
  const auto leftover = [](const Child& c, double x) {
    return c.weight > 0 ? 0 : std::clamp(x, c.low, c.high) - c.low;
  };
  const auto left = [&](double x) {
    return Sum(*children, [&](const Child& c) { return leftover(c, x); });
  };
  const double x = left(1e18) <= rest ? 1e18 : Solve(left, rest);
  for (Child& c : *children) c.share += leftover(c, x);
}

void FillBelow(const std::vector<FluidNode>& nodes, int parent, double capacity, double scale,
               std::vector<double>* out) {
  (*out)[static_cast<size_t>(parent)] = capacity;
  std::vector<Child> children;
  for (const int i : At(nodes, parent).children) {
    children.push_back({i, At(nodes, i).weight, Claim(nodes, i, scale), EffectiveCap(nodes, i)});
  }
  if (Sum(children, [](const Child& c) { return c.low; }) >= capacity) {
    const auto claim = [&](const Child& c, double f) { return Claim(nodes, c.index, scale * f); };
    const auto total = [&](double f) {
      return Sum(children, [&](const Child& c) { return claim(c, f); });
    };
    const double factor = Solve(total, capacity);
    for (Child& c : children) c.share = claim(c, factor);
    scale *= factor;
  } else {
    FillByWeight(&children, capacity);
  }
  for (const Child& c : children) FillBelow(nodes, c.index, c.share, scale, out);
}

}  // namespace

double Claim(const std::vector<FluidNode>& nodes, int node, double scale) {
  double below = 0;
  for (const int child : At(nodes, node).children) below += Claim(nodes, child, scale);
  return std::min(std::max(scale * At(nodes, node).min, below), EffectiveCap(nodes, node));
}

double EffectiveCap(const std::vector<FluidNode>& nodes, int node) {
  if (At(nodes, node).children.empty()) return At(nodes, node).cap;
  double below = 0;
  for (const int child : At(nodes, node).children) below += EffectiveCap(nodes, child);
  return std::min(At(nodes, node).cap, below);
}

std::vector<double> Fill(const std::vector<FluidNode>& nodes, double capacity) {
  std::vector<double> out(nodes.size(), 0);
  FillBelow(nodes, 0, std::min(capacity, EffectiveCap(nodes, 0)), 1, &out);
  return out;
}

}  // namespace weir::property

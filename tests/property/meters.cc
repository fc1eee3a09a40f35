#include "meters.h"

#include <algorithm>
#include <cmath>

namespace weir::property {

// --- Reservations ------------------------------------------------------------------------------

ReservationMeter::ReservationMeter(const Mirror* mirror, Bound bound, OnViolation on_violation)
    : mirror_(mirror), bound_(bound), on_violation_(std::move(on_violation)) {}

ReservationMeter::Account& ReservationMeter::AccountOf(const MirrorNode& node) {
  const size_t index = static_cast<size_t>(node.index);
  if (accounts_.size() <= index) accounts_.resize(index + 1);
  return accounts_[index];
}

void ReservationMeter::Accrue(const MirrorNode& node, Account* account, int64_t now_ns) {
  const double seconds = static_cast<double>(now_ns - account->at_ns) / 1e9;
  account->at_ns = now_ns;
  if (!account->counting) return;
  for (size_t k = 0; k < kDimensions; ++k) {
    const double rate = static_cast<double>(node.params.min[k]);
    if (rate == 0) continue;
    account->deficit[k] += rate * seconds;
    // A reservation in bytes counts in 16 KiB where one in operations counts in operations.
    const double in_device = static_cast<double>(bound_.in_device) * (k == 2 ? 0.25 : 1);
    const double bound = in_device + rate * static_cast<double>(bound_.allowed_ns) / 1e9;
    worst_ = std::max(worst_, account->deficit[k] / bound);
    if (account->deficit[k] <= bound) continue;
    on_violation_(2, "group " + std::to_string(node.index) + " is " +
                         std::to_string(account->deficit[k] / kOp) + " behind its MIN of " +
                         std::to_string(rate / kOp) + "/s in dimension " + std::to_string(k) +
                         ", bound " + std::to_string(bound / kOp));
    account->deficit[k] = 0;
  }
}

void ReservationMeter::BeforeChange(const MirrorNode& node, int64_t now_ns) {
  if (node.params.min == ResourceParams{}.min) return;
  Accrue(node, &AccountOf(node), now_ns);
}

void ReservationMeter::AfterChange(const MirrorNode& node, int64_t now_ns) {
  if (node.params.min == ResourceParams{}.min) return;
  Account& account = AccountOf(node);
  const bool counting = node.unhindered() && !node.removed;
  if (counting == account.counting) return;
  account = Account{.counting = counting, .at_ns = now_ns};
}

void ReservationMeter::Served(const MirrorNode& node, const Amounts& amounts, int64_t now_ns) {
  if (node.params.min == ResourceParams{}.min) return;
  Account& account = AccountOf(node);
  Accrue(node, &account, now_ns);
  // As priced: a dear request counts for more than one operation, or than its bytes.
  const int64_t priced[] = {amounts[0], std::max(amounts[1], amounts[0]),
                            std::max(amounts[2], amounts[0] / 4)};
  for (size_t k = 0; k < kDimensions; ++k) {
    account.deficit[k] = std::max(0.0, account.deficit[k] - static_cast<double>(priced[k]));
  }
}

void ReservationMeter::Reconfigured(const MirrorNode& node, int64_t now_ns) {
  AccountOf(node) = Account{.counting = node.unhindered() && !node.removed, .at_ns = now_ns};
  for (const int child : node.children) Reconfigured(mirror_->node(child), now_ns);
}

// --- Weights -----------------------------------------------------------------------------------

void WeightMeter::Watch(int a, int b, int64_t largest_a, int64_t largest_b) {
  pairs_of_[a].push_back(pairs_.size());
  pairs_of_[b].push_back(pairs_.size());
  pairs_.push_back({.nodes = {a, b}, .largest = {largest_a, largest_b}});
}

double WeightMeter::WeightOf(int node) const {
  return static_cast<double>(std::max<int64_t>(1, mirror_->node(node).params.weight));
}

// Both wait, in the same class, and no limit above may hold back one direction only.
bool WeightMeter::Comparable(const Pair& pair) const {
  const MirrorNode& a = mirror_->node(pair.nodes[0]);
  const MirrorNode& b = mirror_->node(pair.nodes[1]);
  if (pair.over || a.parent != b.parent || a.removed || b.removed) return false;
  if ((a.params.weight == 0) != (b.params.weight == 0)) return false;
  if (!(a.ready[0] || a.ready[1]) || !(b.ready[0] || b.ready[1])) return false;
  for (int p = a.parent; p >= 0; p = mirror_->node(p).parent) {
    for (const auto& max : mirror_->node(p).params.max) {
      if (max[0] != kUnlimited || max[1] != kUnlimited) return false;
    }
  }
  return true;
}

void WeightMeter::AfterChange(const MirrorNode& node, int64_t now_ns) {
  (void)now_ns;
  const auto it = pairs_of_.find(node.index);
  if (it == pairs_of_.end()) return;
  for (const size_t i : it->second) {
    const bool counting = Comparable(pairs_[i]);
    if (counting != pairs_[i].counting) {
      pairs_[i].counting = counting;
      pairs_[i].difference = pairs_[i].low = pairs_[i].high = 0;
    }
  }
}

bool WeightMeter::AnyReserved(const MirrorNode& node) const {
  if (node.params.min != ResourceParams{}.min) return true;
  return std::any_of(node.children.begin(), node.children.end(),
                     [this](int child) { return AnyReserved(mirror_->node(child)); });
}

void WeightMeter::Reconfigured(const MirrorNode& node, int64_t now_ns) {
  (void)now_ns;
  const bool reserved = AnyReserved(node);
  for (int index = node.index; index >= 0; index = mirror_->node(index).parent) {
    const auto it = pairs_of_.find(index);
    if (it == pairs_of_.end()) continue;
    for (const size_t i : it->second) {
      pairs_[i].difference = pairs_[i].low = pairs_[i].high = 0;
      pairs_[i].over = pairs_[i].over || reserved;
      pairs_[i].counting = Comparable(pairs_[i]);
    }
  }
}

void WeightMeter::Served(const MirrorNode& node, const Amounts& amounts, int64_t now_ns) {
  (void)now_ns;
  const auto it = pairs_of_.find(node.index);
  if (it == pairs_of_.end()) return;
  for (const size_t i : it->second) {
    Pair& pair = pairs_[i];
    if (!pair.counting) continue;
    const double sign = node.index == pair.nodes[0] ? 1 : -1;
    pair.difference += sign * static_cast<double>(amounts[0]) / WeightOf(node.index);
    pair.low = std::min(pair.low, pair.difference);
    pair.high = std::max(pair.high, pair.difference);
    // One more unit of virtual time for each of the two, lost to rounding at a change; and one
    // whenever a start tag is set to the parent's virtual time, which may happen many times in a
    // run.
    const double bound = (static_cast<double>(pair.largest[0]) + 1) / WeightOf(pair.nodes[0]) +
                         (static_cast<double>(pair.largest[1]) + 1) / WeightOf(pair.nodes[1]);
    const double range = pair.high - pair.low;
    worst_ = std::max(worst_, range / bound);
    if (range <= bound * 1.001) continue;
    on_violation_(3, "groups " + std::to_string(pair.nodes[0]) + " and " +
                         std::to_string(pair.nodes[1]) + " are apart by " +
                         std::to_string(range / bound) + " of the bound by weight");
    pair.difference = pair.low = pair.high = 0;
  }
}

// --- Progress ----------------------------------------------------------------------------------

ProgressMeter::Gap& ProgressMeter::GapOf(const MirrorNode& node) {
  const size_t index = static_cast<size_t>(node.index);
  if (gaps_.size() <= index) gaps_.resize(index + 1);
  return gaps_[index];
}

void ProgressMeter::BeforeChange(const MirrorNode& node, int64_t now_ns) {
  Gap& gap = GapOf(node);
  if (gap.waiting) gap.longest = std::max(gap.longest, now_ns - gap.since);
}

void ProgressMeter::AfterChange(const MirrorNode& node, int64_t now_ns) {
  Gap& gap = GapOf(node);
  const bool waiting = node.unhindered();
  if (waiting && !gap.waiting) gap.since = now_ns;
  gap.waiting = waiting;
}

void ProgressMeter::Forget(int64_t now_ns) {
  for (Gap& gap : gaps_) gap = Gap{.waiting = gap.waiting, .since = now_ns};
}

void ProgressMeter::Served(const MirrorNode& node, const Amounts& amounts, int64_t now_ns) {
  (void)amounts;
  Gap& gap = GapOf(node);
  if (gap.waiting) gap.longest = std::max(gap.longest, now_ns - gap.since);
  gap.since = now_ns;
}

}  // namespace weir::property

// Meters of the invariants that need a running account. (Limits are metered by the Mirror, FIFO
// order and idle devices by the Driver.)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mirror.h"

namespace weir::property {

using OnViolation = std::function<void(int invariant, const std::string& what)>;

// Invariant 2. Over any window in which a node waits and no limit is in force at it or above,
// served >= MIN * W - bound. The deficit grows at MIN and falls with service, never below zero; so
// its largest value is the worst window's.
class ReservationMeter : public Observer {
 public:
  struct Bound {
    int64_t in_device = 0;   // D + H + 4c, in 1/65536 norm op
    int64_t allowed_ns = 0;  // of MIN: the debt B, and the credit g if others may wake
  };
  // `raw_op_price`, `bytes_per_op` as in SchedulerOptions.
  ReservationMeter(const Mirror* mirror, Bound bound, OnViolation on_violation);

  void BeforeChange(const MirrorNode& node, int64_t now_ns) override;
  void AfterChange(const MirrorNode& node, int64_t now_ns) override;
  void Served(const MirrorNode& node, const Amounts& amounts, int64_t now_ns) override;
  void Reconfigured(const MirrorNode& node, int64_t now_ns) override;

  // The worst deficit of all, as a share of its bound.
  [[nodiscard]] double worst() const { return worst_; }

 private:
  struct Account {
    bool counting = false;
    int64_t at_ns = 0;
    double deficit[kDimensions] = {};
  };
  Account& AccountOf(const MirrorNode& node);
  void Accrue(const MirrorNode& node, Account* account, int64_t now_ns);

  const Mirror* mirror_;
  Bound bound_;
  OnViolation on_violation_;
  std::vector<Account> accounts_;
  double worst_ = 0;
};

// Invariant 3. Two siblings that both wait, without a reservation at or below them: over any
// window |served_i / w_i - served_j / w_j| <= c_i / w_i + c_j / w_j. Watches pairs given by Watch
// until one of the two moves away or gets a reservation.
class WeightMeter : public Observer {
 public:
  WeightMeter(const Mirror* mirror, OnViolation on_violation)
      : mirror_(mirror), on_violation_(std::move(on_violation)) {}

  // `largest_*`: of any request below the node.
  void Watch(int a, int b, int64_t largest_a, int64_t largest_b);

  void AfterChange(const MirrorNode& node, int64_t now_ns) override;
  void Served(const MirrorNode& node, const Amounts& amounts, int64_t now_ns) override;
  void Reconfigured(const MirrorNode& node, int64_t now_ns) override;

  [[nodiscard]] double worst() const { return worst_; }

 private:
  struct Pair {
    int nodes[2];
    int64_t largest[2];
    bool counting = false;
    bool over = false;
    double difference = 0, low = 0, high = 0;
  };
  [[nodiscard]] bool Comparable(const Pair& pair) const;
  [[nodiscard]] bool AnyReserved(const MirrorNode& node) const;
  [[nodiscard]] double WeightOf(int node) const;

  const Mirror* mirror_;
  OnViolation on_violation_;
  std::vector<Pair> pairs_;
  std::map<int, std::vector<size_t>> pairs_of_;
  double worst_ = 0;
};

// Invariant 5. The longest time a leaf waited without being served although no limit was in force.
class ProgressMeter : public Observer {
 public:
  void BeforeChange(const MirrorNode& node, int64_t now_ns) override;
  void AfterChange(const MirrorNode& node, int64_t now_ns) override;
  void Served(const MirrorNode& node, const Amounts& amounts, int64_t now_ns) override;

  [[nodiscard]] int64_t LongestGap(int leaf) const {
    return static_cast<size_t>(leaf) < gaps_.size() ? gaps_[static_cast<size_t>(leaf)].longest : 0;
  }
  // Starts anew; who waits now, waits from now on.
  void Forget(int64_t now_ns);

 private:
  struct Gap {
    bool waiting = false;
    int64_t since = 0;
    int64_t longest = 0;
  };
  Gap& GapOf(const MirrorNode& node);
  std::vector<Gap> gaps_;
};

}  // namespace weir::property

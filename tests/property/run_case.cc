#include "run_case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "meters.h"
#include "shares.h"
#include "world.h"

namespace weir::property {

namespace {

constexpr double kRequests = 15'000;  // about so many in a run
constexpr int64_t kDebtNs = 1 * kMs;
constexpr int64_t kCreditNs = 4 * kMs;

class Run {
 public:
  Run(const Case& c, bool verbose) : case_(c), verbose_(verbose), world_(c) {
    driver().on_violation = [this](int invariant, const std::string& what) {
      Report(invariant, what);
    };
  }

  Outcome Go() {
    ReservationMeter reservations(&mirror(), ReservationBound(),
                                  [this](int i, const std::string& what) { Report(i, what); });
    WeightMeter weights(&mirror(), [this](int i, const std::string& what) { Report(i, what); });
    ProgressMeter progress;
    // Where requests turn out dearer than they were charged, only limits are still exact.
    if (case_.kind != Kind::kDisorder) {
      if (!case_.over_commit()) mirror().AddObserver(&reservations);
      WatchPairs(&weights);
      mirror().AddObserver(&weights);
      mirror().AddObserver(&progress);
    }
    PlanChanges();
    PlanChecks();
    const bool steady = case_.kind == Kind::kSteady || case_.kind == Kind::kOverCommit;
    if (steady) {
      driver().RunUntil(Length() / 5);
      progress.Forget(driver().now());
      Shares shares(&world_);
      driver().RunUntil(Length() / 5 + Length());
      mirror().Touch(driver().now());
      outcome_.worst_share = shares.Judge(
          verbose_, progress, [this](int i, const std::string& what) { Report(i, what); });
    } else {
      driver().RunUntil(Length());
      mirror().Touch(driver().now());
    }
    Finish();
    outcome_.worst_reservation = reservations.worst();
    outcome_.worst_weight = weights.worst();
    outcome_.requests = mirror().root().dispatched;
    return outcome_;
  }

 private:
  Driver& driver() { return world_.driver(); }
  Mirror& mirror() { return world_.driver().mirror(); }
  [[nodiscard]] int64_t Length() const {
    const double seconds = kRequests * world_.mean_cost() / world_.ops_per_s();
    return static_cast<int64_t>(std::max(2.0, seconds) * 1e9);
  }

  void Report(int invariant, const std::string& what) {
    ++outcome_.violation_count;
    if (outcome_.violations.size() >= kMostViolations) return;
    std::ostringstream text;
    text << "at " << static_cast<double>(driver().now()) / 1e9 << " s: " << what;
    outcome_.violations.push_back({invariant, text.str()});
  }

  ReservationMeter::Bound ReservationBound() {
    ReservationMeter::Bound bound;
    bound.in_device =
        driver().scheduler().depth() + driver().scheduler().headroom() + 4 * world_.largest_cost();
    bound.allowed_ns = kDebtNs + (case_.live() ? kCreditNs : 0);
    return bound;
  }

  // Some pairs of siblings below which nothing is reserved.
  void WatchPairs(WeightMeter* meter) {
    for (size_t i = 0; i < mirror().size(); ++i) {
      std::vector<int> free;
      for (const int child : mirror().node(static_cast<int>(i)).children) {
        if (!AnyReserved(child)) free.push_back(child);
      }
      for (size_t a = 0; a < free.size(); ++a) {
        for (size_t step : {size_t{1}, size_t{3}}) {
          const size_t b = a + step;
          if (b >= free.size()) continue;
          const auto largest = [&](int group) {
            return case_.live() ? world_.largest_cost() : world_.LargestBelow(group);
          };
          meter->Watch(free[a], free[b], largest(free[a]), largest(free[b]));
        }
      }
    }
  }

  bool AnyReserved(int group) {
    const MirrorNode& node = mirror().node(group);
    if (ClaimOf(node.params) > 0) return true;
    return std::any_of(node.children.begin(), node.children.end(),
                       [this](int child) { return AnyReserved(child); });
  }

  void PlanChanges() {
    if (!case_.live()) return;
    Random random(case_.seed ^ 0xC4A46E);
    for (int i = 0; i < case_.changes; ++i) {
      driver().At(random.Range(0, Length()), [this] { world_.Change(); });
      if (case_.kind == Kind::kDisorder) {
        for (int k = 0; k < 10; ++k) {
          driver().At(random.Range(0, Length()), [this] { world_.Disturb(); });
        }
      }
    }
  }

  void PlanChecks() {
    for (int i = 1; i < 40; ++i) {
      driver().At(Length() / 40 * i + 1, [this] {
        driver().scheduler().CheckStructure(FromNanos(driver().now()));
        Reconcile();
      });
    }
  }

  // Invariant 8.
  void Reconcile() {
    for (size_t i = 0; i < mirror().size(); ++i) {
      const MirrorNode& node = mirror().node(static_cast<int>(i));
      if (node.removed) continue;
      const core::GroupStats stats = driver().Stats(node.index);
      MirrorNode sum = node;
      AddBelow(node, &sum);
      bool same = stats.served == node.served && stats.requests == node.dispatched &&
                  stats.completed == sum.completed && stats.cancelled == sum.cancelled &&
                  stats.expired == sum.expired &&
                  stats.in_flight == static_cast<uint64_t>(sum.in_flight);
      auto below = stats.departed;
      for (const int child : node.children) {
        const auto& served = mirror().node(child).served;
        for (size_t k = 0; k < kDimensions; ++k) {
          for (size_t d = 0; d < kDirections; ++d) below[k][d] += served[k][d];
        }
      }
      same = same && (node.leaf() || below == node.served);
      for (size_t d = 0; d < 2; ++d) {
        same = same && stats.queued[d] == static_cast<uint64_t>(sum.queued[d]) &&
               stats.queued_cost[d] == sum.queued_cost[d];
      }
      if (!same) Report(8, "the counters of group " + std::to_string(i) + " do not reconcile");
    }
  }

  void AddBelow(const MirrorNode& node, MirrorNode* sum) {
    for (const int index : node.children) {
      const MirrorNode& child = mirror().node(index);
      sum->completed += child.completed;
      sum->cancelled += child.cancelled;
      sum->expired += child.expired;
      sum->in_flight += child.in_flight;
      for (size_t d = 0; d < 2; ++d) {
        sum->queued[d] += child.queued[d];
        sum->queued_cost[d] += child.queued_cost[d];
      }
      AddBelow(child, sum);
    }
  }

  // Invariant 5: once nothing new arrives, everything that waits is served.
  void Finish() {
    driver().StopAllLoads();
    driver().Drain(kForever - 1);
    if (driver().waiting() != 0) {
      Report(5, std::to_string(driver().waiting()) + " requests wait for ever");
    }
    driver().scheduler().CheckStructure(FromNanos(driver().now()));
    Reconcile();
    const core::GroupStats root = driver().Stats(0);
    if (case_.kind != Kind::kDisorder && root.requests != root.completed) {
      Report(8, "requests dispatched and completed differ");
    }
  }

  Case case_;
  bool verbose_;
  World world_;
  Outcome outcome_;
};

}  // namespace

Outcome RunCase(const Case& c, bool verbose) { return Run(c, verbose).Go(); }

std::string Describe(const Outcome& outcome) {
  std::ostringstream text;
  for (const Outcome::Violation& v : outcome.violations) {
    text << "invariant " << v.invariant << ": " << v.what << "\n";
  }
  if (outcome.violation_count > outcome.violations.size()) {
    text << "... " << outcome.violation_count << " in all\n";
  }
  return text.str();
}

}  // namespace weir::property

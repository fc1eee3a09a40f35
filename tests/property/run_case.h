// Runs one random case and judges all invariants that its kind allows.
#pragma once

#include <string>
#include <vector>

#include "case.h"

namespace weir::property {

struct Outcome {
  struct Violation {
    int invariant = 0;  // of the list in README.md; 0 = other
    std::string what;
  };
  std::vector<Violation> violations;  // the first kMostViolations
  uint64_t violation_count = 0;
  // How near the bounds the run came: worst deficit over bound, and so on.
  double worst_reservation = 0;
  double worst_weight = 0;
  double worst_share = 0;  // deviation from the fluid share, over the tolerance
  uint64_t requests = 0;
};

inline constexpr size_t kMostViolations = 20;

// `verbose`: prints the tree, what each group got and what it should have got.
Outcome RunCase(const Case& c, bool verbose);

std::string Describe(const Outcome& outcome);

}  // namespace weir::property

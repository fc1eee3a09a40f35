// Builds the device, the tree and the loads of a random case, and the live changes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.h"
#include "case.h"
#include "driver.h"
#include "fluid.h"

namespace weir::property {

class World {
 public:
  explicit World(const Case& c);

  // One random live change.
  void Change();
  // Cancels, expedites: what clients do.
  void Disturb();

  [[nodiscard]] Driver& driver() { return *driver_; }
  [[nodiscard]] double ops_per_s() const { return ops_per_s_; }
  [[nodiscard]] int64_t largest_cost() const { return largest_cost_; }
  [[nodiscard]] double mean_cost() const { return mean_cost_; }  // ops
  // The largest cost of any request below a group (as it was built).
  [[nodiscard]] int64_t LargestBelow(int group);

 private:
  struct Sizes {
    int64_t low = 0, high = 0;  // bytes
  };
  void ChooseDevice();
  void ChooseSizes();
  Sizes SizesOfLeaf();
  void Grow(int parent, int level, int leaves, double min_budget);
  void GrowChild(int parent, int level, int leaves, double min_budget);
  void AddLimit(ResourceParams* params, double least, const Sizes& sizes);
  void StartLoad(int leaf, const Sizes& sizes);
  int AddLeaf(int parent);
  [[nodiscard]] int64_t RandomWeight();
  [[nodiscard]] int64_t RandomBurst(double rate, double scale);

  // Live changes.
  void ChangeMin(int group);
  void ChangeMax(int group);
  void AddSomewhere();
  void RemoveSomething();
  void MoveSomething();
  [[nodiscard]] int AnyGroup();
  // Whether all reservations fit the device and each parent's own (or over-commit is meant).
  [[nodiscard]] bool ReservationsFit(int changed, const ResourceParams& params, int new_parent);

  Case case_;
  Random random_;
  double ops_per_s_ = 10'000;
  int slots_ = 8;
  Sizes sizes_;  // of the whole case
  bool mixed_sizes_ = false;
  int64_t largest_cost_ = kOp;
  double mean_cost_ = 1;
  std::vector<Sizes> sizes_of_;  // by group
  std::unique_ptr<Driver> driver_;
};

// Device work that a node's own reservations claim, in ops per second: the largest of its
// dimensions, at 16 KiB an op.
double ClaimOf(const ResourceParams& params);

}  // namespace weir::property

// Checks of a configuration that need more than one value: names, references, MIN against MAX, sums
// of percentages. Internal to the catalog.
//
// PURE.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "catalog/config.h"
#include "catalog/table_reader.h"

namespace weir::catalog {

// Plans by name. Keeps views into the Config, which must outlive it unchanged.
class PlanIndex {
 public:
  explicit PlanIndex(const Config& config);
  [[nodiscard]] const Plan* Find(std::string_view name) const;  // nullptr: none

 private:
  std::unordered_map<std::string_view, const Plan*> plans_;
};

// Line of `key` where it is known, else of the whole.
[[nodiscard]] int LineOfKey(const KeyLines& lines, std::string_view key, int otherwise);

// Everything below, for the whole configuration. The first problem is added.
void CheckConfig(const Config& config, Problems* problems);

// Values of one unit: ranges, MIN against MAX.
void CheckUnit(const Unit& unit, Problems* problems);
// Values of one plan: ranges, duplicates, sums of MIN.
void CheckPlan(const Plan& plan, Problems* problems);

// A reservation that can never be had: MIN above the limit, or above the sum of the limits of reads
// and of writes. `text` is empty when there is none.
struct MinMaxConflict {
  Dimension dimension = Dimension::kNorm;
  std::string text;  // "min_iops (20,000/s) exceeds max_iops (10,000/s)"
};
[[nodiscard]] MinMaxConflict FindMinMaxConflict(const ResourceParams& params);

}  // namespace weir::catalog

// The keys of units and directives, each read from its text: shared by the file reader and by live
// changes, so that both accept the same.
//
// PURE.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalog/config.h"

namespace weir::catalog {

// Keys with a rate, a weight or a duration of a unit; keys with a percentage of a directive.
[[nodiscard]] const std::vector<std::string>& UnitKeys();
[[nodiscard]] const std::vector<std::string>& DirectiveKeys();

// Sets one key. The error message says why only; it begins with the quoted text. kNotFound: no
// such key.
[[nodiscard]] Result<void> SetUnitKey(Unit* unit, std::string_view key, std::string_view text);
[[nodiscard]] Result<void> SetDirectiveKey(Directive* directive, std::string_view key,
                                           std::string_view text);

// params.burst of all limits that are set, from `burst`.
void ApplyBurst(Duration burst, ResourceParams* params);

// A percentage in millionths of the whole, rounded; -1 stays -1.
inline constexpr int64_t kWhole = 1'000'000;
inline constexpr double kMillionthsAPercent = 10'000;
[[nodiscard]] int64_t Millionths(double percent);

// Why `percent` cannot be one; empty when it can.
[[nodiscard]] std::string WhyNoPercent(double percent);

// The key that sets a reservation ("min_iops") or a limit ("max_read_bandwidth").
[[nodiscard]] std::string MinKey(Dimension dimension);
[[nodiscard]] std::string MaxKey(Dimension dimension, Scope scope);
[[nodiscard]] std::string FormatRate(Dimension dimension, int64_t rate);

}  // namespace weir::catalog

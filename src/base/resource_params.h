// What a node of the resource tree is promised: reservation, limit and weight.
#pragma once

#include <array>
#include <cstdint>

namespace weir {

// One normalised operation, or one raw operation, in the integer units of every decision.
// Normalised: 1 = the device time of one 16 KiB random read. Raw: 1 = one request as issued.
inline constexpr int64_t kOp = int64_t{1} << 16;

enum class Direction : uint8_t { kRead = 0, kWrite = 1 };
enum class Dimension : uint8_t { kNorm = 0, kRaw = 1, kBytes = 2 };
enum class Scope : uint8_t { kRead = 0, kWrite = 1, kBoth = 2 };

inline constexpr int kDirections = 2;
inline constexpr int kDimensions = 3;
inline constexpr int kScopes = 3;

// A rate that does not limit.
inline constexpr int64_t kUnlimited = INT64_MAX;
// Rates above this are treated as this; the configuration refuses them.
inline constexpr int64_t kMaxRate = 1'000'000'000'000'000;
inline constexpr int64_t kMaxWeight = 1'000'000;

// Units: rates are per second, in 1/65536 operation for kNorm and kRaw (see kOp), in bytes for
// kBytes. Indexed by Dimension and, for limits, by Scope.
struct ResourceParams {
  std::array<int64_t, kDimensions> min{};  // reservation; 0 = none
  std::array<std::array<int64_t, kScopes>, kDimensions> max = {
      {{kUnlimited, kUnlimited, kUnlimited},
       {kUnlimited, kUnlimited, kUnlimited},
       {kUnlimited, kUnlimited, kUnlimited}}};  // limit; must be > 0
  std::array<std::array<int64_t, kScopes>, kDimensions> burst = {
      {{-1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}}};  // in units, not rates; -1 = the default
  int64_t weight = 100;  // 0 = its reservation, then only what all others leave

  int64_t& MaxOf(Dimension d, Scope s) { return max[static_cast<int>(d)][static_cast<int>(s)]; }
  int64_t MaxOf(Dimension d, Scope s) const {
    return max[static_cast<int>(d)][static_cast<int>(s)];
  }
  int64_t& BurstOf(Dimension d, Scope s) { return burst[static_cast<int>(d)][static_cast<int>(s)]; }
  int64_t& MinOf(Dimension d) { return min[static_cast<int>(d)]; }
  int64_t MinOf(Dimension d) const { return min[static_cast<int>(d)]; }

  friend bool operator==(const ResourceParams&, const ResourceParams&) = default;
};

}  // namespace weir

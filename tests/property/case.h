// A random case: a few numbers from which everything else follows.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "base/result.h"

namespace weir::property {

enum class Kind : uint8_t {
  kSteady,          // all leaves always wait, nothing changes
  kReadWrite,       // reads and writes, limits of either
  kLive,            // loads come and go, parameters and tree change
  kLiveReadWrite,   // both
  kOverCommit,      // steady, with reservations that do not fit the device
  kLiveOverCommit,  // and changing
  kDisorder,        // also cancel, expedite, deadlines, wrong costs, automatic depth
};
inline constexpr int kKinds = 7;

struct Case {
  Kind kind = Kind::kSteady;
  uint64_t seed = 1;
  int leaves = 8;    // at most
  int depth = 3;     // levels below the root, at most
  int changes = 20;  // live changes during the run

  [[nodiscard]] bool live() const {
    return kind == Kind::kLive || kind == Kind::kLiveReadWrite || kind == Kind::kLiveOverCommit ||
           kind == Kind::kDisorder;
  }
  [[nodiscard]] bool read_write() const {
    return kind == Kind::kReadWrite || kind == Kind::kLiveReadWrite || kind == Kind::kDisorder;
  }
  [[nodiscard]] bool over_commit() const {
    return kind == Kind::kOverCommit || kind == Kind::kLiveOverCommit;
  }
};

const char* NameOf(Kind kind);
// "steady seed=1 leaves=8 depth=3 changes=20"
std::string ToText(const Case& c);
Result<Case> ParseCase(const std::string& text);
std::ostream& operator<<(std::ostream& out, const Case& c);

}  // namespace weir::property

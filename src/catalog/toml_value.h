// A TOML document as plain values, each with its line. Hides the TOML library; used by the readers
// of weir.toml and of scenarios.
//
// PURE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::catalog {

// Named maxima, so that no file can exhaust the stack or the memory.
inline constexpr int kMaxTomlDepth = 16;            // arrays and inline tables within each other
inline constexpr int kMaxTomlSeparators = 500'000;  // lines and commas: a bound on values
inline constexpr int kMaxDotsALine = 100;           // a.b.c: tables within tables

struct TomlValue {
  enum class Kind { kString, kInteger, kFloat, kBoolean, kDateOrTime, kArray, kTable };

  Kind kind = Kind::kTable;
  int line = 0;      // of the key; of the value where there is none
  std::string key;   // empty in an array and at the root
  std::string text;  // kString
  int64_t integer = 0;
  double real = 0;
  bool boolean = false;
  std::vector<TomlValue> children;  // of an array or table, in the order of the file
};

// The root table. Errors: kInvalidArgument "FILE:LINE: not valid TOML: ..."; kResourceExhausted:
// larger than kMaxFileBytes, nested deeper than the maxima above. Never throws.
[[nodiscard]] Result<TomlValue> ParseToml(std::string_view text, const std::string& file);

// The value as somebody would write it, for messages: "abc" (cut when long), 12, [...], {...}.
[[nodiscard]] std::string ShowValue(const TomlValue& value);

// A string's text or a number's digits (no exponent: 1e3 -> 1000), to be read by one of the parsers
// of base/units.h. Errors: kInvalidArgument: another kind, or not finite.
[[nodiscard]] Result<std::string> ScalarText(const TomlValue& value);

}  // namespace weir::catalog

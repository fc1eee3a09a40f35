// Rates, sizes and durations as people write them: "5000", "50MB/s", "1MiB/s", "unlimited",
// "16KiB", "10ms". Text in, integers out; and back, with the unit always shown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace weir {

// All: Errors: kInvalidArgument; the message names the text, what is wrong and an example.

// A number is decimal digits with an optional point ("1.5"), no sign, no exponent, no separators; a
// space before the unit is allowed. "1.3MiB" is rounded to the nearest byte, and so on; a fraction
// of a byte or nanosecond itself ("1.5B"), and what would round to 0, is an error. So are rates
// above kMaxRate.

// "5000", "5000/s", "1.5k", "20M", "unlimited" -> 1/65536 op per second (the nearest), or
// kUnlimited.
[[nodiscard]] Result<int64_t> ParseOpsRate(std::string_view text);
// "50MB/s", "1MiB/s", "800kB/s", "4096B/s", "200Mbit/s", "unlimited" -> bytes per second, or
// kUnlimited. A bare number is an error ("it has no unit").
[[nodiscard]] Result<int64_t> ParseByteRate(std::string_view text);
// "16KiB", "4k" (1024), "2MiB", "512", "1MB" (10^6) -> bytes.
[[nodiscard]] Result<int64_t> ParseBytes(std::string_view text);
// "10ms", "1.5s", "250us", "2m", "1h" -> Duration. A bare number is an error.
[[nodiscard]] Result<Duration> ParseDuration(std::string_view text);

// For people: rounded to what matters. Negative values and kUnlimited are fine.
[[nodiscard]] std::string FormatOpsRate(int64_t rate);   // "5,000/s", "unlimited"
[[nodiscard]] std::string FormatByteRate(int64_t rate);  // "50.0 MB/s"
[[nodiscard]] std::string FormatBytes(int64_t bytes);    // "16 KiB"
[[nodiscard]] std::string FormatDuration(Duration d);    // "1.25 ms"

}  // namespace weir

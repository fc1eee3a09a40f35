// Rates, sizes and durations as people write them: "5000", "50MB/s", "1MiB/s", "unlimited", "16KiB",
// "10ms". Text in, integers out; and back, with the unit always shown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace weir {

// All: Errors: kInvalidArgument; the message names the text, what is wrong and an example.

// "5000", "5000/s", "1.5k", "20M", "unlimited" -> 1/65536 op per second, or kUnlimited.
[[nodiscard]] Result<int64_t> ParseOpsRate(std::string_view text);
// "50MB/s", "1MiB/s", "800kB/s", "4096B/s", "unlimited" -> bytes per second. A bare number is an
// error ("give a unit").
[[nodiscard]] Result<int64_t> ParseByteRate(std::string_view text);
// "16KiB", "4k" (1024), "2MiB", "512", "1MB" (10^6) -> bytes.
[[nodiscard]] Result<int64_t> ParseBytes(std::string_view text);
// "10ms", "1.5s", "250us", "2m", "1h" -> Duration. A bare number is an error.
[[nodiscard]] Result<Duration> ParseDuration(std::string_view text);

[[nodiscard]] std::string FormatOpsRate(int64_t rate);   // "5,000/s", "unlimited"
[[nodiscard]] std::string FormatByteRate(int64_t rate);  // "50.0 MB/s"
[[nodiscard]] std::string FormatBytes(int64_t bytes);    // "16 KiB"
[[nodiscard]] std::string FormatDuration(Duration d);    // "1.25 ms"

}  // namespace weir

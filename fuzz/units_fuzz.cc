// Any bytes are a rate, size or duration, or an error with a printable message. What is accepted is
// never negative, and what is shown of it can be shown again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/resource_params.h"
#include "base/text.h"
#include "base/units.h"

namespace {

using weir::Result;

void CheckError(const weir::Error& error) {
  WEIR_CHECK(weir::IsUtf8(error.message));
  WEIR_CHECK(error.message.find('\n') == std::string::npos);
}

void CheckRate(const Result<int64_t>& rate, std::string (*format)(int64_t)) {
  if (!rate) return CheckError(rate.error());
  WEIR_CHECK(*rate == weir::kUnlimited || (*rate >= 0 && *rate <= weir::kMaxRate));
  WEIR_CHECK(!format(*rate).empty());
  WEIR_CHECK(!format(-*rate).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckRate(weir::ParseOpsRate(text), weir::FormatOpsRate);
  CheckRate(weir::ParseByteRate(text), weir::FormatByteRate);
  if (const Result<int64_t> bytes = weir::ParseBytes(text); bytes) {
    WEIR_CHECK(*bytes >= 0);
    WEIR_CHECK(weir::ParseBytes(weir::FormatBytes(*bytes)).has_value() || *bytes > INT64_MAX / 2);
  }
  if (const Result<weir::Duration> duration = weir::ParseDuration(text); duration) {
    WEIR_CHECK(duration->count() >= 0);
    WEIR_CHECK(weir::ParseDuration(weir::FormatDuration(*duration)).has_value() ||
               duration->count() > INT64_MAX / 8);
  }
  WEIR_CHECK(weir::IsUtf8(weir::Quote(text)));
  const std::string match = weir::ClosestMatch(text, {"max_iops", "min_iops", "iops_weight"});
  WEIR_CHECK(match.size() <= 11);
  return 0;
}

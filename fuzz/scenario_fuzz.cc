// Any bytes are a scenario or an error with a printable message. What is accepted keeps the maxima
// of scenario.h, and its changes can be made in their order.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "scenario/scenario.h"

namespace {

using weir::scenario::Scenario;

void CheckLoads(const Scenario& scenario) {
  WEIR_CHECK(!scenario.loads.empty());
  for (const weir::scenario::Load& load : scenario.loads) {
    WEIR_CHECK(load.threads >= 1 && load.depth >= 1);
    WEIR_CHECK(int64_t{load.threads} * load.depth <= weir::scenario::kMaxOutstanding);
    WEIR_CHECK(load.start < scenario.duration && load.stop <= scenario.duration);
    WEIR_CHECK(load.rate >= 0 && load.rate <= weir::scenario::kMaxArrivalRate);
    WEIR_CHECK(load.read_share >= 0 && load.read_share <= 1);
    WEIR_CHECK(!load.sizes.empty());
    for (const weir::scenario::SizeShare& size : load.sizes) {
      WEIR_CHECK(size.bytes >= weir::scenario::kMinRequestBytes);
      WEIR_CHECK(size.bytes <= weir::scenario::kMaxRequestBytes);
      WEIR_CHECK(size.share >= 0 && size.share <= 1);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const weir::Result<Scenario> scenario = weir::scenario::ParseScenario(text, "fuzz");
  if (!scenario) {
    WEIR_CHECK(weir::IsUtf8(scenario.error().message));
    WEIR_CHECK(scenario.error().message.find('\n') == std::string::npos);
    return 0;
  }
  CheckLoads(*scenario);
  WEIR_CHECK(scenario->duration.count() > 0);
  weir::catalog::Config config = scenario->config;
  for (const weir::scenario::Change& change : scenario->changes) {
    WEIR_CHECK(change.at < scenario->duration);
    WEIR_CHECK(weir::catalog::ApplyChanges(&config, change.target, change.set).has_value());
  }
  WEIR_CHECK(weir::catalog::Resolve(config, "", 0, nullptr).has_value());
  return 0;
}

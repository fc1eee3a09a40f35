// Any bytes as a device profile: no crash, and what is accepted is usable.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "device/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto profile = weir::device::ParseProfile(text, "fuzz");
  if (!profile) {
    if (profile.error().message.empty()) std::abort();
    return 0;
  }
  const auto model = profile->Model();
  if (!model || profile->CapacityPerSecond() <= 0) std::abort();
  int64_t before = 1;
  for (int64_t bytes = 1; bytes <= weir::core::kMaxRequestBytes; bytes *= 2) {
    const int64_t cost = model->Cost(weir::Direction::kWrite, weir::core::Access::kRandom, bytes);
    if (cost < before) std::abort();
    before = cost;
  }
  if (weir::device::IoCostModelLine(*profile, "8:0").empty()) std::abort();
  if (!weir::device::ParseProfile(weir::device::ProfileJson(*profile), "again")) std::abort();
  return 0;
}

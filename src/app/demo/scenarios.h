// The demonstration's scenarios: the experiments of the OceanBase article on disk I/O isolation,
// with its proportions. Embedded, so that `weir demo` needs no files.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "scenario/scenario.h"

namespace weir::app::demo {

// What the article's disk served, in 16 KiB random reads a second. Its limits scale with it.
inline constexpr double kArticleIops = 60'000;
inline constexpr int kThreads = 64;  // of each load

struct Scale {
  double rate = 1;     // this disk's capacity over the article's
  double seconds = 1;  // lengths of the runs over those at full length

  [[nodiscard]] int64_t Rate(double article) const;  // op/s, rounded
  [[nodiscard]] Duration Time(double article_seconds) const;
};

// Tenants 1 and 2 weighted 2:1, tenant 3 (from second 10) MIN 10,000, tenant 4 MAX 5,000; 20 s.
inline constexpr double kTenantsSeconds = 20;
inline constexpr double kTenant3From = 10;
inline constexpr double kTenant3Min = 10'000;
inline constexpr double kTenant4Max = 5'000;
[[nodiscard]] Result<scenario::Scenario> FourTenants(const Scale& scale);

// The same with four loads inside tenant 2: A MAX 1 %, B weight 0 and MIN 97 %, C:D 50:25; 15 s.
inline constexpr double kGroupsSeconds = 15;
inline constexpr double kTenant2Min = 2'062;
inline constexpr double kTenant2Max = 100'000;
inline constexpr double kLoadAMax = kTenant2Max * 0.01;
inline constexpr double kLoadBMin = kTenant2Min * 0.97;
[[nodiscard]] Result<scenario::Scenario> LoadsInTenant2(const Scale& scale);

// A scan of 20 KiB reads in a tenant whose MAX is changed again and again; 15 s.
inline constexpr double kScanStep = 1.5;  // seconds between changes
inline constexpr double kScanMax[] = {20'000, 5'000,  12'000, 2'500,  25'000,
                                      10'000, 20'000, 5'000,  15'000, 8'000};
inline constexpr int64_t kScanBytes = 20 * 1024;
[[nodiscard]] Result<scenario::Scenario> LiveChange(const Scale& scale);

}  // namespace weir::app::demo

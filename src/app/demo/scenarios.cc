#include "app/demo/scenarios.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace weir::app::demo {

namespace {

constexpr const char* kTenants = R"(
title = "{title}"
duration = "{seconds}ns"

[[unit]]
name = "tenant1"
iops_weight = 200

[[unit]]
name = "tenant2"
iops_weight = 100
min_iops = {tenant2_min}
max_iops = {tenant2_max}
{tenant2_plan}

# Weight 0: its reservation is all that it has while others want the disk.
[[unit]]
name = "tenant3"
iops_weight = 0
min_iops = {tenant3_min}

[[unit]]
name = "tenant4"
iops_weight = 100
max_iops = {tenant4_max}

[[load]]
name = "1"
group = "tenant1"
threads = {threads}

[[load]]
name = "4"
group = "tenant4"
threads = {threads}
)";

constexpr const char* kTenant3Load = R"(
[[load]]
name = "3"
group = "tenant3"
threads = {threads}
start = "{start}ns"

[[load]]
name = "2"
group = "tenant2"
threads = {threads}
)";

constexpr const char* kTenant2Plan = R"(
[[plan]]
name = "tenant2_plan"

[[plan.directive]]
group = "A"
max_iops = 1

[[plan.directive]]
group = "B"
min_iops = 97
weight_iops = 0

[[plan.directive]]
group = "C"
weight_iops = 50

[[plan.directive]]
group = "D"
weight_iops = 25
)";

constexpr const char* kTenant2Load = R"(
[[group]]
name = "{name}"

[[load]]
name = "{name}"
group = "tenant2/{name}"
threads = {threads}
)";

std::string TenantsText(const Scale& scale, const std::string& title, double seconds,
                        const std::string& tenant2_plan) {
  return fmt::format(
      kTenants, fmt::arg("title", title), fmt::arg("seconds", scale.Time(seconds).count()),
      fmt::arg("tenant2_plan", tenant2_plan), fmt::arg("tenant2_min", scale.Rate(kTenant2Min)),
      fmt::arg("tenant2_max", scale.Rate(kTenant2Max)),
      fmt::arg("tenant3_min", scale.Rate(kTenant3Min)),
      fmt::arg("tenant4_max", scale.Rate(kTenant4Max)), fmt::arg("threads", kThreads));
}

}  // namespace

int64_t Scale::Rate(double article) const {
  return std::max<int64_t>(1, std::llround(article * rate));
}

Duration Scale::Time(double article_seconds) const {
  return Duration(std::llround(article_seconds * seconds * 1e9));
}

Result<scenario::Scenario> FourTenants(const Scale& scale) {
  const std::string text =
      TenantsText(scale, "1. Four tenants of one disk", kTenantsSeconds, "") +
      fmt::format(kTenant3Load, fmt::arg("start", scale.Time(kTenant3From).count()),
                  fmt::arg("threads", kThreads));
  return scenario::ParseScenario(text, "weir demo, part 1");
}

Result<scenario::Scenario> LoadsInTenant2(const Scale& scale) {
  std::string text = TenantsText(scale, "2. Four loads inside tenant 2", kGroupsSeconds,
                                 "plan = \"tenant2_plan\"");
  text += kTenant2Plan;
  for (const char* name : {"A", "B", "C", "D"}) {
    text += fmt::format(kTenant2Load, fmt::arg("name", name), fmt::arg("threads", kThreads));
  }
  return scenario::ParseScenario(text, "weir demo, part 2");
}

Result<scenario::Scenario> LiveChange(const Scale& scale) {
  std::string text = fmt::format(R"(
title = "4. Changing MAX_IOPS during a scan of 20 KiB reads"
duration = "{}ns"

[[unit]]
name = "scan"
max_iops = {}

[[load]]
name = "parallel scan"
group = "scan"
threads = {}
size = "20KiB"
pattern = "sequential"
)",
                                 scale.Time(kScanStep * std::size(kScanMax)).count(),
                                 scale.Rate(kScanMax[0]), kThreads);
  for (size_t i = 1; i < std::size(kScanMax); ++i) {
    text += fmt::format("\n[[change]]\nat = \"{}ns\"\ntarget = \"scan\"\nset.max_iops = {}\n",
                        scale.Time(kScanStep * static_cast<double>(i)).count(),
                        scale.Rate(kScanMax[i]));
  }
  return scenario::ParseScenario(text, "weir demo, part 4");
}

}  // namespace weir::app::demo

// Goal: what a scenario says is what the Scenario holds; and no bytes crash the reader.
#include "scenario/scenario.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/text.h"

namespace weir::scenario {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kEverything[] = R"(
title = "two tenants"
duration = "20s"
seed = 42

[bench]
file = "/data/scratch"
file_size = "4GiB"

[[device]]
name = "d"
capacity_iops = 60000

[[group]]
name = "A"
[[group]]
name = "B"
[[plan]]
name = "p"
[[plan.directive]]
group = "A"
max_iops = 1
[[plan.directive]]
subplan = "q"
[[plan]]
name = "q"
[[plan.directive]]
group = "B"

[[unit]]
name = "t1"
iops_weight = 200
[[unit]]
name = "t2"
plan = "p"
max_iops = 100000

[[load]]
name = "readers"
group = "t1"
threads = 64
depth = 2
size = "4KiB"
think = "1ms"
think_random = true
start = "5s"
stop = "15s"
deadline = "100ms"

[[load]]
name = "mixed"
group = "t2/q/B"
sizes = [{ size = "4KiB", share = 0.7 }, { size = 65536, share = 0.3 }]
read_share = 0.25
pattern = "sequential"
burst_on = "1s"
burst_off = "500ms"

[[load]]
name = "open"
group = "t2/OTHER_GROUPS"
rate = 250.5

[[change]]
at = "12s"
target = "t2/A"
set = { max_iops = 2 }

[[change]]
at = "10s"
target = "t1"
set = { max_iops = "5k", min_iops = 4000, max_bandwidth = "50MB/s" }

[[expect]]
metric = "norm_iops"
group = "t1"
from = "11s"
to = "19s"
every_second = true
min = "4k"
max = 5050.5
text = "t1 keeps its limit"

[[expect]]
metric = "ratio"
group = "t1"
other = "t2"
min = 1.96
max = 2.04

[[expect]]
metric = "bandwidth"
max = "1MB/s"
[[expect]]
metric = "wait_p99"
group = "t2/q"
max = "2ms"
[[expect]]
metric = "latency_p99"
group = "t1"
max = 5000000
[[expect]]
metric = "utilisation"
min = 0.97
[[expect]]
metric = "raw_iops"
group = "t2/q/B"
min = 1

[sim]
parallelism = 16
reference_time = "250us"
noise = 0.3
stall_every = "5s"
stall_for = "100ms"
slow_every = "7s"
slow_for = "2s"
slow_factor = 3
write_factor = 1.5
)";

Scenario Parse(std::string_view text) {
  const Result<Scenario> scenario = ParseScenario(text, "s.toml");
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
  return scenario.value_or(Scenario{});
}

TEST(Scenario, TheRunAndItsConfigurationAreAsWritten) {
  const Scenario scenario = Parse(kEverything);
  EXPECT_EQ(scenario.title, "two tenants");
  EXPECT_EQ(scenario.duration, seconds(20));
  EXPECT_EQ(scenario.seed, 42u);
  EXPECT_EQ(scenario.file, "/data/scratch");
  EXPECT_EQ(scenario.file_size, int64_t{4} << 30);
  EXPECT_EQ(scenario.config.file, "s.toml");
  EXPECT_EQ(scenario.config.units.size(), 2u);
  EXPECT_EQ(scenario.config.plans.size(), 2u);
  EXPECT_EQ(scenario.config.devices[0].capacity, 60'000 * kOp);
}

TEST(Scenario, LoadsAreAsWritten) {
  const Scenario scenario = Parse(kEverything);
  ASSERT_EQ(scenario.loads.size(), 3u);
  const Load& readers = scenario.loads[0];
  EXPECT_EQ(readers.name, "readers");
  EXPECT_EQ(readers.group, "t1");
  EXPECT_EQ(readers.threads, 64);
  EXPECT_EQ(readers.depth, 2);
  ASSERT_EQ(readers.sizes.size(), 1u);
  EXPECT_EQ(readers.sizes[0].bytes, 4096);
  EXPECT_EQ(readers.sizes[0].share, 1);
  EXPECT_EQ(readers.read_share, 1);
  EXPECT_FALSE(readers.sequential);
  EXPECT_EQ(readers.think, milliseconds(1));
  EXPECT_TRUE(readers.think_random);
  EXPECT_EQ(readers.rate, 0);
  EXPECT_EQ(readers.start, seconds(5));
  EXPECT_EQ(readers.stop, seconds(15));
  EXPECT_EQ(readers.deadline, milliseconds(100));
  const Load& mixed = scenario.loads[1];
  ASSERT_EQ(mixed.sizes.size(), 2u);
  EXPECT_EQ(mixed.sizes[0].share, 0.7);
  EXPECT_EQ(mixed.sizes[1].bytes, 65536);
  EXPECT_EQ(mixed.read_share, 0.25);
  EXPECT_TRUE(mixed.sequential);
  EXPECT_EQ(mixed.burst_on, seconds(1));
  EXPECT_EQ(mixed.burst_off, milliseconds(500));
  EXPECT_EQ(mixed.stop.count(), 0);
  EXPECT_EQ(scenario.loads[2].rate, 250.5);
  EXPECT_EQ(scenario.loads[2].sizes[0].bytes, 16 * 1024);
}

TEST(Scenario, ChangesAreInOrderOfTimeWithTheirValuesAsText) {
  const Scenario scenario = Parse(kEverything);
  ASSERT_EQ(scenario.changes.size(), 2u);
  EXPECT_EQ(scenario.changes[0].at, seconds(10));
  EXPECT_EQ(scenario.changes[0].target, "t1");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"max_iops", "5k"}, {"min_iops", "4000"}, {"max_bandwidth", "50MB/s"}};
  EXPECT_EQ(scenario.changes[0].set, expected);
  EXPECT_EQ(scenario.changes[1].target, "t2/A");
  EXPECT_EQ(scenario.changes[1].set[0].second, "2");
}

TEST(Scenario, ExpectationsAreInTheUnitOfTheirMetric) {
  const Scenario scenario = Parse(kEverything);
  ASSERT_EQ(scenario.expects.size(), 7u);
  const Expect& norm = scenario.expects[0];
  EXPECT_EQ(norm.metric, Expect::Metric::kNormIops);
  EXPECT_EQ(norm.group, "t1");
  EXPECT_EQ(norm.from, seconds(11));
  EXPECT_EQ(norm.to, seconds(19));
  EXPECT_TRUE(norm.every_second);
  EXPECT_TRUE(norm.has_min);
  EXPECT_TRUE(norm.has_max);
  EXPECT_EQ(norm.min, 4000);
  EXPECT_EQ(norm.max, 5050.5);
  EXPECT_EQ(norm.text, "t1 keeps its limit");
  EXPECT_EQ(scenario.expects[1].metric, Expect::Metric::kRatio);
  EXPECT_EQ(scenario.expects[1].other, "t2");
  EXPECT_EQ(scenario.expects[2].metric, Expect::Metric::kBandwidth);
  EXPECT_EQ(scenario.expects[2].group, "");
  EXPECT_FALSE(scenario.expects[2].has_min);
  EXPECT_EQ(scenario.expects[2].max, 1e6);
  EXPECT_EQ(scenario.expects[3].metric, Expect::Metric::kWaitP99);
  EXPECT_EQ(scenario.expects[3].max, 2e6);
  EXPECT_EQ(scenario.expects[4].metric, Expect::Metric::kLatencyP99);
  EXPECT_EQ(scenario.expects[4].max, 5e6);
  EXPECT_EQ(scenario.expects[5].metric, Expect::Metric::kUtilisation);
  EXPECT_EQ(scenario.expects[6].metric, Expect::Metric::kRawIops);
}

TEST(Scenario, TheSimulatedDeviceIsAsWritten) {
  const SimDevice sim = Parse(kEverything).sim;
  EXPECT_EQ(sim.parallelism, 16);
  EXPECT_EQ(sim.reference_time, std::chrono::microseconds(250));
  EXPECT_EQ(sim.noise, 0.3);
  EXPECT_EQ(sim.stall_every, seconds(5));
  EXPECT_EQ(sim.stall_for, milliseconds(100));
  EXPECT_EQ(sim.slow_every, seconds(7));
  EXPECT_EQ(sim.slow_for, seconds(2));
  EXPECT_EQ(sim.slow_factor, 3);
  EXPECT_EQ(sim.write_factor, 1.5);
}

TEST(Scenario, ASmallOneTakesTheDefaults) {
  const Scenario scenario =
      Parse("[[unit]]\nname = \"u\"\n[[load]]\nname = \"l\"\ngroup = \"u\"\n");
  EXPECT_EQ(scenario.duration, seconds(10));
  EXPECT_EQ(scenario.seed, 1u);
  EXPECT_EQ(scenario.loads[0].threads, 1);
  EXPECT_EQ(scenario.loads[0].sizes[0].bytes, 16 * 1024);
  EXPECT_EQ(scenario.sim.parallelism, 8);
}

TEST(Scenario, ChangesMayNeedEachOther) {
  // MIN can be raised above the old MAX, since MAX has been raised before, although written after.
  const Scenario scenario = Parse(R"(
[[unit]]
name = "u"
max_iops = 100
[[load]]
name = "l"
group = "u"
[[change]]
at = "2s"
target = "u"
set = { min_iops = 150 }
[[change]]
at = "1s"
target = "u"
set = { max_iops = 200 }
)");
  EXPECT_EQ(scenario.changes.size(), 2u);
}

void Survive(std::string_view text) {
  const Result<Scenario> scenario = ParseScenario(text, "f");
  if (scenario) return;
  EXPECT_TRUE(IsUtf8(scenario.error().message)) << Quote(scenario.error().message, 500);
  EXPECT_EQ(scenario.error().message.find('\n'), std::string::npos);
}

TEST(ScenarioHostile, EveryPrefixIsReadOrRefused) {
  const std::string_view text = kEverything;
  for (size_t n = 0; n <= text.size(); ++n) Survive(text.substr(0, n));
}

TEST(ScenarioHostile, DamagedCopiesAreReadOrRefused) {
  Random random(6);
  for (int i = 0; i < 3000; ++i) {
    std::string text = kEverything;
    for (int64_t n = random.Range(1, 5); n > 0; --n) {
      const auto at = static_cast<size_t>(random.Range(0, static_cast<int64_t>(text.size()) - 1));
      if (random.Chance(0.4)) {
        text[at] = static_cast<char>(random.Range(0, 255));
      } else if (random.Chance(0.5)) {
        text.erase(at, static_cast<size_t>(random.Range(1, 30)));
      } else {
        text.insert(at, text.substr(at, static_cast<size_t>(random.Range(1, 60))));
      }
    }
    Survive(text);
  }
}

TEST(ScenarioHostile, ManyWrongLoadsAreRefusedAtTheFirst) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "[[unit]]\nname = \"u" + std::to_string(i) + "\"\n";
  for (int i = 0; i < 10'000; ++i) {
    text += "[[load]]\nname = \"l" + std::to_string(i) + "\"\ngroup = \"x\"\n";
  }
  const Result<Scenario> scenario = ParseScenario(text, "f");
  ASSERT_FALSE(scenario.has_value());
  EXPECT_EQ(scenario.error().message.substr(0, 41),
            "f:20003: load \"l0\": group = \"x\": there is");
}

}  // namespace
}  // namespace weir::scenario

// Goal: each kind of mistake in a scenario is refused with its file, line, key, value and the fix.
// Method: a table of files and the whole message.
#include <gtest/gtest.h>

#include <ostream>

#include "scenario/scenario.h"

namespace weir::scenario {
namespace {

struct Row {
  const char* name;
  const char* text;
  const char* message;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class ScenarioError : public testing::TestWithParam<Row> {};

TEST_P(ScenarioError, NamesPlaceValueAndFix) {
  const Result<Scenario> scenario = ParseScenario(GetParam().text, "s.toml");
  ASSERT_FALSE(scenario.has_value());
  EXPECT_EQ(scenario.error().message, GetParam().message);
  EXPECT_EQ(scenario.error().code, ErrorCode::kInvalidArgument);
}

// What most of the files begin with: 11, 14 and 15 lines.
#define WEIR_UNITS                                                                       \
  "[[group]]\nname = \"a\"\n[[plan]]\nname = \"p\"\n[[plan.directive]]\ngroup = \"a\"\n" \
  "[[unit]]\nname = \"u\"\n[[unit]]\nname = \"v\"\nplan = \"p\"\n"
#define WEIR_LOAD WEIR_UNITS "[[load]]\nname = \"l\"\ngroup = \"u\"\n"
#define WEIR_CHANGE WEIR_LOAD "[[change]]\n"
#define WEIR_EXPECT WEIR_LOAD "[[expect]]\n"

INSTANTIATE_TEST_SUITE_P(
    Run, ScenarioError,
    testing::Values(Row{"NoLoad", WEIR_UNITS, "s.toml:1: there is nothing to run; add a [[load]]"},
                    Row{"UnknownKey", WEIR_LOAD R"([snm]
)",
                        "s.toml:15: unknown key \"snm\" = {...}; did you mean \"sim\"?"},
                    Row{"UnknownTopKey", R"(durration = "5s"
)",
                        "s.toml:1: unknown key \"durration\" = \"5s\"; did you mean \"duration\"?"},
                    Row{"DurationWithoutUnit", R"(duration = 5
)",
                        "s.toml:1: duration = \"5\" is not a duration: it has no unit; write for "
                        "example \"10ms\", \"1.5s\" or \"2m\""},
                    Row{"DurationOfZero", R"(duration = "0s"
)",
                        "s.toml:1: duration = \"0s\": it must be between 1 ms and 24 h"},
                    Row{"DurationTooLong", R"(duration = "25h"
)",
                        "s.toml:1: duration = \"25h\": it must be between 1 ms and 24 h"},
                    Row{"NegativeSeed", R"(seed = -1
)",
                        "s.toml:1: seed = -1: it must be between 0 and 9223372036854775807"},
                    Row{"SeedText", R"(seed = "1"
)",
                        "s.toml:1: seed = \"1\": it must be a whole number, without quotes"},
                    Row{"TwoDevices", WEIR_LOAD R"([[device]]
name = "d"
[[device]]
name = "e"
)",
                        "s.toml:17: a scenario runs on one device; remove this [[device]]"},
                    Row{"ConfigurationError", R"([[unit]]
name = "u"
min_iops = 5
max_iops = 4
)",
                        "s.toml:3: unit \"u\": min_iops (5/s) exceeds max_iops (4/s); lower the "
                        "first or raise the second"},
                    Row{"BenchTwice", WEIR_LOAD R"([[bench]]
file = "x"
)",
                        "s.toml:15: bench = [...]: it must be a table, written [bench]"},
                    Row{"FileSizeTooSmall", WEIR_LOAD R"([bench]
file_size = "4KiB"
)",
                        "s.toml:16: bench: file_size = \"4KiB\": it must be at least 1 MiB"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Load, ScenarioError,
    testing::Values(
        Row{"NoGroup", WEIR_UNITS R"([[load]]
name = "l"
)",
            "s.toml:12: load \"l\": group is missing; say which unit or group it runs in"},
        Row{"NoSuchGroup", WEIR_UNITS R"([[load]]
name = "l"
group = "v/b"
)",
            "s.toml:14: load \"l\": group = \"v/b\": there is no such unit or group; did you mean "
            "\"v/a\"?"},
        Row{"InnerGroup", WEIR_UNITS R"([[load]]
name = "l"
group = "v"
)",
            "s.toml:14: load \"l\": group = \"v\": it has groups below it; write one of: "
            "v/OTHER_GROUPS, v/a"},
        Row{"NoUnitAtAll", R"([[load]]
name = "l"
group = "v"
)",
            "s.toml:3: load \"l\": group = \"v\": there is no such unit or group; there is no "
            "[[unit]], add one"},
        Row{"NameTwice", WEIR_LOAD R"([[load]]
name = "l"
group = "u"
)",
            "s.toml:15: load \"l\" is already there, in line 12; choose another name"},
        Row{"UnknownLoadKey", WEIR_LOAD R"(iodepth = 4
)",
            "s.toml:15: load \"l\": unknown key \"iodepth\" = 4; did you mean \"depth\"?"},
        Row{"NoThreads", WEIR_LOAD R"(threads = 0
)",
            "s.toml:15: load \"l\": threads = 0: it must be between 1 and 65536"},
        Row{"TooManyOutstanding", WEIR_LOAD R"(threads = 60000
depth = 2
)",
            "s.toml:16: load \"l\": depth = 2: threads * depth is 120000, more than the maximum of "
            "65536"},
        Row{"OddSize", WEIR_LOAD R"(size = 1000
)",
            "s.toml:15: load \"l\": size = 1000: a request is a multiple of 512 bytes, at most 64 "
            "MiB"},
        Row{"HugeSize", WEIR_LOAD R"(size = "128MiB"
)",
            "s.toml:15: load \"l\": size = \"128MiB\": a request is a multiple of 512 bytes, at "
            "most 64 MiB"},
        Row{"SizeAndSizes", WEIR_LOAD R"(size = "4k"
sizes = [{ size = "4k", share = 1 }]
)",
            "s.toml:16: load \"l\": sizes = [...]: size is there too; write one of them"},
        Row{"SharesThatDoNotAddUp",
            WEIR_LOAD R"(sizes = [{ size = "4k", share = 0.5 }, { size = "8k", share = 0.4 }]
)",
            "s.toml:15: load \"l\": sizes = [...]: the shares add up to 0.9; they must add up to "
            "1"},
        Row{"SizesWithoutShare", WEIR_LOAD R"(sizes = [{ size = "4k" }]
)",
            "s.toml:15: sizes 1 of load \"l\": share is missing; write its part of the requests, "
            "for example share = 0.7"},
        Row{"SizesNoTables", WEIR_LOAD R"(sizes = ["4k", "8k"]
)",
            "s.toml:15: sizes = \"4k\" of load \"l\": it must be a table, { ... }"},
        Row{"ReadShare", WEIR_LOAD R"(read_share = 1.5
)",
            "s.toml:15: load \"l\": read_share = 1.5: it must be between 0 and 1"},
        Row{"ReadShareNan", WEIR_LOAD R"(read_share = nan
)",
            "s.toml:15: load \"l\": read_share = nan: it must be between 0 and 1"},
        Row{"Pattern", WEIR_LOAD R"(pattern = "randm"
)",
            "s.toml:15: load \"l\": pattern = \"randm\": did you mean \"random\"? it must be one "
            "of: random, sequential"},
        Row{"ThinkRandomAlone", WEIR_LOAD R"(think_random = true
)",
            "s.toml:15: load \"l\": think_random = true: there is no think time; write for example "
            "think = \"1ms\""},
        Row{"RateOfZero", WEIR_LOAD R"(rate = 0
)",
            "s.toml:15: load \"l\": rate = 0: it must be above 0 and at most 10000000 requests a "
            "second; leave it out for a closed loop"},
        Row{"RateUnlimited", WEIR_LOAD R"(rate = "unlimited"
)",
            "s.toml:15: load \"l\": rate = \"unlimited\": it must be above 0 and at most 10000000 "
            "requests a second; leave it out for a closed loop"},
        Row{"RateAndThink", WEIR_LOAD R"(rate = 5
think = "1ms"
)",
            "s.toml:16: load \"l\": think = \"1ms\": with a rate requests do not wait for earlier "
            "ones; remove one"},
        Row{"StartAfterTheEnd", WEIR_LOAD R"(start = "10s"
)",
            "s.toml:15: load \"l\": start = \"10s\": it is not before the end of the run (10 s)"},
        Row{"StopBeforeStart", WEIR_LOAD R"(start = "5s"
stop = "5s"
)",
            "s.toml:16: load \"l\": stop = \"5s\": it is not after start (5 s)"},
        Row{"StopAfterTheEnd", WEIR_LOAD R"(stop = "11s"
)",
            "s.toml:15: load \"l\": stop = \"11s\": it must be between 1 ns and 10 s"},
        Row{"BurstOnAlone", WEIR_LOAD R"(burst_on = "1s"
)",
            "s.toml:15: load \"l\": burst_on = \"1s\": burst_on and burst_off go together; write "
            "both"},
        Row{"BurstTooShort", WEIR_LOAD R"(burst_on = "1ns"
burst_off = "1s"
)",
            "s.toml:15: load \"l\": burst_on = \"1ns\": it must be between 100 us and 24 h"},
        Row{"PauseTooShort", WEIR_LOAD R"(burst_on = "1s"
burst_off = "99us"
)",
            "s.toml:16: load \"l\": burst_off = \"99us\": it must be between 100 us and 24 h"},
        Row{"DeadlineWithoutUnit", WEIR_LOAD R"(deadline = 10
)",
            "s.toml:15: load \"l\": deadline = \"10\" is not a duration: it has no unit; write for "
            "example \"10ms\", \"1.5s\" or \"2m\""}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Change, ScenarioError,
    testing::Values(
        Row{"Empty", WEIR_CHANGE,
            "s.toml:15: change 1: at is missing; say when, for example at = \"10s\""},
        Row{"NoTime", WEIR_CHANGE R"(target = "u"
set = { max_iops = 5 }
)",
            "s.toml:15: change 1: at is missing; say when, for example at = \"10s\""},
        Row{"AfterTheEnd", WEIR_CHANGE R"(at = "10s"
target = "u"
set = { max_iops = 5 }
)",
            "s.toml:16: change 1: at = \"10s\": it is not before the end of the run (10 s)"},
        Row{"UnknownTarget", WEIR_CHANGE R"(at = "1s"
target = "x"
set = { max_iops = 5 }
)",
            "s.toml:15: at 1 s: change of \"x\": there is no unit \"x\"; known: u, v"},
        Row{"UnknownKeySet", WEIR_CHANGE R"(at = "1s"
target = "u"
set = { max_iop = 5 }
)",
            "s.toml:15: at 1 s: change of \"u\": unknown key \"max_iop\"; did you mean "
            "\"max_iops\"?"},
        Row{"BadValue", WEIR_CHANGE R"(at = "1s"
target = "u"
set = { max_bandwidth = 5 }
)",
            "s.toml:15: at 1 s: change of \"u\": max_bandwidth = \"5\" is not a bandwidth: it has "
            "no unit; write for example \"50MB/s\", \"1MiB/s\" or \"unlimited\""},
        Row{"ValueOfNoUse", WEIR_CHANGE R"(at = "1s"
target = "u"
set = { max_iops = [5] }
)",
            "s.toml:18: change 1: set = {...}: max_iops = [...]: it must be a number or a text in "
            "quotes"},
        Row{"SetsNothing", WEIR_CHANGE R"(at = "1s"
target = "u"
set = {}
)",
            "s.toml:18: change 1: set = {...}: it sets nothing; write for example set = { max_iops "
            "= 5000 }"},
        Row{"SetIsNoTable", WEIR_CHANGE R"(at = "1s"
target = "u"
set = "max_iops = 5"
)",
            "s.toml:18: change 1: set = \"max_iops = 5\": it must be a table, { ... }"},
        Row{"NotValidInItsTurn", WEIR_CHANGE R"(at = "1s"
target = "u"
set = { max_iops = 5 }
[[change]]
at = "2s"
target = "u"
set = { min_iops = 6 }
)",
            "s.toml:19: at 2 s: change of \"u\": unit \"u\": min_iops (6/s) exceeds max_iops "
            "(5/s); lower the first or raise the second"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Expect, ScenarioError,
    testing::Values(
        Row{"NoMetric", WEIR_EXPECT R"(min = 5
)",
            "s.toml:15: expect 1: metric is missing; write one of: norm_iops, raw_iops, bandwidth, "
            "ratio, wait_p99, latency_p99, utilisation"},
        Row{"UnknownMetric", WEIR_EXPECT R"(metric = "iops"
min = 5
)",
            "s.toml:16: expect 1: metric = \"iops\": it must be one of: norm_iops, raw_iops, "
            "bandwidth, ratio, wait_p99, latency_p99, utilisation"},
        Row{"MetricTypo", WEIR_EXPECT R"(metric = "utilization"
min = 0.5
)",
            "s.toml:16: expect 1: metric = \"utilization\": did you mean \"utilisation\"? it must "
            "be one of: norm_iops, raw_iops, bandwidth, ratio, wait_p99, latency_p99, utilisation"},
        Row{"NoBound", WEIR_EXPECT R"(metric = "norm_iops"
)",
            "s.toml:15: expect 1: min or max is missing; write what is expected"},
        Row{"MinAboveMax", WEIR_EXPECT R"(metric = "norm_iops"
min = 5
max = 4
)",
            "s.toml:17: expect 1: min = 5: it is above max (4)"},
        Row{"UnknownGroup", WEIR_EXPECT R"(metric = "norm_iops"
group = "w"
min = 5
)",
            "s.toml:17: expect 1: group = \"w\": there is no such unit or group; write one of: u, "
            "v, v/OTHER_GROUPS, v/a"},
        Row{"RatioWithoutOther", WEIR_EXPECT R"(metric = "ratio"
group = "u"
min = 2
)",
            "s.toml:15: expect 1: other is missing; a ratio needs group and other"},
        Row{"OtherWithoutRatio", WEIR_EXPECT R"(metric = "norm_iops"
group = "u"
other = "v"
min = 2
)",
            "s.toml:18: expect 1: other = \"v\": only a ratio has it; remove it"},
        Row{"UtilisationOfAGroup", WEIR_EXPECT R"(metric = "utilisation"
group = "u"
min = 0.9
)",
            "s.toml:17: expect 1: group = \"u\": utilisation is the device's; remove it"},
        Row{"TextForARatio", WEIR_EXPECT R"(metric = "ratio"
group = "u"
other = "v"
min = "2"
)",
            "s.toml:19: expect 1: min = \"2\": it must be a number, without quotes"},
        Row{"BandwidthWithoutUnit", WEIR_EXPECT R"(metric = "bandwidth"
min = "5"
)",
            "s.toml:17: expect 1: min = \"5\" is not a bandwidth: it has no unit; write for "
            "example \"50MB/s\", \"1MiB/s\" or \"unlimited\""},
        Row{"FromAfterTo", WEIR_EXPECT R"(metric = "norm_iops"
from = "5s"
to = "4s"
min = 1
)",
            "s.toml:17: expect 1: from = \"5s\": it is not before the end of the window (4 s)"},
        Row{"ToAfterTheEnd", WEIR_EXPECT R"(metric = "norm_iops"
to = "11s"
min = 1
)",
            "s.toml:17: expect 1: to = \"11s\": it must be between 1 ns and 10 s"},
        Row{"EverySecondOfLessThanOne", WEIR_EXPECT R"(metric = "norm_iops"
from = "9.5s"
every_second = true
min = 1
)",
            "s.toml:18: expect 1: every_second = true: the window (9.5 s to 10 s) holds no whole "
            "second; write for example from = \"9s\""},
        Row{"EverySecondBetweenTwo", WEIR_EXPECT R"(metric = "norm_iops"
from = "2.6s"
to = "3.9s"
every_second = true
min = 1
)",
            "s.toml:19: expect 1: every_second = true: the window (2.6 s to 3.9 s) holds no whole "
            "second; write for example from = \"2s\", to = \"4s\""},
        Row{"EverySecondOfARunWithoutOne",
            "duration = \"700ms\"\n" WEIR_EXPECT R"(metric = "norm_iops"
every_second = true
min = 1
)",
            "s.toml:18: expect 1: every_second = true: the window (0 ns to 700 ms) holds no whole "
            "second; the run has none, remove every_second"},
        Row{"EverySecondOfAPartAtTheEnd",
            "duration = \"3.5s\"\n" WEIR_EXPECT R"(metric = "norm_iops"
from = "3s"
every_second = true
min = 1
)",
            "s.toml:19: expect 1: every_second = true: the window (3 s to 3.5 s) holds no whole "
            "second; write for example from = \"2s\""},
        Row{"WindowShorterThanASecond", WEIR_EXPECT R"(metric = "norm_iops"
from = "2.1s"
to = "2.4s"
min = 1
)",
            "s.toml:17: expect 1: from = \"2.1s\": the window (2.1 s to 2.4 s) is shorter than a "
            "second, and the run is measured by the second; write for example from = \"2s\", to = "
            "\"3s\""},
        Row{"WindowOfTheFirstMoments", WEIR_EXPECT R"(metric = "norm_iops"
to = "100ms"
min = 1
)",
            "s.toml:17: expect 1: to = \"100ms\": the window (0 ns to 100 ms) is shorter than a "
            "second, and the run is measured by the second; write for example from = \"0s\", to = "
            "\"1s\""},
        Row{"WindowAtTheEnd", WEIR_EXPECT R"(metric = "norm_iops"
from = "9.8s"
min = 1
)",
            "s.toml:17: expect 1: from = \"9.8s\": the window (9.8 s to 10 s) is shorter than a "
            "second, and the run is measured by the second; write for example from = \"9s\""},
        Row{"NegativeBound", WEIR_EXPECT R"(metric = "norm_iops"
min = -1
)",
            "s.toml:17: expect 1: min = -1: it must be between 0 and 1e+18"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Sim, ScenarioError,
    testing::Values(
        Row{"NoSlots", WEIR_LOAD R"([sim]
parallelism = 0
)",
            "s.toml:16: sim: parallelism = 0: it must be between 1 and 4096"},
        Row{"TooFast", WEIR_LOAD R"([sim]
reference_time = "1ns"
)",
            "s.toml:16: sim: reference_time = \"1ns\": parallelism / reference_time is 8e+09 IOPS, "
            "more than the maximum of 20000000; make the requests longer or fewer at a time"},
        Row{"Noise", WEIR_LOAD R"([sim]
noise = 2
)",
            "s.toml:16: sim: noise = 2: it must be between 0 and 1"},
        Row{"StallEveryAlone", WEIR_LOAD R"([sim]
stall_every = "1s"
)",
            "s.toml:16: sim: stall_every = \"1s\": stall_every and stall_for go together; write "
            "both"},
        Row{"StallLongerThanPeriod", WEIR_LOAD R"([sim]
stall_every = "1s"
stall_for = "1s"
)",
            "s.toml:17: sim: stall_for = \"1s\": it must be shorter than stall_every"},
        Row{"SlowWithoutFactor", WEIR_LOAD R"([sim]
slow_every = "2s"
slow_for = "1s"
)",
            "s.toml:16: sim: slow_every = \"2s\": slow_factor is missing; say how much slower"},
        Row{"UnknownSimKey", WEIR_LOAD R"([sim]
paralelism = 4
)",
            "s.toml:16: sim: unknown key \"paralelism\" = 4; did you mean \"parallelism\"?"}),
    [](const auto& test) { return std::string(test.param.name); });

#undef WEIR_EXPECT
#undef WEIR_CHANGE
#undef WEIR_LOAD
#undef WEIR_UNITS

}  // namespace
}  // namespace weir::scenario

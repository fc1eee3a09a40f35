// Goal: each kind of mistake is refused with its file, line, key, value and the fix. Method: a
// table of files and the whole message.
#include <gtest/gtest.h>

#include <ostream>

#include "catalog/config.h"

namespace weir::catalog {
namespace {

struct Row {
  const char* name;
  const char* text;
  const char* message;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class ConfigError : public testing::TestWithParam<Row> {};

TEST_P(ConfigError, NamesPlaceValueAndFix) {
  const Result<Config> config = ParseConfig(GetParam().text, "weir.toml");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().message, GetParam().message);
  EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
}

// Lines 1 to 4, and 1 to 8: what most of the files begin with.
#define WEIR_GROUPS "[[group]]\nname = \"a\"\n[[group]]\nname = \"b\"\n"
#define WEIR_PLAN WEIR_GROUPS "[[plan]]\nname = \"p\"\n[[plan.directive]]\ngroup = \"a\"\n"

INSTANTIATE_TEST_SUITE_P(
    Syntax, ConfigError,
    testing::Values(Row{"NotToml", R"([[unit]
name = "a"
)",
                        "weir.toml:1: not valid TOML (column 8): Error while parsing table header: "
                        "expected ']', saw '\\n'"},
                    Row{"KeyTwice", R"(strict = true
strict = false
)",
                        "weir.toml:2: not valid TOML (column 10): Error while parsing key-value "
                        "pair: cannot redefine existing boolean 'strict'"},
                    Row{"BrokenUtf8", R"(strict = "\xff"
)",
                        "weir.toml:1: not valid TOML (column 12): Error while parsing string: "
                        "escape sequence '\\x' is not supported in TOML 1.0.0 and earlier"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Keys, ConfigError,
    testing::Values(
        Row{"UnknownKeyAtTheTop", R"(strickt = true
)",
            "weir.toml:1: unknown key \"strickt\" = true; did you mean \"strict\"?"},
        Row{"UnknownTable", R"([[load]]
name = "a"
)",
            "weir.toml:1: unknown key \"load\" = [...]; known keys: strict, device, unit, plan, "
            "group, match"},
        Row{"UnknownKeyOfUnit", R"([[unit]]
name = "gold"
max_iop = 5000
)",
            "weir.toml:3: unit \"gold\": unknown key \"max_iop\" = 5000; did you mean "
            "\"max_iops\"?"},
        Row{"UnknownKeyNearNothing", R"([[group]]
name = "gold"
colour = "red"
)",
            "weir.toml:3: group \"gold\": unknown key \"colour\" = \"red\"; known keys: name, "
            "comment"},
        Row{"UnknownKeyInsteadOfName", R"([[unit]]
nmae = "gold"
)",
            "weir.toml:2: unit 1: unknown key \"nmae\" = \"gold\"; did you mean \"name\"?"},
        Row{"UnknownKeyOfDirective", WEIR_PLAN R"(mix_iops = 80
)",
            "weir.toml:9: directive \"a\" of plan \"p\": unknown key \"mix_iops\" = 80; did you "
            "mean \"min_iops\"?"},
        Row{"UnknownKeyOfDevice", R"([[device]]
name = "d"
paht = "/data"
)",
            "weir.toml:3: device \"d\": unknown key \"paht\" = \"/data\"; did you mean \"path\"?"},
        Row{"UnknownKeyOfPlan", R"([[plan]]
name = "p"
directives = []
)",
            "weir.toml:3: plan \"p\": unknown key \"directives\" = [...]; did you mean "
            "\"directive\"?"},
        Row{"DirectiveKeyInUnit", R"([[unit]]
name = "u"
weight_iops = 50
)",
            "weir.toml:3: unit \"u\": unknown key \"weight_iops\" = 50; did you mean "
            "\"iops_weight\"?"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Types, ConfigError,
    testing::Values(
        Row{"NumberForName", R"([[unit]]
name = 5
)",
            "weir.toml:2: unit 1: name = 5: it must be a text in quotes"},
        Row{"TextForFlag", R"(strict = "yes"
)",
            "weir.toml:1: strict = \"yes\": it must be true or false, without quotes"},
        Row{"OneBracket", R"([unit]
name = "u"
)",
            "weir.toml:1: unit = {...}: write [[unit]], with two brackets: there may be several"},
        Row{"NotTables", R"(unit = [1, 2]
)",
            "weir.toml:1: unit = 1: it must be a table, written [[unit]]"},
        Row{"ArrayForRate", R"([[unit]]
name = "u"
max_iops = [1]
)",
            "weir.toml:3: unit \"u\": max_iops = [...]: it must be a number or a text in quotes"},
        Row{"BoolForRate", R"([[unit]]
name = "u"
max_iops = true
)",
            "weir.toml:3: unit \"u\": max_iops = true: it must be a number or a text in quotes"},
        Row{"DateForRate", R"([[unit]]
name = "u"
max_iops = 1979-05-27
)",
            "weir.toml:3: unit \"u\": max_iops = a date or time: it must be a number or a text in "
            "quotes"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Values, ConfigError,
    testing::Values(
        Row{"BadUnit", R"([[unit]]
name = "u"
max_iops = "50MB/s"
)",
            "weir.toml:3: unit \"u\": max_iops = \"50MB/s\" is not an operation rate: unknown unit "
            "\"MB/s\", did you mean \"M/s\"?; write for example \"5000\", \"1.5k\" or "
            "\"unlimited\""},
        Row{"BareBandwidth", R"([[unit]]
name = "u"
max_bandwidth = 5000
)",
            "weir.toml:3: unit \"u\": max_bandwidth = \"5000\" is not a bandwidth: it has no unit; "
            "write for example \"50MB/s\", \"1MiB/s\" or \"unlimited\""},
        Row{"BandwidthWithoutPerSecond", R"([[unit]]
name = "u"
max_bandwidth = "50MB"
)",
            "weir.toml:3: unit \"u\": max_bandwidth = \"50MB\" is not a bandwidth: the unit lacks "
            "\"/s\": \"MB/s\"; write for example \"50MB/s\", \"1MiB/s\" or \"unlimited\""},
        Row{"NegativeRate", R"([[unit]]
name = "u"
min_iops = -5
)",
            "weir.toml:3: unit \"u\": min_iops = \"-5\" is not an operation rate: it is negative; "
            "write for example \"5000\", \"1.5k\" or \"unlimited\""},
        Row{"NanRate", R"([[unit]]
name = "u"
min_iops = nan
)",
            "weir.toml:3: unit \"u\": min_iops = nan: it is not a finite number"},
        Row{"InfiniteRate", R"([[unit]]
name = "u"
max_iops = inf
)",
            "weir.toml:3: unit \"u\": max_iops = inf: it is not a finite number"},
        Row{"RateBeyondMaximum", R"([[unit]]
name = "u"
max_iops = "16G"
)",
            "weir.toml:3: unit \"u\": max_iops = \"16G\" is not an operation rate: it is above the "
            "maximum of 15,258,789,062/s; write for example \"5000\", \"1.5k\" or \"unlimited\""},
        Row{"HugeFloatRate", R"([[unit]]
name = "u"
max_iops = 1e300
)",
            "weir.toml:3: unit \"u\": max_iops = 1e+300: the number is too large, it has more "
            "than 18 digits"},
        Row{"BandwidthBeyondMaximum", R"([[unit]]
name = "u"
max_bandwidth = "2000TB/s"
)",
            "weir.toml:3: unit \"u\": max_bandwidth = \"2000TB/s\" is not a bandwidth: it is above "
            "the maximum of 1,000,000,000 MB/s; write for example \"50MB/s\", \"1MiB/s\" or "
            "\"unlimited\""},
        Row{"IntegerOverflow", R"([[unit]]
name = "u"
max_iops = 99999999999999999999
)",
            "weir.toml:3: not valid TOML (column 32): Error while parsing decimal integer: "
            "'99999999999999999999' is not representable in 64 bits"},
        Row{"MaxOfZero", R"([[unit]]
name = "u"
max_iops = 0
)",
            "weir.toml:3: unit \"u\": max_iops = \"0\": a limit of 0 would block for ever; write a "
            "small rate, or \"unlimited\" for no limit"},
        Row{"UnlimitedMin", R"([[unit]]
name = "u"
min_iops = "unlimited"
)",
            "weir.toml:3: unit \"u\": min_iops = \"unlimited\": a reservation cannot be unlimited; "
            "write a rate, or 0 for none"},
        Row{"WeightTooLarge", R"([[unit]]
name = "u"
iops_weight = 1000001
)",
            "weir.toml:3: unit \"u\": iops_weight = \"1000001\": a weight is a whole number "
            "between 0 and 1000000"},
        Row{"WeightNegative", R"([[unit]]
name = "u"
iops_weight = -1
)",
            "weir.toml:3: unit \"u\": iops_weight = \"-1\": a weight is a whole number between 0 "
            "and 1000000"},
        Row{"WeightFraction", R"([[unit]]
name = "u"
iops_weight = 1.5
)",
            "weir.toml:3: unit \"u\": iops_weight = \"1.5\": a weight is a whole number between 0 "
            "and 1000000"},
        Row{"BurstWithoutUnit", R"([[unit]]
name = "u"
burst = 20
)",
            "weir.toml:3: unit \"u\": burst = \"20\" is not a duration: it has no unit; write for "
            "example \"10ms\", \"1.5s\" or \"2m\""},
        Row{"BurstTooLong", R"([[unit]]
name = "u"
burst = "2m"
)",
            "weir.toml:3: unit \"u\": burst = \"2m\": a burst is at most 60 s"},
        Row{"DepthOfZero", R"([[device]]
name = "d"
depth = 0
)",
            "weir.toml:3: device \"d\": depth = 0: it must be \"auto\", or between 1 and 65536 "
            "operations"},
        Row{"DepthWord", R"([[device]]
name = "d"
depth = "deep"
)",
            "weir.toml:3: device \"d\": depth = \"deep\": it must be \"auto\", or between 1 and "
            "65536 operations"},
        Row{"CapacityUnlimited", R"([[device]]
name = "d"
capacity_iops = "unlimited"
)",
            "weir.toml:3: device \"d\": capacity_iops = \"unlimited\": it must be the rate that "
            "the device serves; remove it to use the profile's"},
        Row{"CapacityOfNoDisk", R"([[device]]
name = "d"
capacity_iops = 0.01
)",
            "weir.toml:3: device \"d\": capacity_iops = 0.01: no disk serves that; write what it "
            "does, between 1/s and 20,000,000/s, or remove it to use the profile's"},
        Row{"CapacityOfManyDisks", R"([[device]]
name = "d"
capacity_iops = 30_000_000
)",
            "weir.toml:3: device \"d\": capacity_iops = 30000000: no disk serves that; write what "
            "it does, between 1/s and 20,000,000/s, or remove it to use the profile's"},
        Row{"RateOfNothing", R"([[unit]]
name = "u"
max_iops = 1e-30
)",
            "weir.toml:3: unit \"u\": max_iops = 1e-30: the number is too small, it has more "
            "than 9 digits after the point"},
        Row{"PercentAboveHundred", WEIR_PLAN R"(min_iops = 101
)",
            "weir.toml:9: directive \"a\" of plan \"p\": min_iops = \"101\": it is a percentage of "
            "the node above, between 0 and 100"},
        Row{"PercentNegative", WEIR_PLAN R"(min_iops = -1
)",
            "weir.toml:9: directive \"a\" of plan \"p\": min_iops = \"-1\": it must be a "
            "percentage between 0 and 100, for example 60"},
        Row{"PercentNan", WEIR_PLAN R"(min_iops = nan
)",
            "weir.toml:9: directive \"a\" of plan \"p\": min_iops = nan: it is not a finite "
            "number"},
        Row{"PercentTooFine", WEIR_PLAN R"(weight_iops = 0.001
)",
            "weir.toml:9: directive \"a\" of plan \"p\": weight_iops = \"0.001\": a percentage "
            "other than 0 is at least 0.01"},
        Row{"PercentText", WEIR_PLAN R"(max_iops = "half"
)",
            "weir.toml:9: directive \"a\" of plan \"p\": max_iops = \"half\": it must be a "
            "percentage between 0 and 100, for example 60"},
        Row{"PercentMaxOfZero", WEIR_PLAN R"(max_iops = 0
)",
            "weir.toml:9: directive \"a\" of plan \"p\": max_iops = \"0\": a limit of 0 would "
            "block for ever; write a small percentage, or 100"},
        Row{"PercentRate", WEIR_PLAN R"(max_iops = "5000/s"
)",
            "weir.toml:9: directive \"a\" of plan \"p\": max_iops = \"5000/s\": it must be a "
            "percentage between 0 and 100, for example 60"},
        Row{"MgmtP1", WEIR_PLAN R"(mgmt_p1 = 200
)",
            "weir.toml:9: directive \"a\" of plan \"p\": mgmt_p1 = \"200\": it is a percentage of "
            "the node above, between 0 and 100"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Names, ConfigError,
    testing::Values(
        Row{"NoName", R"([[unit]]
max_iops = 5
)",
            "weir.toml:1: unit 1: name is missing; give it one"},
        Row{"EmptyName", R"([[unit]]
name = ""
)",
            "weir.toml:2: unit \"\": name = \"\": a name cannot be empty"},
        Row{"NameWithSlash", R"([[unit]]
name = "a/b"
)",
            "weir.toml:2: unit \"a/b\": name = \"a/b\": a name cannot contain '/', which separates "
            "the parts of a path"},
        Row{"NameWithControl", R"([[unit]]
name = "a\nb"
)",
            "weir.toml:2: unit \"a\\nb\": name = \"a\\nb\": a name cannot contain control "
            "characters"},
        Row{"NameTooLong", R"([[unit]]
name = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
)",
            "weir.toml:2: unit "
            "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\": name = "
            "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\": a name has "
            "at most 128 bytes"},
        Row{"UnitTwice", R"([[unit]]
name = "u"
[[unit]]
name = "u"
)",
            "weir.toml:3: unit \"u\" is already there, in line 1; choose another name"},
        Row{"PlanTwice", R"([[plan]]
name = "p"
[[plan]]
name = "p"
)",
            "weir.toml:3: plan \"p\" is already there, in line 1; choose another name"},
        Row{"GroupTwice", R"([[group]]
name = "g"
[[group]]
name = "g"
)",
            "weir.toml:3: group \"g\" is already there, in line 1; choose another name"},
        Row{"DeviceTwice", R"([[device]]
name = "d"
[[device]]
name = "d"
)",
            "weir.toml:3: device \"d\" is already there, in line 1; choose another name"},
        Row{"DirectiveTwice", WEIR_PLAN R"([[plan.directive]]
group = "a"
)",
            "weir.toml:9: plan \"p\": \"a\" has a directive already, in line 7; remove one"},
        Row{"GroupNamedLikePlan", R"([[group]]
name = "x"
[[plan]]
name = "x"
)",
            "weir.toml:1: group \"x\": a plan has this name, in line 3; plans and groups need "
            "different names"},
        Row{"GroupOtherGroups", R"([[group]]
name = "OTHER_GROUPS"
)",
            "weir.toml:1: group \"OTHER_GROUPS\" is built in; remove this [[group]]"},
        Row{"PlanOtherGroups", R"([[plan]]
name = "OTHER_GROUPS"
)",
            "weir.toml:1: plan \"OTHER_GROUPS\": the name is that of the built-in group; choose "
            "another"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    References, ConfigError,
    testing::Values(
        Row{"NoSuchGroup", WEIR_GROUPS R"([[plan]]
name = "p"
[[plan.directive]]
group = "tp"
)",
            "weir.toml:8: directive of plan \"p\": group = \"tp\": there is no such group; known: "
            "a, b"},
        Row{"NoGroupAtAll", R"([[plan]]
name = "p"
[[plan.directive]]
group = "tp"
)",
            "weir.toml:4: directive of plan \"p\": group = \"tp\": there is no such group; add a "
            "[[group]] with this name"},
        Row{"GroupIsAPlan", R"([[plan]]
name = "p"
[[plan.directive]]
group = "q"
[[plan]]
name = "q"
)",
            "weir.toml:4: directive of plan \"p\": group = \"q\": this is a plan; write subplan = "
            "\"q\""},
        Row{"SubplanIsAGroup", WEIR_GROUPS R"([[plan]]
name = "p"
[[plan.directive]]
subplan = "a"
)",
            "weir.toml:8: directive of plan \"p\": subplan = \"a\": this is a group; write group = "
            "\"a\""},
        Row{"NoSuchSubplan", R"([[plan]]
name = "plan_a"
[[plan.directive]]
subplan = "plan_b"
)",
            "weir.toml:4: directive of plan \"plan_a\": subplan = \"plan_b\": there is no such "
            "plan; did you mean \"plan_a\"?"},
        Row{"GroupAndSubplan", WEIR_PLAN R"(subplan = "q"
)",
            "weir.toml:9: directive \"q\" of plan \"p\": subplan = \"q\": a directive has a group "
            "or a subplan, not both; write two"},
        Row{"NeitherGroupNorSubplan", R"([[plan]]
name = "p"
[[plan.directive]]
min_iops = 5
)",
            "weir.toml:3: directive 1 of plan \"p\": group is missing; say which group or subplan "
            "the directive is for"},
        Row{"NoSuchPlan", R"([[plan]]
name = "htap_plan"
[[unit]]
name = "u"
plan = "htap"
)",
            "weir.toml:5: unit \"u\": plan = \"htap\": there is no such plan; known: htap_plan"},
        Row{"NoSuchDevice", R"([[device]]
name = "ssd1"
[[unit]]
name = "u"
device = "hdd"
)",
            "weir.toml:5: unit \"u\": device = \"hdd\": there is no such device; known: ssd1"},
        Row{"DeviceMissing", R"([[device]]
name = "ssd1"
[[device]]
name = "ssd2"
[[unit]]
name = "u"
)",
            "weir.toml:5: unit \"u\": device is missing; there are several: ssd1, ssd2"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Wholes, ConfigError,
    testing::Values(
        Row{"MinAboveMax", R"([[unit]]
name = "gold"
min_iops = 20000
max_iops = 10000
)",
            "weir.toml:3: unit \"gold\": min_iops (20,000/s) exceeds max_iops (10,000/s); lower "
            "the first or raise the second"},
        Row{"MinBandwidthAboveMax", R"([[unit]]
name = "gold"
min_bandwidth = "20MB/s"
max_bandwidth = "10MB/s"
)",
            "weir.toml:3: unit \"gold\": min_bandwidth (20.0 MB/s) exceeds max_bandwidth (10.0 "
            "MB/s); lower the first or raise the second"},
        Row{"MinRawAboveMax", R"([[unit]]
name = "gold"
min_raw_iops = 2
max_raw_iops = 1
)",
            "weir.toml:3: unit \"gold\": min_raw_iops (2/s) exceeds max_raw_iops (1/s); lower the "
            "first or raise the second"},
        Row{"MinAboveReadAndWrite", R"([[unit]]
name = "gold"
min_iops = 300
max_read_iops = 100
max_write_iops = 199
)",
            "weir.toml:3: unit \"gold\": min_iops (300/s) exceeds max_read_iops and max_write_iops "
            "together (299/s); lower the first or raise the second"},
        Row{"SumOfMin", WEIR_PLAN R"(min_iops = 60
[[plan.directive]]
group = "b"
min_iops = 40.5
)",
            "weir.toml:12: plan \"p\": min_iops of its directives add up to 100.5 %, more than the "
            "100 % there is (a 60, b 40.5); lower some"},
        Row{"SumOfMinBandwidth", WEIR_PLAN R"(min_bandwidth = 60
[[plan.directive]]
group = "b"
min_bandwidth = 60
)",
            "weir.toml:12: plan \"p\": min_bandwidth of its directives add up to 120 %, more than "
            "the 100 % there is (a 60, b 60); lower some"},
        Row{"MinAboveMaxAfterPercent", WEIR_PLAN R"(min_iops = 97
max_iops = 1
[[unit]]
name = "u"
plan = "p"
min_iops = 2000
max_iops = 100000
)",
            "weir.toml:9: directive \"a\" of plan \"p\": in unit \"u\" its min_iops (1,940/s) "
            "exceeds max_iops (1,000/s); lower the first percentage or raise the second"},
        Row{"MaxPercentOfUnlimited", WEIR_PLAN R"(max_iops = 50
[[unit]]
name = "u"
plan = "p"
)",
            "weir.toml:9: directive \"a\" of plan \"p\": max_iops = 50 %: \"u\" has no max_iops to "
            "take a part of; set it there, or remove this"},
        Row{"MaxBandwidthPercentOfUnlimited", WEIR_PLAN R"(max_bandwidth = 99
[[unit]]
name = "u"
plan = "p"
max_iops = 5
)",
            "weir.toml:9: directive \"a\" of plan \"p\": max_bandwidth = 99 %: \"u\" has no "
            "max_bandwidth to take a part of; set it there, or remove this"},
        Row{"MinPercentOfNoneWhenStrict", "strict = true\n" WEIR_PLAN R"(min_iops = 50
[[unit]]
name = "u"
plan = "p"
)",
            "weir.toml:10: directive \"a\" of plan \"p\": min_iops = 50 %: \"u\" has no min_iops "
            "to take a part of; set it there, or remove this"},
        Row{"PlanInItself", R"([[plan]]
name = "p"
[[plan.directive]]
subplan = "p"
)",
            "weir.toml:4: directive of plan \"p\": subplan = \"p\": a plan cannot contain itself "
            "(p > p); remove this directive"},
        Row{"PlanCycle", R"([[plan]]
name = "p"
[[plan.directive]]
subplan = "q"
[[plan]]
name = "q"
[[plan.directive]]
subplan = "p"
)",
            "weir.toml:8: directive of plan \"q\": subplan = \"p\": a plan cannot contain itself "
            "(p > q > p); remove this directive"},
        Row{"EmptySubplan", R"([[plan]]
name = "p"
[[plan.directive]]
subplan = "q"
[[plan]]
name = "q"
[[unit]]
name = "u"
plan = "p"
)",
            "weir.toml:4: directive of plan \"p\": subplan = \"q\": that plan has no directives; "
            "add one to it"},
        Row{"GroupTwiceInTree", WEIR_PLAN R"([[plan.directive]]
subplan = "q"
[[plan]]
name = "q"
[[plan.directive]]
group = "a"
[[unit]]
name = "u"
plan = "p"
)",
            "weir.toml:14: directive of plan \"q\": \"a\" occurs twice in unit \"u\": as u/a and "
            "as u/q/a; a mapping could not tell them apart, remove one"},
        Row{"OverCapacityWhenStrict", R"(strict = true
[[device]]
name = "d"
capacity_iops = 10000
[[unit]]
name = "u"
min_iops = 8000
[[unit]]
name = "v"
min_iops = 8000
)",
            "weir.toml:10: reservations of device \"d\" add up to 16,000/s, more than its capacity "
            "of 10,000/s (u 8,000/s, v 8,000/s; bandwidth counted at 16 KiB an operation): each "
            "will get its share in proportion to its reservation; lower some min_iops"},
        Row{"OverCapacityInBandwidth", R"(strict = true
[[device]]
name = "d"
capacity_iops = 1000
[[unit]]
name = "u"
min_bandwidth = "17MB/s"
)",
            "weir.toml:5: reservations of device \"d\" add up to 1,038/s, more than its capacity "
            "of 1,000/s (u 1,038/s; bandwidth counted at 16 KiB an operation): each will get its "
            "share in proportion to its reservation; lower some min_iops"}),
    [](const auto& test) { return std::string(test.param.name); });

#undef WEIR_PLAN
#undef WEIR_GROUPS

}  // namespace
}  // namespace weir::catalog

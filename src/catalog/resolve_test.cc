// Goal: the tree has the parameters that the percentages say, exactly; what cannot be is refused.
#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "catalog/config.h"

namespace weir::catalog {
namespace {

Config Parse(const std::string& text) {
  const Result<Config> config = ParseConfig(text, "weir.toml");
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config.value_or(Config{});
}

std::vector<TreeNode> Tree(const std::string& text, const std::string& device = "") {
  const Result<std::vector<TreeNode>> nodes = Resolve(Parse(text), device, 0, nullptr);
  EXPECT_TRUE(nodes.has_value()) << nodes.error().message;
  return nodes.value_or(std::vector<TreeNode>{});
}

const TreeNode& At(const std::vector<TreeNode>& nodes, const std::string& path) {
  for (const TreeNode& node : nodes) {
    if (node.path == path) return node;
  }
  ADD_FAILURE() << "no node " << path;
  static const TreeNode none;
  return none;
}

int64_t Min(const TreeNode& node) { return node.params.MinOf(Dimension::kNorm); }
int64_t Max(const TreeNode& node, Scope scope = Scope::kBoth) {
  return node.params.MaxOf(Dimension::kNorm, scope);
}

// The two experiments of the OceanBase document.
constexpr char kTenants[] = R"(
[[group]]
name = "A"
[[group]]
name = "B"
[[group]]
name = "C"
[[group]]
name = "D"
[[plan]]
name = "loads"
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
[[unit]]
name = "tenant1"
iops_weight = 200
[[unit]]
name = "tenant2"
plan = "loads"
iops_weight = 100
min_iops = 2000
max_iops = 100000
[[unit]]
name = "tenant3"
min_iops = 10000
[[unit]]
name = "tenant4"
max_iops = 5000
)";

TEST(Resolve, TenantsAndTheirLoadsGetTheirAbsoluteParameters) {
  const std::vector<TreeNode> nodes = Tree(kTenants);
  ASSERT_EQ(nodes.size(), 9u);
  EXPECT_EQ(At(nodes, "tenant1").params.weight, 200);
  EXPECT_TRUE(At(nodes, "tenant1").leaf);
  EXPECT_EQ(Min(At(nodes, "tenant3")), 10'000 * kOp);
  EXPECT_EQ(Max(At(nodes, "tenant4")), 5'000 * kOp);
  EXPECT_FALSE(At(nodes, "tenant2").leaf);
  EXPECT_EQ(Max(At(nodes, "tenant2/A")), 1'000 * kOp);
  EXPECT_EQ(Min(At(nodes, "tenant2/A")), 0);
  EXPECT_EQ(Min(At(nodes, "tenant2/B")), 1'940 * kOp);
  EXPECT_EQ(At(nodes, "tenant2/B").params.weight, 0);
  EXPECT_EQ(At(nodes, "tenant2/C").params.weight, 2 * At(nodes, "tenant2/D").params.weight);
}

TEST(Resolve, ParentsComeBeforeTheirChildren) {
  const std::vector<TreeNode> nodes = Tree(kTenants);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const size_t slash = nodes[i].path.rfind('/');
    if (slash == std::string::npos) {
      EXPECT_EQ(nodes[i].parent, -1);
    } else {
      ASSERT_LT(nodes[i].parent, static_cast<int>(i));
      EXPECT_EQ(nodes[static_cast<size_t>(nodes[i].parent)].path, nodes[i].path.substr(0, slash));
    }
  }
}

TEST(Resolve, AUnitWithAPlanHasALeafForWhatNoDirectiveNames) {
  const std::vector<TreeNode> nodes = Tree(kTenants);
  const TreeNode& other = At(nodes, "tenant2/OTHER_GROUPS");
  EXPECT_TRUE(other.leaf);
  ResourceParams expected;
  expected.weight = 10'000;  // 100 %
  EXPECT_EQ(other.params, expected);
}

TEST(Resolve, ADirectiveMaySetOtherGroups) {
  const std::vector<TreeNode> nodes = Tree(R"(
[[plan]]
name = "p"
[[plan.directive]]
group = "OTHER_GROUPS"
max_iops = 10
weight_iops = 5
[[unit]]
name = "u"
plan = "p"
max_iops = 1000
)");
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(Max(nodes[1]), 100 * kOp);
  EXPECT_EQ(nodes[1].params.weight, 500);
}

TEST(Resolve, AMaxOfAHundredPercentLeavesTheLimitToTheNodeAbove) {
  const std::vector<TreeNode> nodes = Tree(R"(
[[group]]
name = "a"
[[plan]]
name = "p"
[[plan.directive]]
group = "a"
max_iops = 100
[[unit]]
name = "u"
plan = "p"
max_iops = 1000
)");
  EXPECT_EQ(Max(At(nodes, "u")), 1000 * kOp);
  EXPECT_EQ(Max(At(nodes, "u/a")), kUnlimited);
}

// Percentages of percentages, of every limit that the unit has, with its burst.
TEST(Resolve, SubplansTakePartsOfTheirDirective) {
  const std::vector<TreeNode> nodes = Tree(R"(
[[group]]
name = "a"
[[group]]
name = "b"
[[plan]]
name = "top"
[[plan.directive]]
subplan = "below"
min_iops = 50
max_iops = 20
max_bandwidth = 10
weight_iops = 30
[[plan]]
name = "below"
[[plan.directive]]
group = "a"
min_iops = 50
max_iops = 50
[[plan.directive]]
group = "b"
[[unit]]
name = "u"
plan = "top"
min_iops = 400
max_iops = 10000
max_read_iops = 5000
max_raw_iops = 2000
max_write_bandwidth = "100MB/s"
burst = "10ms"
)");
  const TreeNode& below = At(nodes, "u/below");
  EXPECT_FALSE(below.leaf);
  EXPECT_EQ(below.params.weight, 3000);
  EXPECT_EQ(Min(below), 200 * kOp);
  EXPECT_EQ(Max(below), 2000 * kOp);
  EXPECT_EQ(Max(below, Scope::kRead), 1000 * kOp);
  EXPECT_EQ(Max(below, Scope::kWrite), kUnlimited);
  EXPECT_EQ(below.params.MaxOf(Dimension::kRaw, Scope::kBoth), 400 * kOp);
  EXPECT_EQ(below.params.MaxOf(Dimension::kBytes, Scope::kWrite), 10'000'000);
  EXPECT_EQ(below.params.burst[0][2], 20 * kOp);
  const TreeNode& a = At(nodes, "u/below/a");
  EXPECT_TRUE(a.leaf);
  EXPECT_EQ(Min(a), 100 * kOp);
  EXPECT_EQ(Max(a), 1000 * kOp);
  EXPECT_EQ(a.params.burst[0][2], 10 * kOp);
  EXPECT_EQ(a.params.MaxOf(Dimension::kRaw, Scope::kBoth), 200 * kOp);
  EXPECT_EQ(a.params.MaxOf(Dimension::kBytes, Scope::kWrite), kUnlimited);
  EXPECT_EQ(Max(At(nodes, "u/below/b")), kUnlimited);
  // Only the unit has OTHER_GROUPS.
  EXPECT_EQ(At(nodes, "u/OTHER_GROUPS").parent, 0);
  EXPECT_EQ(nodes.size(), 5u);
}

TEST(Resolve, ALimitOfRawOperationsIsAlsoABaseForPercentages) {
  const std::vector<TreeNode> nodes = Tree(R"(
[[group]]
name = "a"
[[plan]]
name = "p"
[[plan.directive]]
group = "a"
max_iops = 50
[[unit]]
name = "u"
plan = "p"
max_write_raw_iops = 10
)");
  EXPECT_EQ(At(nodes, "u/a").params.MaxOf(Dimension::kRaw, Scope::kWrite), 5 * kOp);
  EXPECT_EQ(Max(At(nodes, "u/a")), kUnlimited);
}

// Percentages with fractions: parts that add up to 100 % never exceed the whole, and miss it by
// less than one unit each.
TEST(Resolve, PartsOfAReservationNeverExceedIt) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const int64_t count = random.Range(2, 12);
    std::string text;
    int64_t left = 1'000'000;  // steps of 0.0001 %
    for (int64_t i = 0; i < count; ++i) {
      const int64_t part = i == count - 1 ? left : random.Range(0, left);
      left -= part;
      if (part > 0 && part < 100) left += part;  // below the least percentage
      const double percent = part < 100 ? 0 : static_cast<double>(part) / 10'000;
      text = "[[group]]\nname = \"g" + std::to_string(i) + "\"\n" + text;
      text += (i == 0 ? "[[plan]]\nname = \"p\"\n" : std::string()) +
              "[[plan.directive]]\ngroup = \"g" + std::to_string(i) +
              "\"\nmin_iops = " + std::to_string(percent) + "\n";
    }
    const int64_t min = random.Range(1, 1'000'000);
    text += "[[unit]]\nname = \"u\"\nplan = \"p\"\nmin_iops = " + std::to_string(min) + "\n";
    const std::vector<TreeNode> nodes = Tree(text);
    int64_t sum = 0;
    for (const TreeNode& node : nodes) sum += node.parent == 0 ? Min(node) : 0;
    EXPECT_LE(sum, min * kOp) << text;
    EXPECT_GE(sum, min * kOp - count - min * kOp / 1000) << text;
  }
}

TEST(Resolve, APlanServesEachOfItsUnits) {
  const std::vector<TreeNode> nodes = Tree(R"(
[[group]]
name = "a"
[[plan]]
name = "p"
[[plan.directive]]
group = "a"
max_iops = 10
[[unit]]
name = "u"
plan = "p"
max_iops = 1000
[[unit]]
name = "v"
plan = "p"
max_iops = 2000
)");
  EXPECT_EQ(Max(At(nodes, "u/a")), 100 * kOp);
  EXPECT_EQ(Max(At(nodes, "v/a")), 200 * kOp);
}

constexpr char kTwoDevices[] = R"(
[[device]]
name = "d1"
[[device]]
name = "d2"
capacity_iops = 1000
[[unit]]
name = "u"
device = "d1"
min_iops = 5000
[[unit]]
name = "v"
device = "d2"
min_iops = 500
)";

TEST(Resolve, EachDeviceHasItsOwnUnits) {
  EXPECT_EQ(Tree(kTwoDevices, "d1").size(), 1u);
  EXPECT_EQ(Tree(kTwoDevices, "d2")[0].path, "v");
}

TEST(Resolve, AnUnknownDeviceIsAnErrorThatListsTheKnown) {
  for (const char* name : {"", "d3"}) {
    const auto nodes = Resolve(Parse(kTwoDevices), name, 0, nullptr);
    ASSERT_FALSE(nodes.has_value());
    EXPECT_EQ(nodes.error().code, ErrorCode::kNotFound);
    EXPECT_EQ(nodes.error().message,
              "weir.toml: there is no device \"" + std::string(name) + "\"; known: d1, d2");
  }
  EXPECT_EQ(Resolve(Parse(""), "d", 0, nullptr).error().message,
            "weir.toml: there is no device \"d\"; known: none");
}

TEST(Resolve, ReservationsBeyondTheCapacityAreAWarning) {
  const Config config =
      Parse("[[unit]]\nname = \"u\"\nmin_iops = 8000\n[[unit]]\nname = \"v\"\nmin_iops = 8000\n");
  std::vector<std::string> warnings;
  ASSERT_TRUE(Resolve(config, "", 10'000 * kOp, &warnings).has_value());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            "weir.toml:6: reservations of the device add up to 16,000/s, more than its capacity of "
            "10,000/s (u 8,000/s, v 8,000/s; bandwidth counted at 16 KiB an operation): each will "
            "get its share in proportion to its reservation; lower some min_iops");
}

TEST(Resolve, ReservationsBeyondTheCapacityAreAnErrorWhenStrict) {
  const Config config = Parse("strict = true\n[[unit]]\nname = \"u\"\nmin_iops = 8000\n");
  EXPECT_TRUE(Resolve(config, "", 8'000 * kOp, nullptr).has_value());
  const auto nodes = Resolve(config, "", 7'999 * kOp, nullptr);
  ASSERT_FALSE(nodes.has_value());
  EXPECT_EQ(nodes.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(nodes.error().message.substr(0, 50),
            "weir.toml:4: reservations of the device add up to ");
}

TEST(Resolve, ReservationsOfMoreThanNinetyPercentAreAWarningEvenWhenStrict) {
  const Config config = Parse("strict = true\n[[unit]]\nname = \"u\"\nmin_iops = 9001\n");
  std::vector<std::string> warnings;
  ASSERT_TRUE(Resolve(config, "", 10'000 * kOp, &warnings).has_value());
  EXPECT_EQ(warnings, std::vector<std::string>{
                          "weir.toml: reservations of the device add up to 9,001/s, more than 90 % "
                          "of the capacity of 10,000/s: little is left to share by weight (u "
                          "9,001/s)"});
  warnings.clear();
  ASSERT_TRUE(Resolve(config, "", 10'002 * kOp, &warnings).has_value());
  EXPECT_TRUE(warnings.empty());
}

TEST(Resolve, TheCapacityInTheFileCountsWhenNoneIsGiven) {
  const Config config = Parse(
      "[[device]]\nname = \"d\"\ncapacity_iops = 100\n[[unit]]\nname = \"u\"\nmin_iops = 101\n");
  std::vector<std::string> warnings;
  ASSERT_TRUE(Resolve(config, "", 0, &warnings).has_value());
  EXPECT_EQ(warnings.size(), 1u);
  warnings.clear();
  ASSERT_TRUE(Resolve(config, "d", 1000 * kOp, &warnings).has_value());
  EXPECT_TRUE(warnings.empty());
}

TEST(Resolve, APartOfNoReservationIsAWarning) {
  const Config config = Parse(R"([[group]]
name = "a"
[[plan]]
name = "p"
[[plan.directive]]
group = "a"
min_iops = 50
[[unit]]
name = "u"
plan = "p"
)");
  std::vector<std::string> warnings;
  ASSERT_TRUE(Resolve(config, "", 0, &warnings).has_value());
  EXPECT_EQ(warnings, std::vector<std::string>{
                          "weir.toml:7: directive \"a\" of plan \"p\": min_iops = 50 %: \"u\" has "
                          "no min_iops to take a part of; set it there, or remove this"});
}

// A Config that no file gave, as SQL statements make it, is checked as well.
TEST(Resolve, AConfigMadeByProgramIsCheckedTheSame) {
  Config config;
  config.units.push_back({.name = "u", .device = "", .plan = "p", .params = {}, .key_lines = {}});
  EXPECT_EQ(Resolve(config, "", 0, nullptr).error().message,
            "unit \"u\": plan = \"p\": there is no such plan; add a [[plan]] with this name");
  config.plans.push_back({.name = "p", .comment = "", .directives = {}});
  EXPECT_TRUE(Resolve(config, "", 0, nullptr).has_value());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double percent : {-2.0, 100.5, 1e300, nan}) {
    Directive directive;
    directive.group_or_subplan = "OTHER_GROUPS";
    directive.weight_iops = percent;
    config.plans[0].directives = {directive};
    EXPECT_FALSE(Resolve(config, "", 0, nullptr).has_value()) << percent;
  }
  config.plans[0].directives.clear();
  for (const int64_t rate : {int64_t{-1}, int64_t{0}, kMaxRate + 1, INT64_MIN}) {
    config.units[0].params = {};
    config.units[0].params.MaxOf(Dimension::kBytes, Scope::kRead) = rate;
    EXPECT_FALSE(Resolve(config, "", 0, nullptr).has_value()) << rate;
  }
  for (const int64_t rate : {int64_t{-1}, kMaxRate + 1, INT64_MAX}) {
    config.units[0].params = {};
    config.units[0].params.MinOf(Dimension::kNorm) = rate;
    EXPECT_FALSE(Resolve(config, "", 0, nullptr).has_value()) << rate;
  }
  config.units[0].params = {};
  config.units[0].params.weight = -1;
  EXPECT_FALSE(Resolve(config, "", 0, nullptr).has_value());
}

std::string NestedPlans(int depth) {
  std::string text = "[[group]]\nname = \"g\"\n";
  for (int i = 1; i <= depth; ++i) {
    text += "[[plan]]\nname = \"p" + std::to_string(i) + "\"\n[[plan.directive]]\n" +
            (i == depth ? std::string("group = \"g\"\n")
                        : "subplan = \"p" + std::to_string(i + 1) + "\"\n");
  }
  return text + "[[unit]]\nname = \"u\"\nplan = \"p1\"\n";
}

TEST(Resolve, PlansNestUpToTheMaximum) {
  EXPECT_EQ(Tree(NestedPlans(kMaxPlanDepth)).size(), static_cast<size_t>(kMaxPlanDepth) + 2);
  const Result<Config> config = ParseConfig(NestedPlans(kMaxPlanDepth + 1), "weir.toml");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(config.error().message,
            "weir.toml:26: directive of plan \"p6\": subplan = \"p7\": plans nest at most 6 deep");
}

TEST(Resolve, ADeviceHasAMaximumOfNodes) {
  std::string text;
  std::string directives = "[[plan]]\nname = \"p\"\n";
  for (int i = 0; i < 99; ++i) {
    const std::string name = "\"g" + std::to_string(i) + "\"\n";
    text += "[[group]]\nname = " + name;
    directives += "[[plan.directive]]\ngroup = " + name;
  }
  text += directives;
  const auto with_units = [&](int units) {
    std::string whole = text;
    for (int i = 0; i < units; ++i) {
      whole += "[[unit]]\nname = \"u" + std::to_string(i) + "\"\nplan = \"p\"\n";
    }
    return whole;
  };
  // 101 nodes a unit: itself, 99 groups, OTHER_GROUPS.
  EXPECT_EQ(Tree(with_units(990)).size(), 99'990u);
  const Result<Config> config = ParseConfig(with_units(991), "weir.toml");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(config.error().message,
            "weir.toml: \"u990/g9\": a device has at most 100000 units, subplans and groups; use "
            "smaller plans or fewer units with a plan");
}

}  // namespace
}  // namespace weir::catalog

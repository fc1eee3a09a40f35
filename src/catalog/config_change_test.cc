// Goal: a live change sets what it says, is checked as a whole, and leaves everything as it was
// when it is refused.
#include <gtest/gtest.h>

#include "base/random.h"
#include "catalog/config.h"

namespace weir::catalog {
namespace {

constexpr char kText[] = R"(
[[device]]
name = "d"
capacity_iops = 60000
[[group]]
name = "a"
[[group]]
name = "b"
[[group]]
name = "c"
[[plan]]
name = "p"
[[plan.directive]]
group = "a"
min_iops = 40
max_iops = 80
[[plan.directive]]
subplan = "q"
min_iops = 60
[[plan]]
name = "q"
[[plan.directive]]
group = "b"
min_iops = 50
[[unit]]
name = "u"
plan = "p"
min_iops = 1000
max_iops = 10000
burst = "10ms"
[[unit]]
name = "v"
plan = "p"
min_iops = 2000
max_iops = 20000
[[unit]]
name = "w"
max_iops = 500
)";

Config Parsed() {
  const Result<Config> config = ParseConfig(kText, "weir.toml");
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config.value_or(Config{});
}

ResourceParams ParamsOf(const Config& config, const std::string& path) {
  const auto nodes = Resolve(config, "", 0, nullptr);
  EXPECT_TRUE(nodes.has_value()) << nodes.error().message;
  if (nodes) {
    for (const TreeNode& node : *nodes) {
      if (node.path == path) return node.params;
    }
  }
  ADD_FAILURE() << "no " << path;
  return {};
}

int64_t Max(const Config& config, const std::string& path) {
  return ParamsOf(config, path).MaxOf(Dimension::kNorm, Scope::kBoth);
}
int64_t Min(const Config& config, const std::string& path) {
  return ParamsOf(config, path).MinOf(Dimension::kNorm);
}

void ExpectRefused(const std::string& target, const std::string& key, const std::string& value,
                   ErrorCode code, const std::string& message) {
  Config config = Parsed();
  const auto before = Resolve(config, "", 0, nullptr);
  const Result<void> done = ApplyChange(&config, target, key, value);
  ASSERT_FALSE(done.has_value()) << target << " " << key << " " << value;
  EXPECT_EQ(done.error().message, message);
  EXPECT_EQ(done.error().code, code);
  const auto after = Resolve(config, "", 0, nullptr);
  ASSERT_TRUE(after.has_value()) << after.error().message;
  ASSERT_EQ(after->size(), before->size());
  for (size_t i = 0; i < after->size(); ++i) EXPECT_EQ((*after)[i].params, (*before)[i].params);
}

TEST(ApplyChange, SetsAUnitAndWhatIsBelowIt) {
  Config config = Parsed();
  ASSERT_TRUE(ApplyChange(&config, "u", "max_iops", "5k").has_value());
  EXPECT_EQ(Max(config, "u"), 5000 * kOp);
  EXPECT_EQ(ParamsOf(config, "u").burst[0][2], 50 * kOp);
  EXPECT_EQ(Max(config, "u/a"), 4000 * kOp);
  EXPECT_EQ(ParamsOf(config, "u/a").burst[0][2], 40 * kOp);
  EXPECT_EQ(Max(config, "v"), 20'000 * kOp);
  ASSERT_TRUE(ApplyChange(&config, "w", "iops_weight", "0").has_value());
  EXPECT_EQ(ParamsOf(config, "w").weight, 0);
  ASSERT_TRUE(ApplyChange(&config, "w", "max_iops", "unlimited").has_value());
  EXPECT_EQ(Max(config, "w"), kUnlimited);
  ASSERT_TRUE(ApplyChange(&config, "w", "max_write_bandwidth", "1MiB/s").has_value());
  ASSERT_TRUE(ApplyChange(&config, "w", "burst", "1s").has_value());
  EXPECT_EQ(ParamsOf(config, "w").burst[2][1], 1 << 20);
}

TEST(ApplyChange, SetsADirectiveForEveryUnitOfItsPlan) {
  Config config = Parsed();
  ASSERT_TRUE(ApplyChange(&config, "u/a", "max_iops", "50").has_value());
  EXPECT_EQ(Max(config, "u/a"), 5'000 * kOp);
  EXPECT_EQ(Max(config, "v/a"), 10'000 * kOp);
  ASSERT_TRUE(ApplyChange(&config, "v/q/b", "min_iops", "100%").has_value());
  EXPECT_EQ(Min(config, "u/q/b"), 600 * kOp);
  EXPECT_EQ(Min(config, "v/q/b"), 1200 * kOp);
  ASSERT_TRUE(ApplyChange(&config, "u/q", "weight_iops", "7.5").has_value());
  EXPECT_EQ(ParamsOf(config, "v/q").weight, 750);
}

TEST(ApplyChange, SetsOtherGroupsWithoutADirectiveOfItsOwn) {
  Config config = Parsed();
  ASSERT_TRUE(ApplyChange(&config, "u/OTHER_GROUPS", "max_iops", "10").has_value());
  EXPECT_EQ(Max(config, "u/OTHER_GROUPS"), 1000 * kOp);
  ASSERT_TRUE(ApplyChange(&config, "u/OTHER_GROUPS", "weight_iops", "1").has_value());
  EXPECT_EQ(ParamsOf(config, "v/OTHER_GROUPS").weight, 100);
  EXPECT_EQ(Max(config, "v/OTHER_GROUPS"), 2000 * kOp);
}

TEST(ApplyChanges, ChecksSeveralKeysOnlyAsAWhole) {
  Config config = Parsed();
  // Neither order of the two alone would do.
  ASSERT_TRUE(ApplyChanges(&config, "w", {{"min_iops", "600"}, {"max_iops", "700"}}).has_value());
  ASSERT_TRUE(ApplyChanges(&config, "w", {{"max_iops", "50"}, {"min_iops", "40"}}).has_value());
  EXPECT_EQ(Min(config, "w"), 40 * kOp);
  EXPECT_EQ(Max(config, "w"), 50 * kOp);
}

TEST(ApplyChanges, AreAllOrNothing) {
  Config config = Parsed();
  EXPECT_FALSE(ApplyChanges(&config, "w", {{"max_iops", "50"}, {"max_bandwidth", "x"}}));
  EXPECT_EQ(Max(config, "w"), 500 * kOp);
  EXPECT_EQ(ApplyChanges(&config, "w", {}).error().message,
            "change of \"w\": there is no key to set");
}

TEST(ApplyChange, OfSomethingUnknownListsWhatThereIs) {
  ExpectRefused("x", "max_iops", "5", ErrorCode::kNotFound,
                "change of \"x\": there is no unit \"x\"; known: u, v, w");
  ExpectRefused("u/x", "max_iops", "5", ErrorCode::kNotFound,
                "change of \"u/x\": there is no group \"x\"; known: a, q, OTHER_GROUPS in plan "
                "\"p\"");
  ExpectRefused("u/b", "max_iops", "5", ErrorCode::kNotFound,
                "change of \"u/b\": there is no group \"b\"; known: a, q, OTHER_GROUPS in plan "
                "\"p\"");
  ExpectRefused(
      "u/q/bb", "max_iops", "5", ErrorCode::kNotFound,
      "change of \"u/q/bb\": there is no group \"bb\"; did you mean \"b\"? in plan \"q\"");
  ExpectRefused("u/q/OTHER_GROUPS", "max_iops", "5", ErrorCode::kNotFound,
                "change of \"u/q/OTHER_GROUPS\": there is no group \"OTHER_GROUPS\"; known: b in "
                "plan \"q\"");
  ExpectRefused("u/a/b", "max_iops", "5", ErrorCode::kNotFound,
                "change of \"u/a/b\": group \"a\" has nothing below it");
  ExpectRefused("w/a", "max_iops", "5", ErrorCode::kNotFound,
                "change of \"w/a\": unit \"w\" has no plan, so no group \"a\"");
  for (const char* target : {"", "/", "u/", "u//a", "/a", "u/a/"}) {
    Config config = Parsed();
    EXPECT_FALSE(ApplyChange(&config, target, "max_iops", "5").has_value()) << target;
  }
}

TEST(ApplyChange, OfAnUnknownKeyOrToABadValueSaysWhy) {
  ExpectRefused("u", "mix_iops", "5", ErrorCode::kInvalidArgument,
                "change of \"u\": unknown key \"mix_iops\"; did you mean \"min_iops\"?");
  ExpectRefused("u", "name", "x", ErrorCode::kInvalidArgument,
                "change of \"u\": unknown key \"name\"; known keys: min_iops, max_iops, "
                "max_read_iops, max_write_iops, min_raw_iops, max_raw_iops, max_read_raw_iops, "
                "max_write_raw_iops, min_bandwidth, max_bandwidth, max_read_bandwidth, "
                "max_write_bandwidth, iops_weight, burst");
  ExpectRefused("u/a", "iops_weight", "5", ErrorCode::kInvalidArgument,
                "change of \"u/a\": unknown key \"iops_weight\"; did you mean \"weight_iops\"?");
  ExpectRefused("u", "max_bandwidth", "50", ErrorCode::kInvalidArgument,
                "change of \"u\": max_bandwidth = \"50\" is not a bandwidth: it has no unit; write "
                "for example \"50MB/s\", \"1MiB/s\" or \"unlimited\"");
  ExpectRefused("u/a", "min_iops", "5000", ErrorCode::kInvalidArgument,
                "change of \"u/a\": min_iops = \"5000\": it is a percentage of the node above, "
                "between 0 and 100");
}

TEST(ApplyChange, ThatWouldNotFitTheWholeIsRefused) {
  ExpectRefused("u", "min_iops", "20000", ErrorCode::kInvalidArgument,
                "change of \"u\": unit \"u\": min_iops (20,000/s) exceeds max_iops (10,000/s); "
                "lower the first or raise the second");
  ExpectRefused("u", "max_iops", "unlimited", ErrorCode::kInvalidArgument,
                "change of \"u\": directive \"a\" of plan \"p\": max_iops = 80 %: \"u\" has no "
                "max_iops to take a part of; set it there, or remove this");
  ExpectRefused("u/a", "min_iops", "40.5", ErrorCode::kInvalidArgument,
                "change of \"u/a\": plan \"p\": min_iops of its directives add up to 100.5 %, more "
                "than the 100 % there is (a 40.5, q 60); lower some");
  ExpectRefused("v/a", "max_iops", "1", ErrorCode::kInvalidArgument,
                "change of \"v/a\": directive \"a\" of plan \"p\": in unit \"u\" its min_iops "
                "(400/s) exceeds max_iops (100/s); lower the first percentage or raise the second");
  ExpectRefused("u/OTHER_GROUPS", "min_iops", "1", ErrorCode::kInvalidArgument,
                "change of \"u/OTHER_GROUPS\": plan \"p\": min_iops of its directives add up to "
                "101 %, more than the 100 % there is (a 40, q 60, OTHER_GROUPS 1); lower some");
}

TEST(ApplyChange, BeyondTheCapacityIsRefusedOnlyWhenStrict) {
  Config config = Parsed();
  ASSERT_TRUE(ApplyChange(&config, "w", "max_iops", "unlimited").has_value());
  EXPECT_TRUE(ApplyChange(&config, "w", "min_iops", "58000").has_value());
  ASSERT_TRUE(ApplyChange(&config, "w", "min_iops", "0").has_value());
  config.strict = true;
  EXPECT_TRUE(ApplyChange(&config, "w", "min_iops", "57000").has_value());
  EXPECT_FALSE(ApplyChange(&config, "w", "min_iops", "58000").has_value());
  EXPECT_EQ(Min(config, "w"), 57'000 * kOp);
}

// A thousand random changes: whatever is accepted resolves, whatever is refused changes nothing.
TEST(ApplyChange, RandomChangesKeepTheConfigurationValid) {
  Random random(11);
  Config config = Parsed();
  const std::vector<std::string> targets = {"u", "v", "w", "u/a", "v/q", "u/q/b", "v/OTHER_GROUPS"};
  const std::vector<std::string> keys = {"min_iops",    "max_iops",      "iops_weight",
                                         "weight_iops", "max_bandwidth", "min_raw_iops",
                                         "burst"};
  const std::vector<std::string> values = {"0",  "1",     "50",        "100",  "3000",
                                           "9k", "1MB/s", "unlimited", "10ms", "-1"};
  const auto pick = [&](const std::vector<std::string>& from) {
    return from[static_cast<size_t>(random.Range(0, static_cast<int64_t>(from.size()) - 1))];
  };
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto before = Resolve(config, "", 0, nullptr);
    ASSERT_TRUE(before.has_value()) << before.error().message;
    const bool done = ApplyChange(&config, pick(targets), pick(keys), pick(values)).has_value();
    accepted += done ? 1 : 0;
    if (done) continue;
    const auto after = Resolve(config, "", 0, nullptr);
    ASSERT_TRUE(after.has_value());
    ASSERT_EQ(after->size(), before->size());
    for (size_t n = 0; n < after->size(); ++n) {
      ASSERT_EQ((*after)[n].params, (*before)[n].params) << (*after)[n].path;
    }
  }
  EXPECT_GT(accepted, 300);
  EXPECT_LT(accepted, 2700);
}

}  // namespace
}  // namespace weir::catalog

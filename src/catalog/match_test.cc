// Goal: [[match]] is read as written; what can never match or leads nowhere is an error that names
// line, key, value and the fix.
#include <gtest/gtest.h>

#include "catalog/config.h"
#include "catalog/leaf_index.h"

namespace weir::catalog {
namespace {

constexpr char kUnits[] = R"(
[[unit]]
name = "plain"
[[unit]]
name = "tp"
plan = "p"
[[plan]]
name = "p"
[[plan.directive]]
group = "oltp"
[[plan.directive]]
subplan = "batch"
[[plan]]
name = "batch"
[[plan.directive]]
group = "night"
[[group]]
name = "oltp"
[[group]]
name = "night"
)";

Result<Config> Parse(const std::string& matches) {
  return ParseConfig(matches + kUnits, "weir.toml");
}

TEST(Match, EveryKeyIsAsWritten) {
  const auto config = Parse(
      "[[match]]\ngroup = \"tp/oltp\"\ncgroup = \"/docker/*\"\nuid = 27\ncomm = \"fio*\"\n"
      "pid = 12\npath = \"db/**.ibd\"\n[[match]]\ngroup = \"plain\"\nuser = \"mysql\"\n");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  ASSERT_EQ(config->matches.size(), 2u);
  const Match& first = config->matches[0];
  EXPECT_EQ(first.group, "tp/oltp");
  EXPECT_EQ(first.cgroup, "/docker/*");
  EXPECT_EQ(first.uid, 27);
  EXPECT_EQ(first.comm, "fio*");
  EXPECT_EQ(first.pid, 12);
  EXPECT_EQ(first.path, "db/**.ibd");
  EXPECT_EQ(first.line, 1);
  EXPECT_EQ(config->matches[1].user, "mysql");
  EXPECT_EQ(config->matches[1].uid, -1);
  EXPECT_EQ(DescribeMatch(first), "cgroup /docker/*, uid 27, comm fio*, pid 12, path db/**.ibd");
}

TEST(Match, TargetsAreUnitsGroupsAtAnyDepthAndUnmatched) {
  for (const char* target :
       {"plain", "tp", "tp/oltp", "tp/night", "tp/batch/night", "tp/OTHER_GROUPS", "unmatched"}) {
    const auto config = Parse(std::string("[[match]]\nuid = 1\ngroup = \"") + target + "\"\n");
    EXPECT_TRUE(config.has_value()) << target << ": " << config.error().message;
  }
  const auto config = Parse("");
  const auto nodes = Resolve(*config, "", 0, nullptr);
  const LeafIndex leaves(*nodes);
  const auto path = [&](const char* target) {
    return (*nodes)[static_cast<size_t>(leaves.Find(target).value())].path;
  };
  EXPECT_EQ(path("plain"), "plain");
  EXPECT_EQ(path("tp"), "tp/OTHER_GROUPS");
  EXPECT_EQ(path("tp/night"), "tp/batch/night");
}

TEST(Match, ErrorsSayWhatWhereWhyAndTheFix) {
  struct Case {
    const char* keys;
    const char* message;
  };
  const Case cases[] = {
      {"group = \"plain\"",
       "weir.toml:1: match 1: nothing to match; add at least one of cgroup, uid, user, comm, pid, "
       "path"},
      {"uid = 1",
       "weir.toml:1: match 1: group is missing; say which unit or unit/group these "
       "requests belong to"},
      {"uid = 1\ngroup = \"tp/oltq\"",
       "weir.toml:1: match 1: group = \"tp/oltq\": there is no unit or group \"tp/oltq\"; did you "
       "mean \"tp/oltp\"?"},
      {"uid = 1\ngroup = \"tp/batch\"",
       "weir.toml:1: match 1: group = \"tp/batch\": \"tp/batch\" is a subplan, which only its "
       "groups run in; known: tp/oltp, tp/batch/night, tp/OTHER_GROUPS, plain"},
      {"uid = -1\ngroup = \"tp\"",
       "weir.toml:2: match 1: uid = -1: it must be between 0 and 4294967294"},
      {"pid = 0\ngroup = \"tp\"",
       "weir.toml:2: match 1: pid = 0: it must be between 1 and "
       "2147483647"},
      {"uid = 1\nuser = \"a\"\ngroup = \"tp\"",
       "weir.toml:1: match 1: uid and user say the same; write one of them"},
      {"user = \"\"\ngroup = \"tp\"",
       "weir.toml:2: match 1: user = \"\": it is empty; remove it to match any"},
      {"path = \"/db\"\ngroup = \"tp\"",
       "weir.toml:1: match 1: path = \"/db\": it is relative to the volume; write it without the "
       "first '/'"},
      {"path = \"a/../b\"\ngroup = \"tp\"",
       "weir.toml:1: match 1: path = \"a/../b\": it can never match: write it without \"//\", "
       "\".\" and \"..\""},
      {"cgroup = \"docker\"\ngroup = \"tp\"",
       "weir.toml:1: match 1: cgroup = \"docker\": it begins with '/', as in /proc/PID/cgroup, "
       "without the place where the hierarchy is mounted"},
      {"comm = \"a_long_thread_name\"\ngroup = \"tp\"",
       "weir.toml:1: match 1: comm = \"a_long_thread_name\": it can never match: a thread's name "
       "has at most 15 bytes; end it with '*'"},
      {"cgruop = \"/a\"\ngroup = \"tp\"",
       "weir.toml:2: match 1: unknown key \"cgruop\" = \"/a\"; did you mean \"cgroup\"?"},
  };
  for (const Case& c : cases) {
    const auto config = Parse(std::string("[[match]]\n") + c.keys + "\n");
    ASSERT_FALSE(config.has_value()) << c.keys;
    EXPECT_EQ(config.error().message, c.message);
  }
}

TEST(Match, TheMaximumIsNamed) {
  std::string text = "match = [";
  for (size_t i = 0; i <= kMaxMatches; ++i) text += "{uid=1,group=\"tp\"},";
  const auto config = Parse(text + "]\n");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace weir::catalog

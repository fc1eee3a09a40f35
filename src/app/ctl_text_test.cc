// Goal: what is typed becomes the request that was meant, or an error that says how to write it;
// answers are shown in the words of weir.toml.
#include "app/ctl_text.h"

#include <gtest/gtest.h>

namespace weir::app {
namespace {

constexpr char kGroups[] = R"({"version":1,"groups":[
{"path":"tp","leaf":false,"params":{"min_iops":1000,"max_iops":20000,"min_bandwidth":1000000,"weight":100}},
{"path":"tp/batch","leaf":false,"params":{"weight":50}},
{"path":"tp/batch/night","leaf":true,"params":{"weight":100}},
{"path":"unmatched","leaf":true,"params":{"weight":100}}]})";

TEST(CtlText, AssignmentsAndFlagsBecomeKeys) {
  EXPECT_EQ(ParseAssignment("max_iops=40000").value(),
            (std::pair<std::string, std::string>("max_iops", "40000")));
  EXPECT_EQ(ParseAssignment("max_bandwidth = 5 MB/s").value().second, "5 MB/s");
  for (const char* wrong : {"", "max_iops", "=1", "max_iops="}) {
    EXPECT_NE(ParseAssignment(wrong).error().message.find("write key=value"), std::string::npos);
  }
  EXPECT_EQ(KeyOfFlag("min-bps", true), "min_bandwidth");
  EXPECT_EQ(KeyOfFlag("weight", true), "iops_weight");
  EXPECT_EQ(KeyOfFlag("weight", false), "weight_iops");
}

TEST(CtlText, AbsoluteValuesOfAGroupBecomePercentages) {
  EXPECT_FALSE(NeedsPercentages("tp", {{"min_iops", "500/s"}}));
  EXPECT_FALSE(NeedsPercentages("tp/batch", {{"min_iops", "50"}}));
  const KeysAndValues values = {
      {"min_iops", "500/s"}, {"min_bandwidth", "100kB/s"}, {"weight_iops", "30"}};
  ASSERT_TRUE(NeedsPercentages("tp/batch", values));
  const auto percent = ToPercentages("tp/batch", values, kGroups);
  ASSERT_TRUE(percent.has_value()) << percent.error().message;
  EXPECT_EQ(*percent,
            (KeysAndValues{
                {"min_iops", "50.0000"}, {"min_bandwidth", "10.0000"}, {"weight_iops", "30"}}));
  // The limit in force above, though the subplan's own is 100 % of it.
  EXPECT_EQ(ToPercentages("tp/night", {{"max_iops", "5000/s"}}, kGroups).value()[0].second,
            "25.0000");
  EXPECT_EQ(ToPercentages("tp/batch", {{"min_iops", "2000/s"}}, kGroups).error().message,
            "min_iops = \"2000/s\" of tp/batch: tp has only 1,000/s; raise that first");
  EXPECT_EQ(ToPercentages("tp/night", {{"min_iops", "10/s"}}, kGroups).error().message,
            "min_iops = \"10/s\" of tp/night: tp/batch has no min_iops to take a part of; set it "
            "there first");
}

TEST(CtlText, RequestsAreJson) {
  EXPECT_EQ(SetArgs("tp", {{"max_iops", "1"}}, false),
            R"({"target":"tp","values":{"max_iops":"1"},"dry_run":false})");
  EXPECT_EQ(TextArgs({{"pid", "7"}, {"cgroup", ""}, {"group", "a\"b"}}),
            R"({"pid":7,"group":"a\"b"})");
}

TEST(CtlText, AnswersAreTables) {
  EXPECT_EQ(ShowText("groups", kGroups),
            "GROUP           SETTINGS\n"
            "tp              min_iops 1,000/s  max_iops 20,000/s  min_bandwidth 1.0 MB/s  weight "
            "100\n"
            "tp/batch        weight 50\n"
            "tp/batch/night  weight 100\n"
            "unmatched       weight 100\n");
  EXPECT_EQ(ShowText("matches",
                     R"({"matches":[{"source":"attached","match":"pid 7","group":"tp"},
                         {"source":"file","line":9,"match":"uid 27","group":"x"}],
                         "unmatched":"unmatched"})"),
            "   MATCH               GROUP      FROM\n"
            "1  pid 7               tp         attached\n"
            "2  uid 27              x          line 9\n"
            "   what no match fits  unmatched  built in\n");
  EXPECT_EQ(ChangeText(R"({"version":4,"changes":["add x"],"warnings":["w"]})", false),
            "add x\nwarning: w\nplan 4\n");
  EXPECT_EQ(ChangeText(R"({"version":4,"changes":[],"warnings":[]})", true),
            "nothing changes\ndry run: nothing was changed\n");
  EXPECT_EQ(ExplainText(R"({"depth":8,"norm_in_flight":8,"groups":[{"path":"a/b","queued_reads":3,
             "queued_writes":0,"why":"limit","node":"a","limit":"max_iops"}]})"),
            "GROUP  READS  WRITES  WAITS FOR\n"
            "a/b    3      0       max_iops of a\n"
            "in flight 8.0 of depth 8.0\n");
  for (const char* strange : {"", "[]", "{\"groups\":7}", "{\"groups\":[7,[]]}"}) {
    for (const char* what : {"plan", "units", "groups", "matches"}) {
      EXPECT_FALSE(ShowText(what, strange).empty());
    }
    EXPECT_FALSE(ExplainText(strange).empty());
  }
}

}  // namespace
}  // namespace weir::app

// Goal: tables fit a terminal, JSON and CSV can be read back, the page needs nothing from outside,
// and no name, however hostile, breaks any of them. Method: made-up runs, output parsed back.

#include "scenario/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "scenario/report_fixture.h"
#include "scenario/report_format.h"

namespace weir::scenario {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

RunResult HostileRun() {
  RunResult run = MakeRun();
  run.title = "</title><script>alert(1)</script>\x1b[2J";
  run.groups[0].path = std::string(300, 'x') + "\"><img src=x>&'";
  run.groups[1].path = "новая\x1b[31m\n\xff\xfe,\"quoted\"";
  run.groups[2].path = run.groups[1].path + "/A";
  run.groups[3].path = run.groups[1].path + "/B";
  run.intervals[3].notes = {"a,b\"c\r\n<b>"};
  run.intervals[4].groups[0].norm_iops = 123'456'789'012.0;
  run.intervals[4].groups[0].bytes_per_s = 9e18;
  run.intervals[5].groups[0].norm_iops = std::nan("");
  run.intervals[6].groups.resize(2);  // fewer samples than groups
  return run;
}

TEST(Table, LinesFitAHundredColumns) {
  for (const RunResult& run : {MakeRun(), HostileRun()}) {
    std::string text = TableHeader(run);
    for (const Interval& interval : run.intervals) text += TableInterval(run, interval);
    for (const std::string& line : Lines(text)) {
      if (line.starts_with(">>") || line == Lines(text).front()) continue;
      EXPECT_LE(DisplayWidth(line), 100u) << line;
      EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
    }
  }
}

TEST(Table, SaysWhoGetsWhatAndWhy) {
  const RunResult run = MakeRun();
  const std::string header = TableHeader(run);
  EXPECT_THAT(header, HasSubstr("Four tenants of one disk"));
  EXPECT_THAT(header, HasSubstr("60,000 norm IOPS"));
  EXPECT_THAT(header, HasSubstr("MB/s"));
  EXPECT_THAT(header, HasSubstr("p99 ms"));

  const std::string block = TableInterval(run, run.intervals[10]);
  EXPECT_THAT(block, HasSubstr("-- 10-11 s -- device 60,000 norm op/s, 100.0 % of 60,000"));
  EXPECT_THAT(block, HasSubstr(">> tenant3 starts"));
  EXPECT_THAT(block, HasSubstr("93 % MAX_IOPS(norm)"));
  EXPECT_THAT(block, HasSubstr("\n  A "));     // indented below tenant2
  EXPECT_THAT(block, HasSubstr(" 100/0/0 "));  // tenant3 by reservation
}

TEST(Table, AGroupBelowAHeldBackParentSaysSo) {
  RunResult run = MakeRun();
  run.intervals[0].groups[1].blocked_share = 0.5;
  run.intervals[0].groups[1].blocked_by = "MAX_BANDWIDTH";
  const std::string block = TableInterval(run, run.intervals[0]);
  EXPECT_THAT(block, HasSubstr("50 % MAX_BANDWIDTH"));
  EXPECT_THAT(block, HasSubstr("50 % with tenant2"));
}

TEST(Table, ManyGroupsAreCutAndCounted) {
  RunResult run;
  Interval interval;
  for (int i = 0; i < 500; ++i) {
    run.groups.push_back(MakeGroup("g" + std::to_string(i), -1, true));
    interval.groups.push_back(MakeSample(1, Duration(1000), 1));
  }
  run.intervals.push_back(interval);
  const std::string block = TableInterval(run, interval);
  EXPECT_EQ(Lines(block).size(), kMaxTableRows + 2);
  EXPECT_THAT(block, HasSubstr("... and 440 more groups"));
}

TEST(Table, AnUnusedOtherGroupsIsLeftOut) {
  RunResult run = MakeRun();
  run.groups[3].path = "tenant2/OTHER_GROUPS";
  EXPECT_THAT(TableInterval(run, run.intervals[0]), HasSubstr("OTHER_GROUPS"));
  for (Interval& interval : run.intervals) interval.groups[3] = GroupSample{};
  EXPECT_THAT(TableInterval(run, run.intervals[0]), Not(HasSubstr("OTHER_GROUPS")));
  EXPECT_THAT(Summary(run, {}), Not(HasSubstr("OTHER_GROUPS")));
  EXPECT_EQ(ToHtml("t", {run}, {}).find("OTHER_GROUPS"), std::string::npos);
  EXPECT_THAT(ToCsv(run), HasSubstr("OTHER_GROUPS"));
}

TEST(Table, WiderTerminalsShowLongerNames) {
  RunResult run = MakeRun();
  run.groups[0].path = "a-name-of-thirty-characters-xx";
  EXPECT_THAT(TableInterval(run, run.intervals[0]), Not(HasSubstr(run.groups[0].path)));
  TableStyle style;
  style.columns = 140;
  EXPECT_THAT(TableInterval(run, run.intervals[0], style), HasSubstr(run.groups[0].path));
}

TEST(Summary, CountsWhatHeld) {
  const std::string text = Summary(MakeRun(), {{true, "a promise", "1"}, {false, "another", "2"}});
  EXPECT_THAT(text, HasSubstr("Promises: 1 of 2 held"));
  EXPECT_THAT(text, HasSubstr("HELD    a promise: 1"));
  EXPECT_THAT(text, HasSubstr("MISSED  another: 2"));
  EXPECT_THAT(text, HasSubstr("Mean over 20 s"));
}

TEST(Limits, AreCalledByDimensionAndScope) {
  EXPECT_EQ(LimitName(Dimension::kNorm, Scope::kBoth), "MAX_IOPS(norm)");
  EXPECT_EQ(LimitName(Dimension::kRaw, Scope::kRead), "MAX_IOPS(raw,read)");
  EXPECT_EQ(LimitName(Dimension::kBytes, Scope::kBoth), "MAX_BANDWIDTH");
  EXPECT_EQ(LimitName(Dimension::kBytes, Scope::kWrite), "MAX_BANDWIDTH(write)");
}

TEST(Json, ReadsBackWithTheNumbersOfTheRun) {
  const auto json = nlohmann::json::parse(ToJson(MakeRun(), {{true, "p", "m"}}));
  EXPECT_EQ(json["capacity_norm_iops"], 60'000);
  EXPECT_EQ(json["groups"].size(), 6u);
  EXPECT_EQ(json["groups"][4]["min"]["norm_iops"], 10'000);
  EXPECT_EQ(json["groups"][5]["max"]["norm_iops"], 5'000);
  EXPECT_EQ(json["intervals"].size(), 20u);
  EXPECT_EQ(json["intervals"][10]["notes"][0], "tenant3 starts");
  EXPECT_EQ(json["intervals"][10]["groups"][5]["blocked_by"], "MAX_IOPS(norm)");
  EXPECT_NEAR(json["totals"][0]["norm_iops"].get<double>(), 60'000, 1);
  EXPECT_EQ(json["intervals"][0]["groups"][0]["latency"]["count"], 100);
  EXPECT_EQ(json["verdicts"][0]["held"], true);
  EXPECT_FALSE(json["intervals"][0]["groups"][1].contains("latency"));  // an inner group
}

TEST(Json, HostileNamesStillParse) {
  EXPECT_TRUE(nlohmann::json::accept(ToJson(HostileRun(), {})));
  EXPECT_TRUE(nlohmann::json::accept(ToJson(RunResult{}, {})));
}

// Splits as RFC 4180 says.
std::vector<std::vector<std::string>> ParseCsv(const std::string& csv) {
  std::vector<std::vector<std::string>> rows(1, {""});
  bool quoted = false;
  for (size_t i = 0; i < csv.size(); ++i) {
    const char c = csv[i];
    if (quoted && c == '"' && i + 1 < csv.size() && csv[i + 1] == '"') {
      rows.back().back() += csv[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      rows.back().emplace_back();
    } else if (!quoted && c == '\r') {
      continue;
    } else if (!quoted && c == '\n') {
      rows.push_back({""});
    } else {
      rows.back().back() += c;
    }
  }
  rows.pop_back();
  return rows;
}

TEST(Csv, EveryRowHasEveryColumn) {
  for (const RunResult& run : {MakeRun(), HostileRun(), RunResult{}}) {
    const auto rows = ParseCsv(ToCsv(run));
    for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  }
  const auto rows = ParseCsv(ToCsv(HostileRun()));
  EXPECT_EQ(rows[2][2], HostileRun().groups[1].path);  // exactly as it was
  EXPECT_EQ(rows[0][3], "norm_iops");
}

TEST(Html, NeedsNothingFromOutside) {
  const std::string html = ToHtml("t", {MakeRun(), MakeRun()}, {{{true, "p", "m"}}});
  for (const char* reference : {"http:", "https:", "src=", "href=", "url(", "@import", "<script"}) {
    EXPECT_EQ(html.find(reference), std::string::npos) << reference;
  }
  EXPECT_NE(html.find("HELD"), std::string::npos);
  EXPECT_NE(html.find("normalised IOPS"), std::string::npos);
}

TEST(Html, HostileNamesAreEscaped) {
  const std::string html = ToHtml("<b>\"title\"", {HostileRun()}, {{{false, "<i>", "</i>"}}});
  for (const char* raw : {"<script>", "<img", "<i>", "<b>\"", "\x1b", "\xff"}) {
    EXPECT_EQ(html.find(raw), std::string::npos) << raw;
  }
  EXPECT_NE(html.find("MISSED"), std::string::npos);
}

// Numbers that are not there (idle groups, no interval at all) are gaps, never "nan" in a path.
TEST(Html, GapsAreNotNumbers) {
  RunResult empty;
  empty.groups = {MakeGroup("a", -1, true)};
  RunResult one_interval = MakeRun();
  one_interval.intervals.resize(1);
  for (const RunResult& run : {MakeRun(), HostileRun(), empty, one_interval, RunResult{}}) {
    const std::string html = ToHtml("t", {run}, {});
    for (const char* raw : {"\"nan", ">nan", " nan", "Mnan", "Lnan", "-nan", "inf"}) {
      EXPECT_EQ(html.find(raw), std::string::npos) << raw;
    }
  }
}

RunResult FlatRun(int groups, int seconds) {
  RunResult run;
  for (int i = 0; i < groups; ++i)
    run.groups.push_back(MakeGroup("g" + std::to_string(i), -1, true));
  run.intervals.resize(static_cast<size_t>(seconds));
  for (int second = 0; second < seconds; ++second) {
    Interval& interval = run.intervals[static_cast<size_t>(second)];
    interval.start_s = second;
    for (int i = 0; i < groups; ++i) interval.groups.push_back(MakeSample(i, Duration(1000), 1));
  }
  return run;
}

TEST(Html, OnlyTheBusiestOfManyGroupsAreDrawn) {
  const std::string html = ToHtml("t", {FlatRun(100, 4)}, {});
  EXPECT_NE(html.find("The 24 busiest of 100 leaf groups"), std::string::npos);
  EXPECT_EQ(html.find("</svg>g50<"), std::string::npos);  // in the legend
  EXPECT_NE(html.find("</svg>g99<"), std::string::npos);
}

TEST(Html, LongRunsAreThinnedOut) {
  EXPECT_LT(ToHtml("t", {FlatRun(2, 3000)}, {}).size(), 250'000u);
}

TEST(Format, NumbersReadWell) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(62.5), "62.5");
  EXPECT_EQ(FormatCount(0.333333), "0.3333");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCount(999.96), "1,000");
  EXPECT_EQ(FormatBandwidth(693e3), "693 kB/s");
  EXPECT_EQ(FormatBandwidth(4.979e6), "4.979 MB/s");
  EXPECT_EQ(FormatLatency(std::chrono::microseconds(1920)), "1.92 ms");
  EXPECT_EQ(FormatLatency(std::chrono::seconds(75)), "75 s");
  EXPECT_EQ(FormatPercent(0.999), "99 %");
  EXPECT_EQ(FormatPercent(0.001), "<1 %");
  EXPECT_EQ(FormatUse(9'832, 10'000), "98.3 % of 10,000");
  EXPECT_EQ(FormatUse(9'829, 1), "9,829 times 1");
  EXPECT_EQ(FormatUse(17, 17.7), "96.0 % of 17.7");
  EXPECT_EQ(FormatSeconds(12.5), "12.5");
  EXPECT_EQ(FitLeft("abcdefgh", 5), "ab…gh");
  EXPECT_EQ(FitRight("ab", 4), "  ab");
  EXPECT_EQ(Printable("a\x1b[0m\n\xff"), "a?[0m??");
  EXPECT_EQ(DisplayWidth("новая"), 5u);
}

}  // namespace
}  // namespace weir::scenario

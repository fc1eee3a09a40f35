// Goal: the screen says what the counters say, in 80 columns and in more, whatever the numbers and
// names are.
#include "app/top_render.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

namespace weir::app {
namespace {

constexpr char kStats[] = R"({"sequence":7,"version":3,"window_s":1.0,"since_start":false,
"engine":{"depth":24.5,"norm_in_flight":12.25,"io_errors":0},
"groups":[
{"path":"tp_unit","level":0,"leaf":false,"norm_iops":12000,"raw_iops":9000,"read_iops":8000,
 "write_iops":1000,"bytes_per_s":150e6,"queued_reads":30,"queued_writes":2,"in_flight":12,
 "wait_p50_us":120,"wait_p99_us":2400,"service_p50_us":90,"service_p99_us":800,
 "by_reservation":0.5,"by_weight":0.25,"by_leftover":0.25,"blocked_by":"max_iops",
 "blocked_share":0.62},
{"path":"tp_unit/oltp","level":1,"leaf":true,"norm_iops":10000,"raw_iops":8000,"bytes_per_s":131e6,
 "queued_reads":2,"in_flight":9,"wait_p50_us":100,"wait_p99_us":1500,"service_p50_us":90,
 "service_p99_us":700,"by_reservation":0.6,"by_weight":0.4,"by_leftover":0},
{"path":"tp_unit/olap","level":1,"leaf":true,"norm_iops":2000,"raw_iops":1000,"bytes_per_s":19e6,
 "queued_reads":28,"queued_writes":2,"in_flight":3,"wait_p50_us":25000,"wait_p99_us":1300000,
 "service_p50_us":95,"service_p99_us":900,"by_reservation":0,"by_weight":1,"by_leftover":0,
 "blocked_by":"max_write_bandwidth","blocked_share":0.25},
{"path":"unmatched","level":0,"leaf":true}]})";

TopFrame Frame() {
  auto frame = ParseTopFrame(kStats);
  EXPECT_TRUE(frame.has_value());
  return frame.value_or(TopFrame{});
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Top, TheScreenInEightyColumns) {
  EXPECT_EQ(RenderTop(Frame(), {}),
            "plan 3   window 1.0 s   in flight 12.2 of depth 24.5\n"
            "GROUP            NORM   RAW  MB/s  QUE  W50  W99  S50  S99  R/W/L % BLOCKED BY\n"
            "tp_unit         12000  9000   150   32 120u 2.4m  90u 800u 50/25/25 iops 62%\n"
            "  oltp          10000  8000   131    2 100u 1.5m  90u 700u  60/40/0 ^iops 62%\n"
            "  olap           2000  1000    19   30  25m 1.3s  95u 900u  0/100/0 ^iops 62%\n"
            "unmatched           0     0  0.00    0    -    -    -    -        - -\n");
}

TEST(Top, AWideScreenShowsMore) {
  TopView view;
  view.columns = 140;
  const std::vector<std::string> lines = Lines(RenderTop(Frame(), view));
  EXPECT_NE(lines[1].find("READ WRITE"), std::string::npos);
  EXPECT_NE(lines[1].find("FLY"), std::string::npos);
  EXPECT_NE(lines[2].find("max_iops 62%"), std::string::npos);
}

TEST(Top, SiblingsAreSortedWithinTheTree) {
  const TopFrame frame = Frame();
  const auto order = [&](TopSort sort, bool reverse = false) {
    TopView view;
    view.sort = sort;
    view.reverse = reverse;
    return TopOrder(frame, view);
  };
  EXPECT_EQ(order(TopSort::kPlan), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(order(TopSort::kName), (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(order(TopSort::kQueue), (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(order(TopSort::kNorm), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(order(TopSort::kNorm, true), (std::vector<int>{3, 0, 2, 1}));
  EXPECT_EQ(order(TopSort::kPlan, true), (std::vector<int>{3, 0, 2, 1}));
  EXPECT_EQ(ParseTopSort("queue").value(), TopSort::kQueue);
  EXPECT_NE(ParseTopSort("x").error().message.find("plan, name, norm"), std::string::npos);
}

TEST(Top, AFilterKeepsWhatIsAbove) {
  TopView view;
  view.filter = "olap";
  EXPECT_EQ(TopOrder(Frame(), view), (std::vector<int>{0, 2}));
  view.filter = "nothing";
  EXPECT_TRUE(TopOrder(Frame(), view).empty());
}

TEST(Top, AScreenWithFewLinesIsScrolled) {
  TopView view;
  view.title = "weir top";
  view.status = "q quits";
  view.lines = 6;
  view.first_row = 1;
  const std::vector<std::string> lines = Lines(RenderTop(Frame(), view));
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0], "weir top");
  EXPECT_EQ(lines[3].substr(0, 6), "  oltp");
  EXPECT_EQ(lines[5], "q quits");
  view.first_row = 100;
  EXPECT_EQ(Lines(RenderTop(Frame(), view))[4].substr(0, 9), "unmatched");
}

TEST(Top, NoLineIsWiderThanTheScreenWhateverIsInIt) {
  TopFrame frame = Frame();
  const double values[] = {
      0,       0.04,     9.96,      99.96, 999.6,
      9'999.6, 99'999.6, 123'456.0, 1e7,   1e9,
      1e12,    1e17,     1e30,      -5,    std::numeric_limits<double>::quiet_NaN()};
  for (const double value : values) {
    EXPECT_LE(ShortNumber(value).size(), 5u) << value;
    EXPECT_LE(ShortMicros(value).size(), 4u) << value;
    for (TopRow& row : frame.rows) {
      row.norm_iops = row.raw_iops = row.bytes_per_s = value;
      row.queued = value > 0 && value < 1e18 ? static_cast<uint64_t>(value) : 0;
      row.wait_p50_us = row.wait_p99_us = row.service_p50_us = row.service_p99_us = value;
      row.path = "\xc3\xa4\x1b[31m a very long name that does not fit anywhere at all \xe2\x82\xac";
      row.level = 7;
      row.blocked_by = "max_write_raw_iops";
      row.blocked_share = 1;
    }
    for (const int columns : {0, 80, 93, 100, 120, 200}) {
      TopView view;
      view.columns = columns;
      for (const std::string& line : Lines(RenderTop(frame, view))) {
        const auto width = std::count_if(line.begin(), line.end(), [](char c) {
          return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
        });
        EXPECT_LE(width, std::max(80, columns)) << line;
        EXPECT_EQ(line.find('\x1b'), std::string::npos);
      }
    }
  }
}

TEST(Top, AnswersThatAreNoStatsAreErrors) {
  for (const char* text : {"", "[]", "{}", "{\"groups\":7}"}) {
    EXPECT_FALSE(ParseTopFrame(text).has_value()) << text;
  }
  EXPECT_TRUE(ParseTopFrame(R"({"groups":[7,{"path":7,"norm_iops":"x","queued_reads":-1}]})"));
}

}  // namespace
}  // namespace weir::app

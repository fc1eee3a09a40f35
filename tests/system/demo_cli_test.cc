// Goal: `weir demo` runs from end to end, judges every promise and writes a page that needs nothing
// else; it leaves no scratch file. Method: the built binary at the shortest length, at which the
// disk's noise decides about the verdicts, so that those are only counted.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "weir_process.h"

namespace weir {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Not;

class DemoCommand : public WeirSystemTest {};

TEST_F(DemoCommand, JudgesEveryPromiseAndWritesThePage) {
  const WeirOutcome run =
      RunWeir({"demo", "--dir", scratch(), "--html", Path("page.html"), "--seconds-scale", "0.02"});
  EXPECT_THAT(run.status, AnyOf(Eq(0), Eq(1))) << run.output;
  for (const char* text :
       {"All limits are scaled by", "tenant3 gets >= 99 %", "tenant4 never passes",
        "tenant1 : tenant2 = 2 : 1", "tenant2/A never passes", "tenant2/B, weight 0",
        "tenant2/C : tenant2/D = 2 : 1", "of what it gives unscheduled", "in force within 10 ms",
        "raw IOPS stay below", "of 12 promises held"}) {
    EXPECT_THAT(run.output, HasSubstr(text));
  }
  const std::string page = Read(Path("page.html"));
  EXPECT_THAT(page, HasSubstr("</html>"));
  EXPECT_THAT(page, HasSubstr("limits of the article"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_TRUE(std::filesystem::is_empty(scratch()));
}

TEST_F(DemoCommand, CtrlCEndsIt) {
  WeirProcess process({"demo", "--dir", scratch(), "--html", Path("page.html")});
  ASSERT_TRUE(process.AwaitOutput("calibration")) << process.output();
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 130) << process.output();
  EXPECT_FALSE(std::filesystem::exists(Path("page.html")));
  EXPECT_TRUE(std::filesystem::is_empty(scratch()));
}

TEST_F(DemoCommand, BadUsageIsStatusTwoAndSaysWhatToDo) {
  struct Case {
    std::vector<std::string> arguments;
    std::string expected;
  };
  const std::string dangling = Path("dangling");
  std::filesystem::create_symlink(Path("target"), dangling);
  const std::vector<Case> cases = {
      {{"demo", "--dir", Path("no/such/place")}, "--dir"},
      {{"demo", "--dir", Path("nowhere")}, "No such file"},
      {{"demo", "--dir", dangling}, "No such file"},
      {{"demo", "--dir", ""}, "--dir"},
      {{"demo", "--dir", Write("file", "x")}, "no directory"},
      {{"demo", "--dir", scratch(), "--seconds-scale", "0"}, "from 0.02 to 1"},
      {{"demo", "--dir", scratch(), "--seconds-scale", "nan"}, "from 0.02 to 1"},
      {{"demo", "--dir", scratch(), "--html", ""}, "empty"},
      {{"demo", "--dir", scratch(), "--html", "-"}, "give the page a file name"},
      {{"demo", "--dir", scratch(), "--html", scratch()}, "directory"},
  };
  for (const Case& c : cases) {
    const WeirOutcome run = RunWeir(c.arguments);
    EXPECT_EQ(run.status, 2) << ::testing::PrintToString(c.arguments) << "\n" << run.output;
    EXPECT_THAT(run.output, HasSubstr(c.expected));
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch()));
  EXPECT_FALSE(std::filesystem::exists(Path("target")));
}

}  // namespace
}  // namespace weir

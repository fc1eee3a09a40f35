// Goal: `weir demo` runs from end to end, judges every promise and writes a page that needs nothing
// else; it leaves no scratch file. Method: the built binary at the shortest length, at which the
// disk's noise decides about the verdicts, so that those are only counted.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

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

TEST_F(DemoCommand, BadUsageIsStatusTwo) {
  EXPECT_EQ(RunWeir({"demo", "--dir", Path("no/such/place")}).status, 2);
  EXPECT_EQ(RunWeir({"demo", "--dir", Write("file", "x")}).status, 2);
  EXPECT_EQ(RunWeir({"demo", "--dir", scratch(), "--seconds-scale", "0"}).status, 2);
  EXPECT_EQ(RunWeir({"demo", "--dir", scratch(), "--html", scratch()}).status, 2);
}

}  // namespace
}  // namespace weir

// Goal: however `weir bench` ends, nothing is left behind, and Ctrl-C still shows what ran. Method:
// signals at each stage of a run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "weir_process.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class BenchStop : public WeirSystemTest {
 protected:
  // Bytes that deleted, still open files hold in the scratch directory's file system are freed when
  // the process is gone; what can be left behind is a name.
  void ExpectNothingLeft() const { EXPECT_TRUE(std::filesystem::is_empty(scratch())); }
};

TEST_F(BenchStop, CtrlCPrintsTheSummaryOfWhatRanAndRemovesTheScratchFile) {
  for (const int signal : {SIGINT, SIGTERM}) {
    WeirProcess process({"bench", Write("s.toml", SmallScenario("1h")), "--file", scratch(),
                         "--json", Path("r.json")});
    ASSERT_TRUE(process.AwaitOutput("-- 0-")) << process.output();  // a whole second has run
    process.Signal(signal);
    EXPECT_EQ(process.Wait(), 128 + signal) << process.output();
    EXPECT_THAT(process.output(), HasSubstr("Mean over"));
    EXPECT_THAT(process.output(), HasSubstr("stopped after"));
    EXPECT_THAT(Read(Path("r.json")), HasSubstr("intervals"));
    ExpectNothingLeft();
  }
}

TEST_F(BenchStop, CtrlCWhileTheScratchFileIsWrittenOrTheDiskMeasured) {
  std::string text = SmallScenario("1h");
  const std::string capacity = "capacity_iops = 20_000";
  text.replace(text.find(capacity), capacity.size(), "");
  WeirProcess process({"bench", Write("s.toml", text), "--file", scratch()});
  ASSERT_TRUE(process.AwaitOutput("calibration")) << process.output();
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 130) << process.output();
  EXPECT_THAT(process.output(), Not(HasSubstr("Mean over")));
  ExpectNothingLeft();
}

TEST_F(BenchStop, PromisesThatDidNotRunInFullAreNotJudged) {
  const std::string expect =
      "[[expect]]\nmetric = \"norm_iops\"\ngroup = \"limited\"\nfrom = \"10m\"\nmin = 1\n";
  WeirProcess process({"bench", Write("s.toml", SmallScenario("1h", expect)), "--file", scratch()});
  ASSERT_TRUE(process.AwaitOutput("-- 0-")) << process.output();
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 130);
  EXPECT_THAT(process.output(), Not(HasSubstr("MISSED")));
}

TEST_F(BenchStop, EvenAKilledRunLeavesNoFile) {
  WeirProcess process({"bench", Write("s.toml", SmallScenario("1h")), "--file", scratch()});
  ASSERT_TRUE(process.AwaitOutput("-- 0-")) << process.output();
  ExpectNothingLeft();  // it has no name even while it is in use
  process.Signal(SIGKILL);
  EXPECT_EQ(process.Wait(), 128 + SIGKILL);
  ExpectNothingLeft();
}

TEST_F(BenchStop, ALimitedQueueDoesNotDelayTheEnd) {
  // 16 requests at one in ten seconds would take minutes.
  const std::string file = Write("s.toml", R"(
duration = "300ms"
[bench]
file_size = "64MiB"
[[device]]
name = "d"
path = "."
capacity_iops = 20_000
[[unit]]
name = "u"
max_iops = 0.1
[[load]]
name = "l"
group = "u"
threads = 16
)");
  const WeirOutcome run = RunWeir({"bench", file, "--file", scratch(), "--quiet"});
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output, Not(HasSubstr("still in the device")));
}

}  // namespace
}  // namespace weir

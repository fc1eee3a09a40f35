// Goal: `weir calibrate` refuses what cannot work before it measures, which takes minutes. Method:
// the built binary; what it measures is tested in src/device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weir_process.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

class CalibrateCommand : public WeirSystemTest {};

TEST_F(CalibrateCommand, BadUsageIsStatusTwoAndSaysWhatToDo) {
  struct Case {
    std::vector<std::string> arguments;
    std::string expected;
  };
  const std::string file = Write("file", "kept");
  std::filesystem::create_symlink(Path("target"), Path("dangling"));
  const std::vector<Case> cases = {
      {{"calibrate"}, "PATH"},
      {{"calibrate", Path("nowhere")}, "give an existing directory"},
      {{"calibrate", Path("dangling")}, "give an existing directory"},
      {{"calibrate", ""}, "give an existing directory"},
      {{"calibrate", scratch(), "--output", ""}, "--output: it is empty"},
      {{"calibrate", scratch(), "--output", scratch()}, "give another name with --output"},
      {{"calibrate", scratch(), "--output", Path("no/p.json")}, "No such file"},
      {{"calibrate", scratch(), "--output", "/dev/stdout"}, "--json prints the profile"},
      {{"calibrate", scratch(), "--output", "-"}, "--json prints the profile"},
      {{"calibrate", file, "--output", file}, "it is what is to be measured"},
      {{"calibrate", scratch(), "--size", ""}, "--size: it is empty"},
      {{"calibrate", scratch(), "--size", "12 parsecs"}, "parsecs"},
      {{"calibrate", scratch(), "--size", "1k", "--output", Path("p")}, "16 MiB"},
      {{"calibrate", scratch(), "--json", "--io-cost-model"}, "--io-cost-model"},
  };
  for (const Case& c : cases) {
    const WeirOutcome run = RunWeir(c.arguments, folder_.string());
    EXPECT_EQ(run.status, 2) << ::testing::PrintToString(c.arguments) << "\n" << run.output;
    EXPECT_THAT(run.output, HasSubstr(c.expected)) << ::testing::PrintToString(c.arguments);
  }
  EXPECT_EQ(Read(file), "kept");
  EXPECT_TRUE(std::filesystem::is_empty(scratch()));
}

}  // namespace
}  // namespace weir
